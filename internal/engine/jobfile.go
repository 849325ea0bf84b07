package engine

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"legwork/internal/fault"
)

// OpenJobFile opens a file that a job may have written. It refuses everything but a regular file, and does not wait
// for the writer of a pipe. After limit bytes its reader fails with a fault.TooLarge.
func OpenJobFile(path string, limit int64) (io.ReadCloser, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fault.New(fault.Invalid, "file_not_regular", "%s is not a regular file", path).
			WithHint("find out what wrote it on the runner's host, then run the job again").WithCause(fs.ErrInvalid)
	}
	if err != nil {
		_ = file.Close() // it was only read
		return nil, err
	}
	return &jobFile{file: file, limit: limit, content: bounded{from: file, left: limit}}, nil
}

// ReadJobFile returns the content of a file that a job may have written, with the rules of OpenJobFile.
func ReadJobFile(path string, limit int64) ([]byte, error) {
	file, err := OpenJobFile(path, limit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
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
