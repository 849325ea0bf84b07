package boot

import "runtime/debug"

// version is set by the linker: see the Makefile.
var version string

// Version gives the version of the program: what it was built as, else what Go knows of its module.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
