package remote

import (
	"bytes"
	"io"
	"sync"
)

const (
	maxPreamble = 8 << 10  // what is kept of what came before the command, to tell why it did not begin
	maxFrame    = 64 << 10 // a frame without an end is dropped there
)

// frames takes the reports of the remote program out of a stream. A report is a line that begins, anywhere in the stream, with the
// byte 0x1e and the nonce. What comes before the first one is noise of login shells and of sudo: it is kept aside.
type frames struct {
	marker  []byte
	single  bool // the first frame is the only one
	out     io.Writer
	frame   func(text string)
	mu      sync.Mutex       // of noise and before
	noise   func(all string) // gets all noise so far whenever there is more; may be nil
	begun   bool
	held    []byte
	inFrame bool
	before  []byte
	gate    sync.Mutex // of failed and closed, and held while out is written to
	failed  error      // of out
	closed  bool
}

func newFrames(nonce string, out io.Writer, frame func(string)) *frames {
	return &frames{marker: []byte("\x1e" + nonce + " "), out: out, frame: frame}
}

// write takes what arrived. data is not kept.
func (f *frames) write(data []byte) {
	if f.begun && f.single {
		f.emit(data)
		return
	}
	if len(f.held) > 0 {
		data = append(f.held, data...)
		f.held = nil
	}
	for len(data) > 0 {
		if f.inFrame {
			end := bytes.IndexByte(data, '\n')
			if end < 0 {
				f.hold(data)
				return
			}
			f.frame(string(data[len(f.marker):end]))
			f.inFrame, data = false, data[end+1:]
			f.begun = true
			if f.single {
				f.emit(data)
				return
			}
			continue
		}
		at := bytes.Index(data, f.marker)
		if at < 0 {
			keep := f.partial(data)
			f.emit(data[:len(data)-keep])
			f.held = append(f.held, data[len(data)-keep:]...)
			return
		}
		f.emit(data[:at])
		data = data[at:]
		f.inFrame = true
	}
}

// hold keeps the beginning of a frame for later.
func (f *frames) hold(data []byte) {
	if len(data) > maxFrame {
		f.inFrame = false
		return
	}
	f.held = append([]byte(nil), data...)
}

// partial gives how many bytes at the end of data may be the beginning of a marker.
func (f *frames) partial(data []byte) int {
	at := bytes.LastIndexByte(data, f.marker[0])
	if at >= 0 && bytes.HasPrefix(f.marker, data[at:]) {
		return len(data) - at
	}
	return 0
}

func (f *frames) emit(data []byte) {
	if len(data) == 0 {
		return
	}
	if f.begun {
		f.gate.Lock()
		if f.out != nil && f.failed == nil && !f.closed {
			_, f.failed = f.out.Write(data)
		}
		f.gate.Unlock()
		return
	}
	f.mu.Lock()
	f.before = append(f.before, data[:min(len(data), maxPreamble-len(f.before))]...)
	all, noise := string(f.before), f.noise
	f.mu.Unlock()
	if noise != nil {
		noise(all)
	}
}

// end passes on what was held back.
func (f *frames) end() {
	held := f.held
	f.held = nil
	if !f.inFrame {
		f.emit(held)
	}
}

// preamble gives what came before the first frame.
func (f *frames) preamble() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.before)
}

// listenToNoise calls hear from now on; with nil it forgets the noise so far.
func (f *frames) listenToNoise(hear func(all string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noise = hear
	if hear == nil {
		f.before = nil
	}
}

// shut writes nothing any more, and gives the error of what was written.
func (f *frames) shut() error {
	f.gate.Lock()
	defer f.gate.Unlock()
	f.closed = true
	return f.failed
}
