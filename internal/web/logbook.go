package web

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

const (
	blockLines   = 256              // lines of a block: the unit of reading and rendering
	blocksKept   = 16               // rendered blocks that are kept per log
	blockMost    = 128 << 10        // bytes; a larger block is not kept: all that are kept take 64 MiB at most
	answerMost   = 2 << 20          // bytes of rows in one answer
	booksKept    = 32               // logs that are known in memory
	mostSections = 200              // beyond them the last goes on
	aheadRecords = 50_000           // read on for the rest of a line that began in a block
	aheadTime    = 3 * time.Second  // and for how long
	scanTime     = 20 * time.Second // that a request gives to reading a log that is not known yet
)

// logBooks are the logs that were looked at lately.
type logBooks struct {
	mu    sync.Mutex
	byJob map[string]*logBook
	order []string // the one looked at last stands last
}

// logBook is what is known of one log: which record each block of lines begins with, and with which colours; the Steps; the blocks
// that were rendered lately. It is made with one pass over the log and grows with it.
type logBook struct {
	web   *Web
	job   string
	runs  *runNames         // of a Runbook Job, else nil
	only  control.LogFilter // the lines that it is of
	actor catalog.Actor     // who looked first; whoever else looks was asked for the same right

	reading sync.Mutex // held by the one who reads on

	mu       sync.Mutex
	end      cursor
	marks    []cursor // before the first record of each block
	sections []section

	rendering sync.Mutex
	blocks    map[int64]*block
	recent    []int64 // blocks, the one used last stands last

	follow following
}

// section is lines of one Step that follow one another.
type section struct {
	Attempt int   `json:"attempt"`
	Step    int   `json:"step"`
	First   int64 `json:"first"` // lines
	Last    int64 `json:"last"`
	Begun   int64 `json:"begun"` // milliseconds since 1970
	Ended   int64 `json:"ended"`
}

// runNames are what lines of a Runbook Job are of: its Nodes by index, its Runners by Part.
type runNames struct {
	nodes   []string
	runners []string
	names   *control.LogNames // which instance an attempt of a part was bound to
	byStep  bool              // lines of a step follow one another, so that the log is parted by steps
}

// namesOfRun gives the names that lines of a Runbook Job bear, nil for other Jobs.
func (v *visit) namesOfRun(j *work.Job, only control.LogFilter) (*runNames, error) {
	if !j.IsRun() {
		return nil, nil
	}
	run, err := v.Control.RunView(v.ctx, v.actor, j.ID)
	if err != nil {
		return nil, err
	}
	names := &runNames{byStep: only.Node > 0 || only.Item > 0 || run.Plan.Strategy == catalog.StepFirst || len(run.Plan.Items) == 1}
	if names.names, err = v.Control.LogNames(v.ctx, v.actor, j); err != nil {
		return nil, err
	}
	for _, n := range run.Plan.Nodes {
		names.nodes = append(names.nodes, n.Name)
	}
	for _, p := range run.Plan.Parts {
		names.runners = append(names.runners, orWord(p.Runner, labelsText(p.Labels)))
	}
	return names, nil
}

// bookID names a log, or some lines of it.
func bookID(job string, only control.LogFilter) string {
	if only == (control.LogFilter{}) {
		return job
	}
	return fmt.Sprintf("%s %d %d %d", job, only.Part, only.Node, only.Item)
}

// book gives what is known of a Job's log, narrowed as the address says; the Actor may read it.
func (v *visit) book(j *work.Job) (*logBook, error) {
	choice, err := v.logChoice(j)
	if err != nil {
		return nil, err
	}
	if found := v.logs.get(bookID(j.ID, choice.LogFilter)); found != nil {
		return found, nil
	}
	names, err := v.namesOfRun(j, choice.LogFilter)
	if err != nil {
		return nil, err
	}
	return v.newBook(j.ID, choice.LogFilter, names), nil
}

// get gives a log that is known, nil for another.
func (b *logBooks) get(id string) *logBook {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.byJob[id]
	if found != nil {
		b.order = append(slices.DeleteFunc(b.order, func(other string) bool { return other == id }), id)
	}
	return found
}

