package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func readAll(t *testing.T, r io.Reader) []streamEvent {
	t.Helper()
	reader := newEventReader(r, nil)
	var events []streamEvent
	for {
		event, err := reader.next()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
}

func TestEventReader(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []streamEvent
	}{
		{"one", "data: a\n\n", []streamEvent{{Data: []byte("a")}}},
		{"all fields", "id: 7\nevent: lines\ndata: a\n\n", []streamEvent{{ID: "7", Name: "lines", Data: []byte("a")}}},
		{"several lines of data", "data: a\ndata: b\ndata:\n\n", []streamEvent{{Data: []byte("a\nb\n")}}},
		{"no space after the colon", "data:a\n\n", []streamEvent{{Data: []byte("a")}}},
		{"two spaces", "data:  a\n\n", []streamEvent{{Data: []byte(" a")}}},
		{"no colon", "data\n\n", []streamEvent{{Data: []byte("")}}},
		{"comments", ": x\n\n:\ndata: a\n: y\n\n", []streamEvent{{Data: []byte("a")}}},
		{"CR LF", "id: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []streamEvent{{ID: "1", Data: []byte("a")}, {Data: []byte("b")}}},
		{"CR", "data: a\r\rdata: b\r\r", []streamEvent{{Data: []byte("a")}, {Data: []byte("b")}}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []streamEvent{{Data: []byte("a")}}},
		{"cut off", "data: a\n\ndata: b\n", []streamEvent{{Data: []byte("a")}}},
		{"name without data", "event: x\n\ndata: a\n\n", []streamEvent{{Data: []byte("a")}}},
		{"NUL in the id", "id: a\x00b\ndata: a\n\n", []streamEvent{{Data: []byte("a")}}},
		{"unknown fields", "retry: 5\nfoo: bar\ndata: a\n\n", []streamEvent{{Data: []byte("a")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for kind, r := range map[string]io.Reader{"whole": strings.NewReader(c.text), "byte by byte": iotest.OneByteReader(strings.NewReader(c.text))} {
				if got := readAll(t, r); !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s: got %q, want %q", kind, got, c.want)
				}
			}
		})
	}
}

func TestEventReaderIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"one line":   "data: " + strings.Repeat("x", 2000) + "\n\n",
		"many lines": strings.Repeat("data: "+strings.Repeat("x", 90)+"\n", 30) + "\n",
		"no end":     strings.Repeat("x", 2000),
	} {
		r := newEventReader(strings.NewReader(text), nil)
		r.limit = 1000
		if _, err := r.next(); !errors.Is(err, errEventTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("id: 1\nevent: x\ndata: a\ndata: b\n\n"))
	f.Add([]byte(": c\r\rdata\r\n\r\n"))
	f.Add([]byte("\xef\xbb\xbfid\ndata:\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, slow := newEventReader(bytes.NewReader(text), nil), newEventReader(iotest.OneByteReader(bytes.NewReader(text)), nil)
		whole.limit, slow.limit = 4096, 4096
		for {
			a, errA := whole.next()
			b, errB := slow.next()
			if !reflect.DeepEqual(a, b) || !errors.Is(errB, errA) {
				t.Fatalf("read at once %q, %v; byte by byte %q, %v", a, errA, b, errB)
			}
			if errA != nil {
				return
			}
			if bytes.ContainsRune(a.Data, '\r') || strings.ContainsAny(a.ID+a.Name, "\r\n") {
				t.Fatalf("an end of line in %q", a)
			}
			var again bytes.Buffer
			writeEvent(&again, a)
			if c, err := newEventReader(&again, nil).next(); err != nil || !reflect.DeepEqual(a, c) {
				t.Fatalf("wrote %q and read %q, %v", a, c, err)
			}
		}
	})
}

// deadlined is a response that notes its deadlines.
type deadlined struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
	err       error
}

func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.deadlines = append(d.deadlines, t)
	return nil
}

func (d *deadlined) Write(b []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	return d.ResponseRecorder.Write(b)
}

func TestEventWriterKeepsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		e := newEventWriter(w)
		if err := e.send(streamEvent{ID: "1", Name: "x", Data: []byte("a")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*keepAlivePeriod + time.Second)
		e.close()
		want := ": legwork\n\nid: 1\nevent: x\ndata: a\n\n: alive\n\n: alive\n\n"
		if got := w.Body.String(); got != want {
			t.Errorf("wrote %q", got)
		}
		if len(w.deadlines) != 4 || !w.deadlines[3].After(w.deadlines[1]) {
			t.Errorf("deadlines %v", w.deadlines)
		}
		if got := w.Header().Get("Content-Type"); got != eventStreamType || w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, got)
		}
	})
}

func TestEventWriterStaysFailed(t *testing.T) {
	w := &deadlined{ResponseRecorder: httptest.NewRecorder(), err: io.ErrClosedPipe}
	e := newEventWriter(w)
	defer e.close()
	w.err = nil
	if err := e.send(streamEvent{Data: []byte("a")}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after a lost write: %v", err)
	}
}
