//go:build !linux && !darwin

package process

import (
	"legwork/internal/fault"
	"legwork/internal/launcher"
)

// New returns a fault.Unsupported: no Runner starts on this operating system.
func New(launcher.Host) (launcher.Launcher, error) {
	return nil, fault.New(fault.Unsupported, "launcher_unsupported", "processes of Runners cannot be started on this operating system").
		WithHint("launch them through a Runner on Linux or macOS, or in containers")
}
