//go:build !linux

package boot

// releaseProgramFile does nothing on this platform.
func releaseProgramFile() {}
