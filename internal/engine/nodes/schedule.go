package nodes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

var (
	errCanceled = errors.New("the Job was canceled")
	errTimeout  = errors.New("the step took longer than its timeout")
)

// round is one Round while it is performed.
type round struct {
	path      string // of its file
	file      *File
	secrets   *secretStore
	log       *output
	journal   *journal
	transport Transport
	playbook  Playbook

	stopped chan struct{} // closed: nothing further begins
	stop    func()
	asked   atomic.Bool // the Runner wants that nothing further begins

	mu       sync.Mutex
	ended    map[pairKey]work.NodeEvent // of this Round and of what was before it
	begun    map[pairKey]bool           // by an earlier process; how they ended is not known
	bad      map[int]bool
	failures int
	failed   bool // an Item that is done once per Runner
	fatal    error
}

// newRound takes up what is known: what an earlier Attempt did, what earlier Rounds did, and what an earlier process did of
// this Round.
func newRound(f *File, j *journal, log *output) *round {
	r := &round{
		file: f, journal: j, log: log, stopped: make(chan struct{}),
		ended: map[pairKey]work.NodeEvent{}, begun: map[pairKey]bool{}, bad: map[int]bool{},
	}
	r.stop = sync.OnceFunc(func() { close(r.stopped) })
	for _, e := range f.Run.Settled {
		switch {
		case !e.Status.Done():
			r.begun[pairKey{e.Node, e.Item}] = true
		case e.Status != work.NodeNotRun:
			r.ended[pairKey{e.Node, e.Item}] = e
		}
	}
	for key := range j.begun {
		r.begun[key] = true
	}
	for key, e := range j.ended {
		r.ended[key] = e
		delete(r.begun, key)
	}
	return r
}

// recall takes up what Items came to in earlier Rounds, of earlier Attempts and of this one.
func (r *round) recall(file string) error {
	return readState(StatePath(file), r.file.Round.Nodes, func(n int, p pastPair) {
		if key := (pairKey{n, p.Item}); !r.mine(key) { // what is of this Round is told by Settled and the journal
			r.ended[key] = work.NodeEvent{Node: n, Item: p.Item, Status: p.Status, ExitCode: p.ExitCode, Values: p.Values}
		}
	})
}

// came gives what the pairs of this Round came to, in their order.
func (r *round) came() (events []work.NodeEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := r.file.Round.First; i < r.file.Round.End; i++ {
		for _, n := range append([]int{once}, r.file.Round.Nodes...) {
			if e, ok := r.ended[pairKey{n, i}]; ok {
				events = append(events, e)
			}
		}
	}
	return events
}

// perform does the whole Round and says what it came to. Its error is one of this host: the journal cannot be written.
func (r *round) perform(ctx context.Context) (work.RoundResult, error) {
	r.tellAgain()
	first := r.file.Run.Items[r.file.Round.First]
	switch {
	case first.Step.Ansible != nil:
		for i := r.file.Round.First; i < r.file.Round.End; i++ {
			r.play(ctx, i)
		}
	case !first.OnNodes():
		for i := r.file.Round.First; i < r.file.Round.End; i++ {
			r.pair(ctx, once, i)
		}
	case r.file.Run.Strategy == catalog.Parallel:
		r.parallel(ctx)
	default:
		r.nodeFirst(ctx)
	}
	r.tellNotRun()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result(), r.fatal
}

// tellAgain repeats the events of an earlier process: the last of them may have been lost with it.
func (r *round) tellAgain() {
	for _, key := range r.journal.order {
		r.note(r.journal.ended[key])
		r.log.event(r.journal.ended[key])
	}
	for _, e := range r.file.Run.Settled {
		if r.mine(pairKey{e.Node, e.Item}) && e.Status.Bad() {
			r.note(e)
		}
	}
}

// mine tells whether a pair is of this Round.
func (r *round) mine(key pairKey) bool {
	return key.item >= r.file.Round.First && key.item < r.file.Round.End && (key.node == once || slices.Contains(r.file.Round.Nodes, key.node))
}

// nodeFirst has each Node go through all Items.
func (r *round) nodeFirst(ctx context.Context) {
	nodes := r.file.Round.Nodes
	r.each(len(nodes), func(k int) {
		for i := r.file.Round.First; i < r.file.Round.End && !r.isBad(nodes[k]); i++ {
			if !r.pair(ctx, nodes[k], i) {
				return
			}
		}
	})
}

// parallel does all pairs.
func (r *round) parallel(ctx context.Context) {
	nodes, items := r.file.Round.Nodes, r.file.Round.End-r.file.Round.First
	r.each(len(nodes)*items, func(k int) {
		if n := nodes[k/items]; !r.isBad(n) {
			r.pair(ctx, n, r.file.Round.First+k%items)
		}
	})
}

// each calls do for 0 to n-1 in this order, Concurrency at once.
func (r *round) each(n int, do func(k int)) {
	var mu sync.Mutex
	next := 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= n
	}
	var workers sync.WaitGroup
	for range min(max(r.file.Run.Concurrency, 1), n) {
		workers.Go(func() {
			for k, ok := take(); ok; k, ok = take() {
				do(k)
			}
		})
	}
	workers.Wait()
}

func (r *round) isBad(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad[n]
}

// mayBegin tells whether something further may begin. It looks itself: who asked that nothing does is not to see another step begin.
func (r *round) mayBegin(ctx context.Context) bool {
	r.look()
	select {
	case <-r.stopped:
		return false
	default:
		return ctx.Err() == nil
	}
}

