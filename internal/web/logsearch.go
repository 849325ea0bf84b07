package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode"

	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/web/terminal"
	"legwork/internal/work"
)

const (
	longestSearch = 200              // bytes
	mostFound     = 10_000           // lines that are named; the rest is counted
	logSearchTime = 15 * time.Second // for a search; what was found by then is answered
)

const (
	mostSearches = 2               // at once: each takes a core for up to half a second per million lines
	searchWait   = 2 * time.Second // for one of them to end
)

// searches are those under way: of each Web session at most one. A newer one takes the place of the one before.
type searches struct {
	places chan struct{}
	mu     sync.Mutex
	of     map[string]*oneSearch // by Web session
}

type oneSearch struct{ stop context.CancelCauseFunc }

func newSearches() *searches {
	return &searches{places: make(chan struct{}, mostSearches), of: map[string]*oneSearch{}}
}

var (
	errReplaced = fault.New(fault.Conflict, "search_replaced", "another search of yours took the place of this one")
	errBusy     = fault.New(fault.RateLimited, "searches_busy", "others search just now").WithHint("try again in a moment")
)

// begin ends the former search of a Web session and takes a place; end is to be called. The context that it gives ends with ctx,
// and when a newer search comes.
func (s *searches) begin(ctx context.Context, session string) (of context.Context, end func(), err error) {
	of, stop := context.WithCancelCause(ctx)
	mine := &oneSearch{stop: stop}
	s.mu.Lock()
	if former := s.of[session]; former != nil {
		former.stop(errReplaced)
	}
	s.of[session] = mine
	s.mu.Unlock()
	leave := func() {
		stop(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.of[session] == mine {
			delete(s.of, session)
		}
	}
	limit := time.NewTimer(searchWait)
	defer limit.Stop()
	select {
	case s.places <- struct{}{}:
		return of, func() { <-s.places; leave() }, nil
	case <-of.Done():
		err = context.Cause(of)
	case <-limit.C:
		err = errBusy
	}
	leave()
	return nil, nil, err
}

// found is what a search answers.
type found struct {
	Count int64   `json:"count"` // lines
	Lines []int64 `json:"lines"` // their numbers, rising
	Upto  int64   `json:"upto"`  // lines that were searched
	Whole bool    `json:"whole"` // the search came to the end
}

// logSearch answers which lines hold a text: q. Without capitals in it, capitals do not matter.
func (w *Web) logSearch(rw http.ResponseWriter, r *http.Request, v *visit, j *work.Job) error {
	q := v.url.Query().Get("q")
	if q == "" || len(q) > longestSearch {
		return fault.New(fault.Invalid, "bad_search", "the text to search for is to have 1 to %d bytes", longestSearch)
	}
	session := ""
	if c, err := r.Cookie(w.cookieName(r)); err == nil {
		session = c.Value
	}
	searching, end, err := w.searches.begin(v.ctx, session)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(searching, logSearchTime)
	defer cancel()
	choice, err := v.logChoice(j)
	if err != nil {
		return err
	}
	answer, err := searchLog(ctx, v, j.ID, q, choice.LogFilter)
	if cause := context.Cause(searching); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	data, err := json.Marshal(answer)
	if err == nil {
		answerJSON(rw, data)
	}
	return err
}

func searchLog(ctx context.Context, v *visit, job, q string, only control.LogFilter) (found, error) {
	f := found{Lines: []int64{}}
	s := newNeedle(q)
	var c cursor
	open := map[int64]*openLine{}
	err := v.Control.ScanLog(ctx, v.actor, job, 0, func(l *control.LogLine) bool {
		if !only.Matches(l) {
			return true
		}
		line := c.take(l).line
		part := open[line]
		switch {
		case part == nil && !l.Partial:
			if s.in(l.Data) {
				f.add(line)
			}
		case part == nil:
			part = &openLine{}
			open[line] = part
			fallthrough
		default:
			part.take(l.Data, s)
			if !l.Partial {
				delete(open, line)
				part.end(line, s, &f)
			}
		}
		return true
	})
	for line, part := range open { // which go on, or whose Step ended before them
		part.end(line, s, &f)
	}
	f.Upto, f.Whole = c.lines, err == nil
	if errors.Is(err, context.DeadlineExceeded) && v.ctx.Err() == nil {
		err = nil
	}
	return f, err
}

// add notes a line that holds the text, at its place: one that goes on is over only after others that began later.
func (f *found) add(line int64) {
	f.Count++
	at, _ := slices.BinarySearch(f.Lines, line)
	if at < mostFound {
		f.Lines = slices.Insert(f.Lines, at, line)
		f.Lines = f.Lines[:min(len(f.Lines), mostFound)]
	}
}

const (
	openMost = 64 << 10 // bytes of a line in parts that are searched together
	openKept = 4 << 10  // of them that are searched again with what follows: more than the longest search
)

// openLine is a line that comes in parts: what is searched for may begin in one and end in another.
type openLine struct {
	data []byte
	hit  bool
}

func (o *openLine) take(data []byte, s *needle) {
	if o.hit {
		return
	}
	o.data = append(o.data, data...)
	if len(o.data) > openMost {
		o.hit = s.in(o.data)
		o.data = append(o.data[:0], o.data[len(o.data)-openKept:]...)
	}
}

func (o *openLine) end(line int64, s *needle, f *found) {
	if o.hit || s.in(o.data) {
		f.add(line)
	}
}

// needle is what is searched for.
type needle struct {
	text   []byte
	fold   bool
	buffer []byte
}

func newNeedle(q string) *needle {
	n := &needle{text: []byte(q), fold: true}
	for _, r := range q {
		if unicode.IsUpper(r) {
			n.fold = false
		}
	}
	return n
}

// in tells whether a record holds it, without what is for a terminal alone.
func (n *needle) in(data []byte) bool {
	if len(data) < len(n.text) {
		return false
	}
	n.buffer = terminal.Plain(n.buffer[:0], data)
	if !n.fold {
		return bytes.Contains(n.buffer, n.text)
	}
	ascii := true
	for i, b := range n.buffer {
		if b >= 'A' && b <= 'Z' {
			n.buffer[i] = b + 'a' - 'A'
		}
		ascii = ascii && b < 0x80
	}
	if ascii {
		return bytes.Contains(n.buffer, n.text)
	}
	return bytes.Contains(bytes.ToLower(n.buffer), n.text)
}