// newBook adds a log to those that are known, unless another request was faster.
func (v *visit) newBook(of string, only control.LogFilter, names *runNames) *logBook {
	job := bookID(of, only)
	b := &v.logs
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byJob == nil {
		b.byJob = map[string]*logBook{}
	}
	found := b.byJob[job]
	if found == nil {
		found = &logBook{web: v.Web, job: of, only: only, runs: names, actor: v.actor, blocks: map[int64]*block{}}
		found.follow.rung = make(chan struct{})
		b.byJob[job] = found
	}
	b.order = append(slices.DeleteFunc(b.order, func(id string) bool { return id == job }), job)
	for i := 0; len(b.order) > booksKept && i < len(b.order)-1; {
		if old := b.byJob[b.order[i]]; old.followers() > 0 {
			i++
			continue
		}
		delete(b.byJob, b.order[i])
		b.order = slices.Delete(b.order, i, i+1)
	}
	return found
}

// add takes in lines that follow on those that are known; others are left out. Between the positions of two lines there may be records that
// are none. Whoever adds does so from a known position on, in order and without leaving a line out: so what comes twice is all that is to
// be told apart, and nothing is missed.
func (b *logBook) add(l *control.LogLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.Pos <= b.end.pos {
		return
	}
	begins := b.end.begins(l)
	if begins && b.end.lines%blockLines == 0 {
		b.marks = append(b.marks, b.end.clone())
	}
	n := b.end.take(l)
	if begins {
		if b.runs != nil {
			n = b.runs.sectionOf(n)
		}
		b.noteSection(n, l.Time.UnixMilli())
	}
}

// sectionOf gives what a line counts to: of a Runbook Job, whose Parts print at once, its step where the lines of one follow one another.
func (r *runNames) sectionOf(n lane) lane {
	n.attempt, n.step = 0, -1
	if r.byStep {
		n.step = n.item - 1
	}
	return n
}

// who names the Node of a line, or the Runner where it is about none.
func (r *runNames) who(part, node int) string {
	switch {
	case node > 0 && node <= len(r.nodes):
		return r.nodes[node-1]
	case part > 0 && part <= len(r.runners):
		return r.runners[part-1]
	}
	return ""
}

// instance names the instance that an attempt of a part was bound to, "" when that is not known.
func (r *runNames) instance(ctx context.Context, part, attempt int) string {
	_, instance := r.names.Runner(ctx, part, attempt)
	return instance
}

// noteSection notes which Step a new line is of. The caller holds mu.
func (b *logBook) noteSection(n lane, at int64) {
	last := len(b.sections) - 1
	if last < 0 || (b.sections[last].Attempt != n.attempt || b.sections[last].Step != n.step) && last < mostSections-1 {
		b.sections = append(b.sections, section{Attempt: n.attempt, Step: n.step, First: n.line, Last: n.line, Begun: at, Ended: at})
		return
	}
	b.sections[last].Last, b.sections[last].Ended = n.line, at
}

// catchUp reads on to the end of what is stored. What it has read stays known when ctx ends it.
func (b *logBook) catchUp(ctx context.Context) error {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.web.Control.ScanLog(ctx, b.actor, b.job, b.at().pos, func(l *control.LogLine) bool {
		if b.only.Matches(l) {
			b.add(l)
		}
		return true
	})
}

// point is a place in a log.
type point struct{ pos, lines int64 }

func (b *logBook) at() point {
	b.mu.Lock()
	defer b.mu.Unlock()
	return point{b.end.pos, b.end.lines}
}

func (b *logBook) allSections() []section {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sections)
}

// mark gives where a block begins, and whether there is such a block.
func (b *logBook) mark(n int64) (cursor, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n < 0 || n >= int64(len(b.marks)) {
		return cursor{}, false
	}
	return b.marks[n].clone(), true
}

// closed tells whether nothing in a block can change any more.
func (b *logBook) closed(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return n < int64(len(b.marks))-1 && !b.end.open(n*blockLines+1, (n+1)*blockLines)
}

// rows gives rendered lines from one on, at most count, and the number of the first. There are fewer where the log ends, and when they are
// large.
func (b *logBook) rows(ctx context.Context, from int64, count int) (rows [][]byte, err error) {
	size := 0
	for count > 0 {
		found, err := b.block(ctx, (from-1)/blockLines)
		if err != nil {
			return rows, err
		}
		skip := int((from - 1) % blockLines)
		if skip >= len(found.rows) {
			return rows, nil
		}
		for _, row := range found.rows[skip:min(len(found.rows), skip+count)] {
			if size += len(row); size > answerMost && len(rows) > 0 {
				return rows, nil
			}
			rows = append(rows, row)
		}
		taken := min(len(found.rows)-skip, count)
		from, count = from+int64(taken), count-taken
	}
	return rows, nil
}
