package nodes

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"legwork/internal/fault"
)

// listSource lists a file or folder of the source. No link leads out of the source.
func (c *copying) listSource(dir string) error {
	root, err := openSource(dir, c.src)
	if err != nil {
		return err
	}
	defer root.Close()
	name := path.Clean(c.src)
	info, err := root.Stat(name)
	if err != nil {
		return sourceFault(c.src, err)
	}
	if !info.IsDir() {
		if strings.HasSuffix(c.dest, "/") {
			c.dest += path.Base(name)
		}
		return c.add(name, c.dest, info)
	}
	c.dest = path.Clean(c.dest)
	return fs.WalkDir(root.FS(), name, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return sourceFault(at, err)
		}
		if d.IsDir() && strings.EqualFold(d.Name(), ".git") {
			return fs.SkipDir
		}
		info, err := root.Stat(at)
		if err != nil {
			return sourceFault(at, err)
		}
		if info.IsDir() && !d.IsDir() {
			return fault.New(fault.Invalid, "copy_source", "%.200q is a link to a folder",
				at).WithHint("copy the folder itself")
		}
		return c.add(at, path.Join(c.dest, strings.TrimPrefix(at, name)), info)
	})
}

// add adds a file or folder to a copy.
func (c *copying) add(name, dest string, info fs.FileInfo) error {
	e := copyEntry{name: name, path: dest, folder: info.IsDir(), mode: "0644"}
	switch {
	case len(c.entries) == maxCopyFiles:
		return fault.New(fault.Invalid, "copy_too_large", "%.200q holds more than %d files and folders", c.src,
			maxCopyFiles).
			WithHint("copy an archive, and unpack it in a command")
	case e.folder:
	case !info.Mode().IsRegular():
		return fault.New(fault.Invalid, "copy_source", "%.200q is not a regular file", name)
	default:
		e.size = info.Size()
	}
	if info.Mode()&0o111 != 0 {
		e.mode = "0755"
	}
	if c.size += e.size; c.size > maxCopyBytes {
		return copyTooLarge()
	}
	c.entries = append(c.entries, e)
	return nil
}

// readSource reads the contents of the files that listSource found.
func (c *copying) readSource(dir string) error {
	root, err := openSource(dir, c.src)
	if err != nil {
		return err
	}
	defer root.Close()
	for i := range c.entries {
		e := &c.entries[i]
		if e.folder {
			continue
		}
		if e.data, err = readAtMost(root, e.name, e.size); err != nil {
			return sourceFault(e.name, err)
		}
	}
	return nil
}

// readAtMost reads a file that has not grown since it was listed.
func readAtMost(root *os.Root, name string, size int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, size))
}

func openSource(dir, name string) (*os.Root, error) {
	if dir == "" {
		return nil, sourceFault(name, errors.New("the runbook has no source"))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, sourceFault(name, err)
	}
	return root, nil
}

func sourceFault(name string, err error) error {
	what := "cannot be read"
	if errors.Is(err, fs.ErrNotExist) {
		what = "does not exist in the source"
	}
	return fault.New(fault.Invalid, "copy_source", "%.200q %s", name, what).
		WithHint("src is relative to the subdirectory of the runbook's source; links must not lead out of it").WithCause(err)
}
