//go:build !linux && !darwin

package runner

import "syscall"

// canReplace tells whether the file of a program that runs can be replaced here, and the process go on as it.
const canReplace = false

func besideAttr() *syscall.SysProcAttr { return nil }

func endBeside(int) {}

func awaitEnd(int) {}
