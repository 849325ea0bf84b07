package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a-h/templ"

	"legwork/internal/api"
	"legwork/internal/control"
	"legwork/internal/fault"
)

// part is a piece of a page that is kept as the Server knows it: one element with an id. A part with rows is the element
// around them: as long as they are the same in the same order and nothing around them changed, only those that changed are sent.
type part struct {
	id   string
	body templ.Component // renders one element with that id, with its rows
	rows []part
}

// feed is a second source of what a page is told on its stream, beside its parts: something that grows. It is of one stream.
type feed interface {
	changed() <-chan struct{} // is closed when there is something new
	next(ctx context.Context) (event string, data []byte, err error)
	close()
}

const (
	partsEvent    = "parts" // elements to put in the place of those with their ids
	overEvent     = "over"  // the Web session ended: the page has to be loaded anew
	streamWrite   = 20 * time.Second
	streamAlive   = 10 * time.Second // silence after which a comment is sent, and the Web session looked at
	streamRetry   = time.Second      // after which a browser connects again
	streamPause   = 100 * time.Millisecond
	streamShare   = 10 // a stream renders at most this part of the time: one in ten
	longestPause  = 800 * time.Millisecond
	longestStream = 12 * time.Hour

	sessionStreams = 20   // streams of one Web session at a time
	allStreams     = 2000 // of all
	fullRetry      = 5    // seconds after which who was refused may try again
)

// streamPath gives the address of the stream that keeps a page up to date. sum is that of the parts as they are in the page.
func streamPath(page *url.URL, sum string) string {
	q := url.Values{"at": {page.RequestURI()}, "sum": {sum}}
	return api.LivePath + "?" + q.Encode()
}

// live is the event stream of a page: it hands the request to the page at that address, which follows.
func (w *Web) live(rw http.ResponseWriter, r *http.Request) {
	actor, err := w.actorOf(r, false)
	if err != nil {
		w.refuseStream(rw, r, err)
		return
	}
	if isShared(r) {
		w.liveShared(rw, r, actor)
		return
	}
	at, err := url.ParseRequestURI(safeNext(r.URL.Query().Get("at")))
	if err != nil {
		http.Error(rw, "there is no such page", http.StatusNotFound)
		return
	}
	cookie, err := r.Cookie(w.cookieName(r))
	if err != nil || !w.streams.take(sha256.Sum256([]byte(cookie.Value)), 1) {
		refuseFull(rw)
		return
	}
	defer w.streams.leave(sha256.Sum256([]byte(cookie.Value)), 1)
	ctx := context.WithValue(r.Context(), actorKey, actor)
	s := &stream{w: w, rw: rw, request: r}
	if r.Header.Get("Last-Event-ID") == "" { // else the page was changed by the stream before
		s.sum = r.URL.Query().Get("sum")
	}
	page := r.Clone(context.WithValue(ctx, streamKey, s))
	page.URL, page.RequestURI = at, at.RequestURI()
	w.pages.ServeHTTP(rw, page)
}

// streams counts the open streams by Web session, and the pages that all of them follow.
type streams struct {
	mu        sync.Mutex
	all       int
	bySession map[[sha256.Size]byte]int
}

// take counts one more stream, if there may be one that follows as many pages.
func (s *streams) take(session [sha256.Size]byte, pages int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all+pages > allStreams || s.bySession[session] >= sessionStreams {
		return false
	}
	if s.bySession == nil {
		s.bySession = map[[sha256.Size]byte]int{}
	}
	s.all += pages
	s.bySession[session]++
	return true
}

func (s *streams) leave(session [sha256.Size]byte, pages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all -= pages
	if s.bySession[session]--; s.bySession[session] == 0 {
		delete(s.bySession, session)
	}
}

// refuseStream answers with a stream that says why there is none: a browser tells scripts nothing of other answers.
func (w *Web) refuseStream(rw http.ResponseWriter, r *http.Request, err error) {
	if !fault.Is(err, fault.Unauthenticated) {
		w.Log.Warn("stream refused", "error", err)
		http.Error(rw, "there is no stream now", http.StatusServiceUnavailable)
		return
	}
	s := &stream{w: w, rw: rw, request: r}
	if isShared(r) {
		s.prefix = "*" // all pages
	}
	s.begin()
	_ = s.send("", overEvent, []byte("over")) // whoever left does not hear it
}

// stream is the event stream of one open page.
type stream struct {
	w       *Web
	rw      http.ResponseWriter
	request *http.Request
	prefix  string // on a shared stream: the index of the page
	after   int64  // event up to which the browser has seen everything
	sum     string // of the parts that it has at the beginning, "" when that is not known
	page    page
	visit   *visit
	feed    feed                         // nil: there is none
	sent    map[string][sha256.Size]byte // what the browser has, by id
	shells  map[string][sha256.Size]byte // of what stands around the rows, with their ids in order, by id of their part
	soon    time.Duration                // after which it is rendered anew without an event, 0 = as the page says
	about   atomic.Pointer[func(control.Event) bool]
	buffer  bytes.Buffer
}

