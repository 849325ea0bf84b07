//go:build !linux

package process

import "os"

// KeepPrivate prevents other processes of the same user from reading this process's memory, where the system can do that.
func KeepPrivate() error { return nil }

// WithoutSettings returns the environment that this process was given. Only Linux shows it to others.
func WithoutSettings(func(name string) bool) ([]string, error) { return os.Environ(), nil }
