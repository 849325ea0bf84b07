package nodes

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"legwork/internal/fault"
)

// maxScript bounds a script that is brought to a Node, in bytes.
const maxScript = 4 << 20

// readSource reads a plain file of the Runbook's Source; no link leads out of it.
func readSource(dir, name string) ([]byte, error) {
	bad := func(what string, cause error) error {
		return fault.New(fault.Invalid, "script_file", "the script file %.200q %s", name, what).
			WithHint("script.file is relative to the subdirectory of the Runbook's source; check it and the revision").WithCause(cause)
	}
	if dir == "" {
		return nil, bad("is not there: the Runbook has no source", nil)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, bad("is not there: the source cannot be read", err)
	}
	defer root.Close()
	info, err := root.Stat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, bad("is not in the source", err)
	case err != nil:
		return nil, bad("leads out of the source or cannot be read", err)
	case !info.Mode().IsRegular():
		return nil, bad("is not a file", nil)
	case info.Size() > maxScript:
		return nil, bad("is larger than 4 MiB", nil)
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, bad("cannot be read", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxScript))
	if err != nil {
		return nil, bad("cannot be read", err)
	}
	return data, nil
}
