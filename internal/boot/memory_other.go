//go:build !linux

package boot

// leanMemory does nothing here.
func leanMemory() {}