func (s *stream) begin() {
	h := s.rw.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s.rw.WriteHeader(http.StatusOK)
	fmt.Fprintf(&s.buffer, "retry: %d\n", streamRetry.Milliseconds())
}

// send writes one event. Data holds no carriage return.
func (s *stream) send(id, name string, data []byte) error {
	b := &s.buffer
	defer b.Reset()
	if id != "" {
		fmt.Fprintf(b, "id: %s\n", id)
	}
	if name != "" {
		b.WriteString(s.eventHead(name))
		for line := range bytes.SplitSeq(data, []byte{'\n'}) {
			fmt.Fprintf(b, "data: %s\n", bytes.TrimSuffix(line, []byte{'\r'}))
		}
	} else {
		b.WriteString(": alive\n")
	}
	b.WriteByte('\n')
	controller := http.NewResponseController(s.rw)
	_ = controller.SetWriteDeadline(time.Now().Add(streamWrite)) // not every writer has one
	if _, err := s.rw.Write(b.Bytes()); err != nil {
		return err
	}
	return controller.Flush()
}

// follow keeps the page up to date until the browser leaves or the Web session ends. It begins with all parts as they are
// now, unless the browser has just those, so that nothing is missing however long it was away.
func (s *stream) follow(v *visit, p page) {
	s.visit, s.page = v, p
	s.sent, s.shells = map[string][sha256.Size]byte{}, map[string][sha256.Size]byte{}
	ctx, cancel := context.WithTimeout(v.ctx, longestStream)
	defer cancel()
	defer context.AfterFunc(s.w.Streaming, cancel)()
	v.ctx = ctx
	var err error
	if s.after, err = s.w.Control.LastEvent(ctx, v.actor); err != nil { // before anything is read
		s.w.refuseStream(s.rw, s.request, err)
		return
	}
	if p.feed != nil {
		if s.feed, err = p.feed(v); err != nil {
			s.w.refuseStream(s.rw, s.request, err)
			return
		}
		defer s.feed.close()
	}
	s.begin()
	events := make(chan int64, 1)
	failed := make(chan error, 1)
	from := s.after
	go func() {
		defer close(failed) // whoever took the error waits for that
		failed <- s.watch(ctx, from, events)
	}()
	err = s.loop(ctx, events, failed)
	cancel()
	for range failed {
	}
	if err != nil && ctx.Err() == nil && !fault.Is(err, fault.Unauthenticated) {
		s.w.Log.Debug("stream of a page ended", "page", v.url.Path, "error", err)
	}
}

// watch tells of the newest event that concerns the page. One that is not taken yet is replaced by a newer one.
func (s *stream) watch(ctx context.Context, from int64, newest chan int64) error {
	return s.w.Control.FollowEvents(ctx, s.visit.actor, from, func(events []control.Event) error {
		for _, e := range slices.Backward(events) {
			if !s.concerns(e) {
				continue
			}
			select {
			case <-newest:
			default:
			}
			newest <- e.ID
			return nil
		}
		return nil
	})
}

// concerns tells whether an event may change the page as it was rendered last.
func (s *stream) concerns(e control.Event) bool {
	if !slices.ContainsFunc(s.page.kinds, func(kind string) bool { return strings.HasPrefix(e.Kind, kind) }) {
		return false
	}
	about := s.about.Load()
	return about == nil || *about == nil || (*about)(e)
}

// loop sends what changes until ctx ends, the browser has left, or events cannot be followed any more: then the browser connects
// again, rather than show for hours what was once so.
func (s *stream) loop(ctx context.Context, events <-chan int64, failed <-chan error) error {
	if err := s.refresh(true); err != nil {
		return err
	}
	alive := time.NewTicker(streamAlive)
	defer alive.Stop()
	var again <-chan time.Time
	if s.page.every > 0 {
		ticker := time.NewTicker(s.page.every)
		defer ticker.Stop()
		again = ticker.C
	}
	for {
		begun := time.Now()
		var err error
		var soon <-chan time.Time
		if s.soon > 0 {
			soon = time.After(s.soon)
		}
		select {
		case <-soon:
			err = s.refresh(false)
		case err = <-failed:
			if err == nil {
				err = errors.New("events are not followed any more")
			}
		case <-s.fed():
			err = s.hand(ctx)
		case <-ctx.Done():
			return ctx.Err()
		case id := <-events:
			s.after = id
			err = s.refresh(false)
		case <-again:
			err = s.refresh(false)
		case <-alive.C:
			if err = s.stillIn(); err == nil {
				err = s.send("", "", nil)
			}
		}
		if err != nil {
			return err
		}
		s.pause(ctx, time.Since(begun))
	}
}

