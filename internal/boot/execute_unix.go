//go:build unix

package boot

import "syscall"

// execute has this process go on as another program.
func execute(program string, args, environ []string) error {
	return syscall.Exec(program, args, environ)
}
