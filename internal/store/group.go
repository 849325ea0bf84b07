package store

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"legwork/internal/fault"
)

// One commit holds at most this many Updates, begun within this time, so that the first of them does not wait long.
const (
	groupSize = 128
	groupTime = 5 * time.Millisecond
)

// group is the writer of SQLite: it runs Updates one at a time, in the order in which they came, and
// lets those that meet share one commit, because a commit waits for the disk.
//
// Every Update runs in the goroutine of its caller, which has the turn while it does. When others wait, it
// gives the turn on with the transaction still open, and waits for the commit; the last in line commits for all.
type group struct {
	session *session
	d       *dialect

	mu     sync.Mutex
	taken  bool    // somebody has the turn
	line   []*turn // who waits for it
	closed bool

	// Belong to who has the turn.
	begun   time.Time // of the open transaction
	open    bool
	members *commit // those who share it
}

// turn is one waiting Update; ready is closed when it has the turn.
type turn struct{ ready chan struct{} }

// commit is the shared end of the Updates of one transaction.
type commit struct {
	size int
	done chan struct{} // closed when err is known
	err  error
}

func newGroup(s *session, d *dialect) *group {
	return &group{session: s, d: d, members: &commit{done: make(chan struct{})}}
}

func (g *group) update(ctx context.Context, fn func(tx *Tx) error) error {
	if err := g.take(ctx); err != nil {
		return err
	}
	mine, err := g.run(ctx, fn)
	if err != nil {
		return err
	}
	<-mine.done
	return mine.err
}

// run performs fn and gives the turn on, whatever fn does: fail, panic or end its goroutine.
func (g *group) run(ctx context.Context, fn func(tx *Tx) error) (mine *commit, err error) {
	defer g.release()
	if err := g.perform(ctx, fn); err != nil {
		return nil, err
	}
	g.members.size++
	return g.members, nil
}

// take waits for the turn.
func (g *group) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return errClosed
	}
	if !g.taken {
		g.taken = true
		g.mu.Unlock()
		return nil
	}
	t := &turn{ready: make(chan struct{})}
	g.line = append(g.line, t)
	g.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		return g.leave(ctx, t)
	}
}

// leave takes a turn out of the line; if it has just come, it is given on.
func (g *group) leave(ctx context.Context, t *turn) error {
	g.mu.Lock()
	i := slices.Index(g.line, t)
	if i >= 0 {
		g.line = slices.Delete(g.line, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 {
		g.release()
	}
	return ctx.Err()
}

// release gives the turn to the next in line, within the open transaction while that is young and has room.
// Otherwise it commits first. Others join the line while it does.
func (g *group) release() {
	if g.open && (g.members.size >= groupSize || time.Since(g.begun) > groupTime || g.alone()) {
		g.finish()
	}
	for !g.pass() {
		g.finish() // nobody was left in line to commit
	}
}

func (g *group) alone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.line) == 0
}

// pass hands over the turn, or lays it down when nobody waits and nothing is open.
func (g *group) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case len(g.line) > 0:
		next := g.line[0]
		g.line = slices.Delete(g.line, 0, 1)
		close(next.ready)
	case g.open:
		return false
	default:
		g.taken = false
	}
	return true
}

// perform runs fn within the open transaction, opening one when there is none. What fn did is undone when it fails,
// and only that: the first one is undone with the transaction, the others to their savepoint. But where SQLite itself gave up the
// transaction (a full disk), it is over for all in it.
func (g *group) perform(ctx context.Context, fn func(tx *Tx) error) (err error) {
	undo, err := g.enter()
	if err != nil {
		return g.d.explain(err)
	}
	ok, tx := false, newTx(ctx, g.session, g.d, true)
	defer func() {
		switch {
		case tx.broken != nil:
			g.end(tx.broken)
		case !ok:
			undo()
		}
	}()
	if err := fn(tx); err != nil || tx.broken != nil {
		return cmp.Or(tx.broken, err)
	}
	if g.members.size > 0 {
		if err := g.session.do("RELEASE one"); err != nil {
			return g.d.explain(err)
		}
	}
	ok = true
	return nil
}

// enter opens a transaction or a savepoint in it, and gives what undoes it.
func (g *group) enter() (undo func(), err error) {
	if g.open && g.members.size > 0 {
		return g.undoOne, g.session.do("SAVEPOINT one")
	}
	if !g.open {
		if err := g.session.do("BEGIN IMMEDIATE"); err != nil {
			return nil, err
		}
		g.open, g.begun = true, time.Now()
	}
	return g.undoAll, nil
}

// undoOne takes back the last Update. When that cannot be done, the transaction is lost for all in it.
func (g *group) undoOne() {
	if err := g.session.do("ROLLBACK TO one"); err != nil {
		g.end(err)
		return
	}
	if err := g.session.do("RELEASE one"); err != nil {
		g.end(err)
	}
}

func (g *group) undoAll() { g.end(nil) }

// end rolls the transaction back and tells its members why.
func (g *group) end(why error) {
	// SQLite may have rolled back by itself already: then this fails, which is as good.
	_ = g.session.do("ROLLBACK")
	g.answer(why)
}

// finish commits.
func (g *group) finish() {
	if err := g.session.do("COMMIT"); err != nil {
		g.end(err)
		return
	}
	g.answer(nil)
}

// answer tells the members of the transaction how it ended and makes room for another.
func (g *group) answer(err error) {
	g.members.err = g.d.explain(err)
	close(g.members.done)
	g.members = &commit{done: make(chan struct{})}
	g.open = false
}

// close refuses further Updates and waits for those that are in line.
func (g *group) close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	var last *turn
	if g.taken {
		last = &turn{ready: make(chan struct{})}
		g.line = append(g.line, last)
	}
	g.taken = true
	g.mu.Unlock()
	if last != nil {
		<-last.ready
	}
	if g.open {
		g.finish()
	}
	return g.session.close()
}

var errClosed = fault.New(fault.Unavailable, "database_closed", "the database is closed, because the program is stopping")