// fed tells of something new of the feed.
func (s *stream) fed() <-chan struct{} {
	if s.feed == nil {
		return nil
	}
	return s.feed.changed()
}

// hand sends what the feed has.
func (s *stream) hand(ctx context.Context) error {
	event, data, err := s.feed.next(ctx)
	if err != nil {
		return err
	}
	return s.send("", event, data)
}

// pause lets changes gather in proportion to what rendering them costs.
func (s *stream) pause(ctx context.Context, took time.Duration) {
	timer := time.NewTimer(min(max(streamPause, streamShare*took), longestPause))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// stillIn looks whether the Web session goes on, with the same Actor.
func (s *stream) stillIn() error {
	actor, err := s.w.actorOf(s.request, false)
	if err == nil {
		err = actor.Need(s.page.need)
	}
	if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) || (err == nil && actor != s.visit.actor) {
		_ = s.send("", overEvent, []byte("over")) // whoever left does not hear it
		return fault.New(fault.Unauthenticated, "session_over", "the Web session ended")
	}
	return err
}

// refresh renders the parts and sends those that the browser has not.
func (s *stream) refresh(first bool) error {
	s.visit.now = s.w.Now()
	c, err := s.page.load(s.visit)
	if err != nil {
		return err
	}
	s.about.Store(&c.about)
	s.soon = c.soon
	var changed bytes.Buffer
	for _, p := range c.parts {
		if err := s.render(&changed, p); err != nil {
			return err
		}
	}
	if first && s.sum != "" {
		sum, err := sumOf(s.visit.ctx, c.parts)
		if err != nil {
			return err
		}
		if sum == s.sum {
			changed.Reset()
		}
	}
	if changed.Len() == 0 && !first {
		return nil
	}
	return s.send(strconv.FormatInt(s.after, 10), partsEvent, changed.Bytes())
}

// sumOf gives a sum of parts as they are rendered.
func sumOf(ctx context.Context, parts []part) (string, error) {
	h := sha256.New()
	for _, p := range parts {
		if err := p.body.Render(ctx, h); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

func (s *stream) render(out *bytes.Buffer, p part) error {
	if p.rows == nil {
		return s.element(out, p)
	}
	whole, err := s.html(p)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(whole)
	if s.sent[p.id] == sum {
		return nil
	}
	s.sent[p.id] = sum
	rows := make([][]byte, len(p.rows))
	for i, row := range p.rows {
		if rows[i], err = s.html(row); err != nil {
			return err
		}
	}
	shell := shellOf(whole, p.rows, rows)
	all := s.shells[p.id] != shell || len(rows) == 0
	s.shells[p.id] = shell
	for i, row := range p.rows {
		sum := sha256.Sum256(rows[i])
		same := s.sent[row.id] == sum
		if s.sent[row.id] = sum; same || all { // they go with the whole
			continue
		}
		if err := inPlace(out, row.id, rows[i]); err != nil {
			return err
		}
	}
	if all {
		return inPlace(out, p.id, whole)
	}
	return nil
}

// shellOf gives a sum of a part without its rows: of what stands around them, and of their ids in order. A row that does not stand
// in the part as it is rendered alone counts as what is around.
func shellOf(whole []byte, parts []part, rows [][]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for i, row := range rows {
		if before, after, found := bytes.Cut(whole, row); found {
			_, _ = h.Write(before) // never fails
			whole = after
		}
		fmt.Fprintf(h, "\x00%s\x00", parts[i].id)
	}
	_, _ = h.Write(whole)
	h.Sum(sum[:0])
	return sum
}

func (s *stream) html(p part) ([]byte, error) {
	var b bytes.Buffer
	err := p.body.Render(s.visit.ctx, &b)
	return b.Bytes(), err
}

// element adds one part to what is sent, unless the browser has it.
func (s *stream) element(out *bytes.Buffer, p part) error {
	html, err := s.html(p)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(html)
	if s.sent[p.id] == sum {
		return nil
	}
	s.sent[p.id] = sum
	return inPlace(out, p.id, html)
}

// inPlace adds one element to what is sent, so that it takes the place of the element with its id.
func inPlace(out *bytes.Buffer, id string, html []byte) error {
	html = bytes.TrimSpace(html)
	end := bytes.IndexAny(html, " >")
	if end < 0 || html[0] != '<' {
		return fmt.Errorf("the part %s is not one element", id)
	}
	out.WriteString("<template>") // of its own: beside other elements a row or the body of a table would not be parsed
	out.Write(html[:end])
	out.WriteString(` hx-swap-oob="true"`)
	out.Write(html[end:])
	out.WriteString("</template>\n")
	return nil
}
