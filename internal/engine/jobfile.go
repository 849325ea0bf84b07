package engine

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"legwork/internal/fault"
)

// OpenJobFile opens a file that a job may have written. The file is below root, a folder that no job can replace;
// path is relative to root or an absolute path below it. A symbolic link that leads out of root is refused, and so is
// everything but a regular file. It does not wait for the writer of a pipe. After limit bytes its reader fails with a
// fault.TooLarge.
func OpenJobFile(root, path string, limit int64) (io.ReadCloser, error) {
	name, ok := below(root, path)
	if !ok {
		return nil, fault.New(fault.Invalid, "file_outside", "%s is outside of the folder of the job", path).
			WithHint("keep the file in the folder of the job").WithCause(fs.ErrInvalid)
	}
	folder, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	info, err := folder.Stat(name) // to open a device can have effects of its own
	if err == nil {
		err = regular(info, path)
	}
	if err != nil {
		return nil, err
	}
	file, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err = file.Stat()
	if err == nil {
		err = regular(info, path)
	}
	if err != nil {
		_ = file.Close() // it was only read
		return nil, err
	}
	return &jobFile{file: file, limit: limit, content: bounded{from: file, left: limit}}, nil
}

// ReadJobFile returns the content of a file that a job may have written, with the rules of OpenJobFile.
func ReadJobFile(root, path string, limit int64) ([]byte, error) {
	file, err := OpenJobFile(root, path, limit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// WriteJobFile replaces a file in a folder that a job can write, with mode 0600. A link or a pipe at path is replaced
// itself. No job may be able to replace the folder.
func WriteJobFile(path string, data []byte) error { return writeAnew(path, string(data)) }

// OpenFile opens a file of the workspace with the rules of OpenJobFile. A relative path is relative to w.Dir.
func (w Workspace) OpenFile(path string, limit int64) (io.ReadCloser, error) {
	return OpenJobFile(w.root(), w.Path(path), limit)
}

// Inside reports whether a path is in the folder that the job may write.
func (w Workspace) Inside(path string) bool {
	_, ok := below(w.root(), w.Path(path))
	return ok
}

func (w Workspace) root() string { return cmp.Or(w.Root, w.Dir) }

// Path returns the absolute path of a file of the job. A relative path is relative to w.Dir.
func (w Workspace) Path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(w.Dir, path)
}

// below returns a path as relative to root; ok is false if it leads out of root.
func below(root, path string) (name string, ok bool) {
	name = filepath.Clean(path)
	if filepath.IsAbs(path) {
		var err error
		if name, err = filepath.Rel(root, path); err != nil {
			return "", false
		}
	}
	return name, filepath.IsLocal(name)
}

// regular refuses everything but a regular file.
func regular(info fs.FileInfo, path string) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fault.New(fault.Invalid, "file_not_regular", "%s is not a regular file", path).
		WithHint("find out what wrote it on the runner's host, then run the job again").WithCause(fs.ErrInvalid)
}

// jobFile reads at most limit bytes.
type jobFile struct {
	file    *os.File
	limit   int64
	content bounded
}

// Close closes the file.
func (f *jobFile) Close() error { return f.file.Close() }

// Read reads the next bytes. It fails when the file has more bytes than the limit.
func (f *jobFile) Read(p []byte) (int, error) {
	n, err := f.content.Read(p)
	if errors.Is(err, ErrTooMuch) {
		err = fault.New(fault.TooLarge, "file_too_large", "%s has more than %d bytes", f.file.Name(), f.limit)
	}
	return n, err
}
