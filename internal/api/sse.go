package api

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of event streams.
const (
	maxEventBytes    = 8 << 20          // of one event that a client reads
	writeTimeout     = 20 * time.Second // of one write: a follower that takes longer is dropped
	keepAlivePeriod  = 15 * time.Second // silence after which a comment is sent
	eventStreamType  = "text/event-stream"
	lastEventIDField = "Last-Event-ID"
)

// streamEvent is one server-sent event.
type streamEvent struct {
	ID   string // empty when it has none
	Name string // empty means "message"
	Data []byte // nil when it only says where to resume
}

// eventWriter writes server-sent events. Each write has a deadline of its own, and a comment goes out
// when nothing else did for a while, so that either side notices when the other is gone.
type eventWriter struct {
	w          io.Writer
	controller *http.ResponseController

	mu      sync.Mutex
	last    time.Time
	buffer  bytes.Buffer
	failed  error
	stopped chan struct{}
	done    chan struct{}
}

// newEventWriter begins an event stream as the answer to a request. close must be called.
func newEventWriter(w http.ResponseWriter) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", eventStreamType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	e := &eventWriter{w: w, controller: http.NewResponseController(w), stopped: make(chan struct{}), done: make(chan struct{})}
	e.mu.Lock()
	e.buffer.WriteString(": legwork\n\n")
	_ = e.flush() // kept in failed
	e.mu.Unlock()
	go e.keepAlive()
	return e
}

// close ends the comments. The stream itself ends when the handler returns.
func (e *eventWriter) close() {
	close(e.stopped)
	<-e.done
}

// send writes one event. Data must hold no carriage return; a line feed is allowed.
func (e *eventWriter) send(event streamEvent) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	writeEvent(&e.buffer, event)
	return e.flush()
}

func writeEvent(b *bytes.Buffer, event streamEvent) {
	if event.ID != "" {
		fmt.Fprintf(b, "id: %s\n", event.ID)
	}
	if event.Name != "" {
		fmt.Fprintf(b, "event: %s\n", event.Name)
	}
	if event.Data != nil {
		for line := range bytes.SplitSeq(event.Data, []byte{'\n'}) {
			b.WriteString("data: ")
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	b.WriteByte('\n')
}

// flush sends what is buffered within writeTimeout. The caller holds mu.
func (e *eventWriter) flush() error {
	defer e.buffer.Reset()
	if e.failed != nil {
		return e.failed
	}
	e.last = time.Now()
	_ = e.controller.SetWriteDeadline(e.last.Add(writeTimeout)) // not every writer has one
	_, err := e.w.Write(e.buffer.Bytes())
	if err == nil {
		err = e.controller.Flush()
	}
	e.failed = err
	return err
}

func (e *eventWriter) keepAlive() {
	defer close(e.done)
	tick := time.NewTicker(keepAlivePeriod)
	defer tick.Stop()
	for {
		select {
		case <-e.stopped:
			return
		case <-tick.C:
			e.mu.Lock()
			if time.Since(e.last) >= keepAlivePeriod/2 {
				e.buffer.WriteString(": alive\n\n")
				_ = e.flush() // kept in failed: the next send returns it
			}
			e.mu.Unlock()
		}
	}
}

// eventReader reads server-sent events as the HTML standard says (section 9.2), with a bound on their size.
type eventReader struct {
	r     *bufio.Reader
	limit int
	begun bool
	skip  bool // the last line ended with CR: a LF that follows belongs to it
	alive func()
}

var errEventTooLarge = errors.New("the event is too large")

// newEventReader reads from r. alive is called for every line, a comment included; it may be nil.
func newEventReader(r io.Reader, alive func()) *eventReader {
	if alive == nil {
		alive = func() {}
	}
	return &eventReader{r: bufio.NewReaderSize(r, 64<<10), limit: maxEventBytes, alive: alive}
}

// next gives the next event that has data or an id. At the end of the stream it is io.EOF; an event that is cut off there
// is not given.
func (e *eventReader) next() (streamEvent, error) {
	var event streamEvent
	var data []byte
	seen := false
	for {
		line, err := e.line()
		if err != nil {
			return streamEvent{}, err
		}
		e.alive()
		if len(line) == 0 {
			if seen {
				event.Data = data[:len(data)-1]
				return event, nil
			}
			event.Name = ""
			if event.ID != "" {
				return event, nil
			}
			continue
		}
		field, value := cutField(line)
		switch field {
		case "data":
			if len(data)+len(value) > e.limit {
				return streamEvent{}, errEventTooLarge
			}
			seen = true
			data = append(append(data, value...), '\n')
		case "event":
			event.Name = string(value)
		case "id":
			if !bytes.ContainsRune(value, 0) {
				event.ID = string(value)
			}
		}
	}
}

func cutField(line []byte) (field string, value []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	return string(name), bytes.TrimPrefix(value, []byte{' '})
}

// line gives the next line without its end: CR LF, LF or CR.
func (e *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if e.skip {
			e.skip = false
			if c == '\n' {
				continue
			}
		}
		switch c {
		case '\r':
			e.skip = true
			return e.finished(line), nil
		case '\n':
			return e.finished(line), nil
		}
		if len(line) >= e.limit {
			return nil, errEventTooLarge
		}
		line = append(line, c)
		line = e.rest(line)
	}
}

// rest takes what is buffered up to the end of the line, so that most bytes are not read one by one.
func (e *eventReader) rest(line []byte) []byte {
	buffered, _ := e.r.Peek(e.r.Buffered())
	end := bytes.IndexAny(buffered, "\r\n")
	if end < 0 {
		end = len(buffered)
	}
	end = min(end, e.limit-len(line))
	line = append(line, buffered[:end]...)
	_, _ = e.r.Discard(end)
	return line
}

// finished drops the byte order mark that a stream may begin with.
func (e *eventReader) finished(line []byte) []byte {
	if e.begun {
		return line
	}
	e.begun = true
	return bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
}

// wantsStream tells whether a request asks for events rather than a page.
func wantsStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), eventStreamType) || r.URL.Query().Get("follow") == "true"
}
