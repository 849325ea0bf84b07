package logs

import (
	"context"
	"slices"
	"sync"
	"time"

	"legwork/internal/store"
)

const (
	tailLines    = 16 << 10         // newest lines that are kept in memory per followed Job, and those that came with them
	tailBytes    = 2 << 20          // and their bytes
	runLines     = 512              // up to that many lines small runs are joined
	watchTrusted = 90 * time.Second // how long they believe it
)

// tails holds the newest lines of the Jobs that somebody follows here, so that a hundred followers of one Job cost one read, or
// none when the lines come in at this very Server.
type tails struct {
	host  Host
	mu    sync.Mutex
	byJob map[string]*tail
	away  map[string]time.Time // Jobs followed at other Servers, until when that is believed
}

// tail is the end of one followed Job's log.
type tail struct {
	job   string
	users int

	mu    sync.Mutex
	runs  []run // without gaps; the last line has the position last
	count int   // of lines
	bytes int
	last  int64 // position up to which followers can get everything from here or the store
	known int64 // position up to which records are known to be stored
	ended bool
	rung  chan struct{}

	reading sync.Mutex // held by the one who reads for all
}

// run is some lines of a tail that follow one another. What was given to a follower is never written again.
type run struct {
	lines []store.LogLine
	bytes int
}

func (r *run) first() int64 { return r.lines[0].Pos }

func newTails(host Host) *tails {
	return &tails{host: host, byJob: map[string]*tail{}, away: map[string]time.Time{}}
}

// join gives the tail of a Job, from now on kept up to date.
func (t *tails) join(job string) (l *tail, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l = t.byJob[job]
	if l == nil {
		l, first = &tail{job: job, rung: make(chan struct{})}, true
		t.byJob[job] = l
	}
	l.users++
	return l, first
}

func (t *tails) quit(l *tail) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(t.byJob, l.job)
	}
	return l.users == 0
}

func (t *tails) get(job string) *tail {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byJob[job]
}

// watched tells whether somebody follows a Job, here or at another Server.
func (t *tails) watched(job string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, away := t.away[job]
	return away || t.byJob[job] != nil
}

// stored says that a log grew up to a position; lines are the new records when they are at hand.
func (t *tails) stored(job string, lines []store.LogLine, last int64) {
	if l := t.get(job); l != nil {
		l.stored(lines, last)
	}
}

// ended says that a Job is over and its log whole.
func (t *tails) ended(job string) {
	l := t.get(job)
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.ring()
}

func (l *tail) stored(lines []store.LogLine, last int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = max(l.known, last)
	for len(lines) > 0 && lines[0].Pos <= l.last {
		lines = lines[1:]
	}
	if len(lines) > 0 && lines[0].Pos == l.last+1 {
		l.push(lines)
	}
	l.ring()
}

// push appends lines that follow on the last one, and keeps them. The caller holds mu.
func (l *tail) push(lines []store.LogLine) {
	bytes := 0
	for i := range lines {
		bytes += len(lines[i].Data)
	}
	if n := len(l.runs) - 1; n >= 0 && len(l.runs[n].lines)+len(lines) <= runLines {
		l.runs[n].lines = append(l.runs[n].lines, lines...)
		l.runs[n].bytes += bytes
	} else {
		l.runs = append(l.runs, run{lines, bytes})
	}
	l.count += len(lines)
	l.bytes += bytes
	l.last = lines[len(lines)-1].Pos
	l.known = max(l.known, l.last)
	drop := 0
	for drop < len(l.runs)-1 && (l.count-len(l.runs[drop].lines) >= tailLines || l.bytes > tailBytes) {
		l.count -= len(l.runs[drop].lines)
		l.bytes -= l.runs[drop].bytes
		drop++
	}
	l.runs = slices.Delete(l.runs, 0, drop)
}

// ring wakes the followers. The caller holds mu.
func (l *tail) ring() {
	close(l.rung)
	l.rung = make(chan struct{})
}

// glance is what a tail says to a follower.
type glance struct {
	lines []store.LogLine // that follow its position, when they are here
	more  bool            // something follows, here or in the store
	ended bool            // the Job is over
	rung  <-chan struct{} // closed when there is something new
}

func (l *tail) look(after int64) glance {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := glance{more: l.known > after, ended: l.ended, rung: l.rung}
	if after >= l.last {
		return g
	}
	for i := len(l.runs) - 1; i >= 0; i-- {
		if r := &l.runs[i]; r.first() <= after+1 {
			g.lines = r.lines[after+1-r.first():]
			g.lines = g.lines[:len(g.lines):len(g.lines)]
			break
		}
	}
	return g
}

// catchUp reads on from where the tail ends, once for all who wait for it. A follower that is further behind reads for
// itself.
func (l *Logs) catchUp(ctx context.Context, end *tail, after int64) ([]store.LogLine, error) {
	if end.isPast(after) {
		return l.readLines(ctx, end.job, after, 0)
	}
	end.reading.Lock()
	defer end.reading.Unlock()
	if g := end.look(after); len(g.lines) > 0 {
		return g.lines, nil
	}
	lines, err := l.readLines(ctx, end.job, after, 0)
	if err != nil || len(lines) == 0 {
		return lines, err
	}
	end.mu.Lock()
	defer end.mu.Unlock()
	switch last := lines[len(lines)-1].Pos; {
	case last <= end.last:
	case lines[0].Pos <= end.last+1:
		end.push(lines[end.last+1-lines[0].Pos:])
	default: // what lies between was not asked for
		end.runs, end.count, end.bytes = nil, 0, 0
		end.push(lines)
	}
	return lines, nil
}

func (l *tail) isPast(after int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return after < l.last
}

// watchedElsewhere notes that somebody follows a Job at another Server.
func (t *tails) watchedElsewhere(job string, on bool) {
	t.mu.Lock()
	if on {
		t.away[job] = time.Now().Add(watchTrusted)
	} else {
		delete(t.away, job)
	}
	t.mu.Unlock()
	t.configure(job)
}

// watch tells the other Servers and the Instances that are connected here that somebody follows a Job or that nobody does.
func (t *tails) watch(job string, on bool) {
	t.host.Follows(job, on)
	t.configure(job)
}

// configure tells the Instances that are connected here.
func (t *tails) configure(job string) { t.host.Ship(job, t.watched(job)) }

// refreshWatches repeats to the other Servers what is followed here, and forgets what they no longer repeat.
func (t *tails) refreshWatches(now time.Time) {
	t.mu.Lock()
	here := make([]string, 0, len(t.byJob))
	for job := range t.byJob {
		here = append(here, job)
	}
	var gone []string
	for job, until := range t.away {
		if now.After(until) {
			delete(t.away, job)
			gone = append(gone, job)
		}
	}
	t.mu.Unlock()
	for _, job := range here {
		t.host.Follows(job, true)
	}
	for _, job := range gone {
		t.configure(job)
	}
}
