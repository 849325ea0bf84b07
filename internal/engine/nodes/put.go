package nodes

import (
	"context"
	"crypto/rand"
	"time"

	"legwork/internal/fault"
)

// cleanTimeout bounds how long it may take to remove a file.
const cleanTimeout = 30 * time.Second

// tempPath gives a path that nobody guesses.
func tempPath(name string) string { return "/tmp/legwork-" + name + "-" + rand.Text() }

// putAs has the user that commands become make a file: the contents go the way of a script.
func putAs(ctx context.Context, on Target, name string, contents []byte) (string, error) {
	path := tempPath(name)
	result, err := on.Run(ctx, Command{
		Script: contents, Interpreter: []string{"/bin/sh", "-c", `umask 077; set -C; cat -- "$2" >"$1"`, "sh", path}, Sudo: true,
	})
	if err == nil && (result.ExitCode != 0 || result.Signal != "") {
		err = fault.New(fault.Failed, "upload_failed", "the file of the option %s cannot be written for the user of the step", name).
			WithHint("check the free space and the mode of /tmp there, and that the user may run cat")
	}
	return path, err
}

// removeAs has a file removed by whoever made it.
func removeAs(ctx context.Context, on Target, path string, sudo bool) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	_, err := on.Run(ctx, Command{Script: []byte("rm -f -- \"$1\"\n"), Args: []string{path}, Sudo: sudo})
	return err
}
