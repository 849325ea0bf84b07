//go:build !linux

package confine

import "runtime"

// Supported returns nil when programs can be confined on this host, and otherwise a fault that says what is missing.
func Supported() error {
	return unsupported("programs can be confined on Linux only, not on " + runtime.GOOS)
}

// Exec replaces this process by argv, confined. It returns only when that failed.
func Exec(Policy, []string, []string) error { return Supported() }
