package web

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"legwork/internal/control"
)

const (
	logEvent   = "log"
	tickPause  = 200 * time.Millisecond // between two ticks of a log that grows
	tickRows   = 120                    // newest lines that go with a tick: more than a screen
	tickMemory = 5                      // ticks whose lines go with a tick: who missed one has them all the same
	followWait = time.Second            // after a following that broke
)

// following is who follows a log here, and what they are told: at most five times a second one tick, with the newest lines. It is
// rendered once for all of them.
type following struct {
	users int
	stop  context.CancelFunc

	over    bool // the Job is, and its log is whole
	begun   bool // at least once all that is stored was read
	ticked  point
	before  []int64 // lines there were at the last ticks
	at      time.Time
	waiting bool // a tick is due
	rung    chan struct{}
	data    []byte // of the last tick, once somebody asked
	making  sync.Mutex
}

// logFeed is one page that follows a log.
type logFeed struct {
	book  *logBook
	seen  chan struct{} // the tick it waits for
	leave func()
}

// jobFeed lets the page of a Job follow its log.
func jobFeed(v *visit) (feed, error) {
	j, err := v.Control.Job(v.ctx, v.actor, v.request.PathValue("job"))
	if err != nil {
		return nil, err
	}
	b, err := v.book(j)
	if err != nil {
		return nil, err
	}
	b.join()
	f := &logFeed{book: b, leave: sync.OnceFunc(b.quit)}
	if f.ready() {
		first := make(chan struct{})
		close(first)
		f.seen = first
	} else {
		f.seen = b.rung()
	}
	return f, nil
}

// ready tells whether there was a tick already.
func (f *logFeed) ready() bool {
	f.book.mu.Lock()
	defer f.book.mu.Unlock()
	return f.book.follow.begun
}

func (f *logFeed) changed() <-chan struct{} { return f.seen }

// next gives the newest tick.
func (f *logFeed) next(ctx context.Context) (string, []byte, error) {
	f.seen = f.book.rung() // before the tick is looked at
	data, err := f.book.tickData(ctx)
	return logEvent, data, err
}

func (f *logFeed) close() { f.leave() }

func (b *logBook) followers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.follow.users
}

func (b *logBook) rung() chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.follow.rung
}

// join counts one more follower; the first has the log followed.
func (b *logBook) join() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follow.users++
	if b.follow.users > 1 {
		return
	}
	ctx, cancel := context.WithCancel(b.web.Streaming)
	b.follow.stop = cancel
	go b.keepUp(ctx)
}

// quit counts one follower less; with the last the following ends.
func (b *logBook) quit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.follow.users--; b.follow.users == 0 {
		b.follow.stop()
		b.follow.begun = false
	}
}

// keepUp follows the log until ctx ends or the Job is over and its log is whole.
func (b *logBook) keepUp(ctx context.Context) {
	for ctx.Err() == nil {
		err := b.catchUp(ctx)
		if err == nil {
			b.tick(ctx, false)
			err = b.web.Control.FollowLog(ctx, b.actor, b.job, b.at().pos, b.only, func(lines []control.LogLine) error {
				for i := range lines {
					b.add(&lines[i])
				}
				b.tickSoon(ctx)
				return nil
			})
		}
		if err == nil {
			b.tick(ctx, true)
			return
		}
		if ctx.Err() == nil {
			b.web.Log.Warn("a log is not followed for a moment", "job_id", b.job, "error", err)
		}
		wait(ctx, followWait)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tickSoon has those who follow told: at once when the last time is long ago, else after a pause.
func (b *logBook) tickSoon(ctx context.Context) {
	b.mu.Lock()
	due := time.Until(b.follow.at.Add(tickPause))
	waiting := b.follow.waiting
	b.follow.waiting = true
	b.mu.Unlock()
	switch {
	case waiting:
	case due <= 0:
		b.tick(ctx, false)
	default:
		time.AfterFunc(due, func() { b.tick(ctx, false) })
	}
}

// tick tells those who follow.
func (b *logBook) tick(ctx context.Context, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &b.follow
	if ctx.Err() != nil {
		f.waiting = false
		return
	}
	if f.before = append(f.before, f.ticked.lines); len(f.before) > tickMemory {
		f.before = f.before[1:]
	}
	f.over, f.begun, f.waiting, f.data, f.at = f.over || over, true, false, nil, time.Now()
	f.ticked = point{b.end.pos, b.end.lines}
	close(f.rung)
	f.rung = make(chan struct{})
}

// isKeptUp tells whether the book is kept as new as the log for those who follow.
func (b *logBook) isKeptUp() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.follow.users > 0 && b.follow.begun
}

// freshest gives the position that a block has to know to be new enough.
func (b *logBook) freshest() int64 {
	kept := b.isKeptUp()
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept {
		return b.follow.ticked.pos
	}
	return b.end.pos
}

// tickData gives what the last tick says.
func (b *logBook) tickData(ctx context.Context) ([]byte, error) {
	b.follow.making.Lock()
	defer b.follow.making.Unlock()
	b.mu.Lock()
	data, lines, over, from := b.follow.data, b.follow.ticked.lines, b.follow.over, b.newest()
	rung := b.follow.rung
	b.mu.Unlock()
	if data != nil {
		return data, nil
	}
	rows, err := b.rows(ctx, from, int(lines-from+1))
	if err != nil {
		return nil, err
	}
	data = appendLog(nil, lines, over, b.allSections(), from, rows)
	b.mu.Lock()
	if b.follow.rung == rung {
		b.follow.data = data
	}
	b.mu.Unlock()
	return data, nil
}

// newest gives the first line that goes with the tick. The caller holds mu.
func (b *logBook) newest() int64 {
	lines := b.follow.ticked.lines
	from := max(lines, 1)
	if len(b.follow.before) > 0 {
		from = b.follow.before[0] + 1
	}
	least := max(lines-tickRows+1, 1)
	for _, n := range b.end.lanes {
		if n.line >= least {
			from = min(from, n.line)
		}
	}
	return max(min(from, max(lines, 1)), least)
}

// appendLog writes what a page is told of a log, as JSON.
func appendLog(dst []byte, last int64, over bool, sections []section, from int64, rows [][]byte) []byte {
	dst = append(dst, `{"last":`...)
	dst = strconv.AppendInt(dst, last, 10)
	dst = append(dst, `,"over":`...)
	dst = strconv.AppendBool(dst, over)
	dst = append(dst, `,"sections":`...)
	listed, _ := json.Marshal(sections) // numbers alone
	if sections == nil {
		listed = []byte("[]")
	}
	dst = append(dst, listed...)
	dst = append(dst, `,"from":`...)
	dst = strconv.AppendInt(dst, from, 10)
	dst = append(dst, `,"rows":[`...)
	for i, row := range rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, row...)
	}
	return append(dst, "]}"...)
}
