package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"legwork/internal/fault"
)

// shells are the arguments of each shell, by its name.
var shells = map[string][]string{
	"bash": {"-euo", "pipefail"},
	"sh":   {"-eu"},
}

// defaultShell runs what names none.
const defaultShell = "bash"

// ShellCommand writes text to the file at path, which only its owner can read, and gives the command that
// runs it in a shell: "bash" (also when empty) or "sh". The folder of path must exist. The caller fills in
// the environment.
func ShellCommand(shell, text, path string) (Command, error) {
	argv, err := ShellArgv(shell)
	if err != nil {
		return Command{}, err
	}
	if err := writeAnew(path, text); err != nil {
		return Command{}, fmt.Errorf("write the script: %w", err)
	}
	return Command{Argv: append(argv, path)}, nil
}

// writeAnew makes the file hold text alone. A file that stood there is written over only when it is a plain one
// that its owner alone can read and that has no other name; anything else is replaced, so that neither a link
// nor the rights of what stood there count. One that holds the text is left alone: after a crash of the Runner a shell
// may be reading it.
func writeAnew(path, text string) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err == nil && !plain(f) {
		err = errors.Join(fs.ErrExist, f.Close())
	}
	if err == nil && holds(f, text) {
		return f.Close()
	}
	if err == nil {
		err = f.Truncate(0)
	} else {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func holds(f *os.File, text string) bool {
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(text)) {
		return false
	}
	data := make([]byte, len(text))
	_, err = f.ReadAt(data, 0)
	return err == nil && string(data) == text
}

func plain(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
		return false
	}
	raw, ok := info.Sys().(*syscall.Stat_t)
	return ok && raw.Nlink == 1
}

// ShellArgv gives the arguments that start a script in a shell, to which the script's path is added: "bash" (also when empty)
// stops at the first command that fails, in a pipe too, "sh" at the first that fails.
func ShellArgv(shell string) ([]string, error) {
	if shell == "" {
		shell = defaultShell
	}
	args, known := shells[shell]
	if !known {
		return nil, fault.New(fault.Invalid, "unknown_shell", "there is no shell %q", shell).
			WithHint("use bash or sh")
	}
	program, ok := LookUp([]string{shell}, nil)
	if !ok {
		return nil, fault.New(fault.NotFound, "shell_missing", "%s is not installed on this host", shell).
			WithHint("install it on the Runner's host, or set shell: sh")
	}
	return append([]string{program}, args...), nil
}
