package ansible

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// firstDescriptor is that of the first of exec.Cmd.ExtraFiles in the new process.
const firstDescriptor = 3

// pipes are those between this process and ansible-playbook.
type pipes struct {
	theirs []*os.File // ends that are given to the new process, in order
	ours   []*os.File
	texts  []string // what is written to ours, "" for those that are read
	paths  []string // of named ones
	err    error    // the first that went wrong
}

// to makes a pipe that the new process reads a text from, and gives its descriptor there.
func (p *pipes) to(text string) int {
	r, w, err := os.Pipe()
	if err != nil {
		p.err = errors.Join(p.err, fmt.Errorf("make a pipe: %w", err))
		return 0
	}
	return p.add(r, w, text)
}

// from makes a pipe that the new process writes to.
func (p *pipes) from() (io.Reader, int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, 0, fmt.Errorf("make a pipe: %w", err)
	}
	return r, p.add(w, r, ""), nil
}

func (p *pipes) add(theirs, ours *os.File, text string) int {
	p.theirs, p.ours, p.texts = append(p.theirs, theirs), append(p.ours, ours), append(p.texts, text)
	return firstDescriptor + len(p.theirs) - 1
}

// named makes a named pipe that the new process reads a text from once, where it wants a path that leads to something. Nobody else
// may read it; it goes with the others.
func (p *pipes) named(path, text string) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		p.err = errors.Join(p.err, fmt.Errorf("make a pipe: %w", err))
		return
	}
	p.paths = append(p.paths, path)
	go func() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
		if err != nil {
			return
		}
		_, _ = io.WriteString(file, text)
		_ = file.Close()
	}()
}

// started lets go of the ends of the new process, and writes what it is to read, as it reads that.
func (p *pipes) started() {
	for _, file := range p.theirs {
		_ = file.Close()
	}
	for i, text := range p.texts {
		if ours := p.ours[i]; text != "" {
			go func() {
				_, _ = io.WriteString(ours, text) // that nobody reads it is seen in how the process ends
				_ = ours.Close()
			}()
		}
	}
}

func (p *pipes) close() {
	for _, file := range append(p.theirs, p.ours...) {
		_ = file.Close() // most are closed already
	}
	for _, path := range p.paths { // whoever still waits to write into one is let go
		if file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = file.Close()
		}
		_ = os.Remove(path)
	}
}