// pair does an Item on a Node, or once. It returns false when that was not begun.
func (r *round) pair(ctx context.Context, n, item int) bool {
	key := pairKey{n, item}
	r.mu.Lock()
	_, over := r.ended[key]
	begun := r.begun[key]
	r.mu.Unlock()
	switch {
	case over:
		return true
	case begun && !r.file.Run.Items[item].Repeatable():
		r.end(r.unknown(key))
		return true
	case !r.mayBegin(ctx):
		return false
	}
	p := &pair{round: r, node: n, index: item, item: &r.file.Run.Items[item]}
	r.end(p.perform(ctx))
	return true
}

// unknown is the end of a pair that was begun by a process that died.
func (r *round) unknown(key pairKey) work.NodeEvent {
	item := r.file.Run.Items[key.item].Name
	f := &work.Failure{
		Code:    "outcome_unknown",
		Message: item + " was begun and cut off with its Runner, and nobody knows how it ended",
		Hint:    "see what it did; a step that may be done twice can say repeatable: true",
	}
	r.log.say(key.node, key.item, "%s: %s", r.name(key.node), f.Message)
	return work.NodeEvent{Node: key.node, Item: key.item, Status: work.NodeUnknown, ExitCode: -1, Failure: f, Finished: time.Now()}
}

// end notes how a pair ended: in the journal, then here, then for everybody. No secret goes into any of them, not even one that the pair
// passes on: what comes after sees what is stored, before a new start as behind it.
func (r *round) end(e work.NodeEvent) {
	if e.Status == work.NodeFailed && r.file.Run.Items[e.Item].Step.IgnoreErrors {
		e.Status = work.NodeIgnored
		r.log.say(e.Node, e.Item, "%s: %s: the step ignores errors", r.name(e.Node), r.file.Run.Items[e.Item].Name)
	}
	e = r.log.masked(e)
	if err := r.journal.end(e); err != nil {
		r.die(err)
	}
	r.note(e)
	r.log.event(e)
}

// note takes an end into account.
func (r *round) note(e work.NodeEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[pairKey{e.Node, e.Item}] = e
	if !e.Status.Bad() {
		return
	}
	if e.Node == once {
		r.failed = true
		r.stop()
		return
	}
	if !r.bad[e.Node] {
		r.bad[e.Node] = true
		r.failures++
	}
	if r.failures > r.file.Round.MaxFailures && r.file.Run.OnFailure != catalog.ContinueOnFailure {
		r.stop()
	}
}

// die ends the Round because this host cannot keep its journal: nothing may begin that nobody would know of.
func (r *round) die(err error) {
	r.mu.Lock()
	r.fatal = errors.Join(r.fatal, err)
	r.mu.Unlock()
	r.stop()
}

// tellNotRun tells which pairs were not begun. The journal does not hold them: a later process may begin them.
func (r *round) tellNotRun() {
	nodes := r.file.Round.Nodes
	if !r.file.Run.Items[r.file.Round.First].OnNodes() && r.file.Run.Items[r.file.Round.First].Step.Ansible == nil {
		nodes = []int{once}
	}
	for _, n := range nodes {
		for i := r.file.Round.First; i < r.file.Round.End; i++ {
			r.mu.Lock()
			_, over := r.ended[pairKey{n, i}]
			r.mu.Unlock()
			if !over {
				r.log.event(work.NodeEvent{Node: n, Item: i, Status: work.NodeNotRun})
			}
		}
	}
}

// result sums up. The caller holds mu.
func (r *round) result() work.RoundResult {
	result := work.RoundResult{Failed: r.failed}
	for _, n := range r.file.Round.Nodes {
		switch {
		case r.bad[n]:
			result.Bad = append(result.Bad, n)
			if r.file.Round.End-r.file.Round.First > 1 {
				result.BadAt = append(result.BadAt, r.badAt(n))
			}
		case r.through(n):
			result.Succeeded++
		default:
			result.NotRun++
		}
	}
	for i := r.file.Round.First; i < r.file.Round.End; i++ {
		result.Spans = append(result.Spans, r.span(i))
		for key, value := range r.ended[pairKey{once, i}].Values {
			if result.Values == nil {
				result.Values = map[string]string{}
			}
			result.Values[r.file.Run.Items[i].Name+"."+key] = value
		}
	}
	return result
}

// span returns from when to when an item of this round was done. It is empty when the item was skipped everywhere. The
// caller holds mu.
func (r *round) span(item int) (span work.Span) {
	for _, n := range append([]int{once}, r.file.Round.Nodes...) {
		e := r.ended[pairKey{n, item}]
		if e.Status == "" || e.Status == work.NodeSkipped {
			continue
		}
		if e.Started.IsZero() { // an earlier attempt did it
			e.Started, e.Finished = time.Now(), time.Now()
		}
		span = span.Join(work.Span{Started: e.Started, Finished: e.Finished})
	}
	return span
}

// badAt gives the first Item of the Round at which a Node dropped out. The caller holds mu.
func (r *round) badAt(n int) int {
	for i := r.file.Round.First; i < r.file.Round.End; i++ {
		if r.ended[pairKey{n, i}].Status.Bad() {
			return i
		}
	}
	return r.file.Round.End - 1
}

// through tells whether a Node did every Item that is done on Nodes. The caller holds mu.
func (r *round) through(n int) bool {
	for i := r.file.Round.First; i < r.file.Round.End; i++ {
		item := &r.file.Run.Items[i]
		if _, over := r.ended[pairKey{n, i}]; !over && (item.OnNodes() || item.Step.Ansible != nil) {
			return false
		}
	}
	return true
}

// name gives what people call a Node.
func (r *round) name(n int) string {
	if n == once {
		return "once per Runner"
	}
	return r.file.Run.Nodes[n].Name
}
