//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"legwork/internal/fault"
)

// maxTries bounds how often one call is repeated on a new connection.
const maxTries = 10

// Launch is the command line of a keeper: a program that calls RunKeeper with the folder the Client
// was given. Env is its whole environment; a keeper needs none of the Runner's credentials.
type Launch struct {
	Argv []string
	Env  []string
}

// Client is the Runner's end of a keeper. When the keeper is gone, by an upgrade or killed, the next
// call starts another one: calls are safe to repeat, and are repeated. Safe for concurrent use.
type Client struct {
	dir     string
	version string
	launch  Launch
	log     *slog.Logger

	dialing chan struct{} // held while a connection is being made
	yields  string        // version of the last keeper that launch started; whoever holds dialing has it

	mu      sync.Mutex
	conn    *clientConn
	closed  bool
	watches map[string]map[*Watch]struct{} // by path of the spool
	blocked map[string]SpoolState          // by path of the spool: whose commands are blocked, as the keeper told in this connection
}

// Connect finds the living keeper of dir or starts one, and waits until it answers. A keeper of
// another version is asked to leave as soon as it keeps nothing; until then it is used as it is.
// A fault.Unsupported means that it speaks no protocol known here.
func Connect(ctx context.Context, dir, version string, launch Launch, log *slog.Logger) (*Client, error) {
	c := &Client{
		dir: dir, version: version, launch: launch, log: log,
		dialing: make(chan struct{}, 1), watches: map[string]map[*Watch]struct{}{}, blocked: map[string]SpoolState{},
	}
	if _, err := c.connection(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the connection. The keeper and its commands go on.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		conn.end(errClosed)
		<-conn.gone
	}
	return nil
}

// Start starts a command. One that runs already, or whose exit record is there, is not started
// again, and that is no error. A program that cannot be executed is none either: its Exit says
// start_failed. Faults, after all of which nothing was started: Conflict with code
// "command_orphaned" when its start record is there but no keeper keeps it (see FindOrphan),
// Unavailable with code "disk_full", Invalid. A keeper of an earlier version that knows nothing of
// Spec.Framed is Unavailable with code "keeper_too_old": it leaves when it keeps nothing.
func (c *Client) Start(ctx context.Context, spec Spec) error {
	return c.call(ctx, opStart, spec, nil)
}

// Stop ends a command. It returns when the end has begun; Wait tells when it is over. Stopping
// gracefully twice changes nothing; Kill may follow Graceful. A command that is over is a
// fault.NotFound with code "command_not_kept".
func (c *Client) Stop(ctx context.Context, id string, mode StopMode) error {
	return c.call(ctx, opStop, stopBody{ID: id, Mode: mode}, nil)
}

// SlowDown makes the keeper read the output of a command more slowly for a second: what a command prints faster than
// its log can be sent waits in the command's pipe instead of in its spool. A command that prints less than 10 MB a
// second does not notice. Keepers of earlier versions ignore it.
func (c *Client) SlowDown(ctx context.Context, id string) error {
	conn, err := c.connection(ctx)
	if err != nil || conn.peer.Max < protocolSlowDown {
		return err
	}
	return conn.call(ctx, opSlow, slowBody{ID: id}, nil)
}

// List tells what the keeper keeps, in no order.
func (c *Client) List(ctx context.Context) ([]Kept, error) {
	var list listBody
	err := c.call(ctx, opList, nil, &list)
	return list.Commands, err
}

// Wait waits for the end of a command and returns its exit. exitFile is the one of its Spec: a
// command that the keeper does not keep has ended before when the record is there. When it is not,
// the command was never started or its keeper was killed: fault.NotFound, "command_not_kept".
func (c *Client) Wait(ctx context.Context, id, exitFile string) (Exit, error) {
	var exit Exit
	err := c.call(ctx, opWait, waitBody{ID: id}, &exit)
	if err == nil || fault.Code(err) != codeNotKept {
		return exit, err
	}
	exit, ok, readErr := ReadExit(exitFile)
	if readErr != nil {
		return Exit{}, readErr
	}
	if !ok {
		return Exit{}, err
	}
	return exit, nil
}

// Retire makes the keeper leave as soon as it keeps nothing. It goes on taking commands until then.
func (c *Client) Retire(ctx context.Context) error {
	return c.call(ctx, opRetire, nil, nil)
}

// Keeper tells which keeper the last connection was made to.
func (c *Client) Keeper() (pid int, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return 0, ""
	}
	return c.conn.peer.Pid, c.conn.peer.Version
}

// call makes one request, again on a new connection when the old one breaks.
func (c *Client) call(ctx context.Context, op string, body, into any) error {
	for try := 1; ; try++ {
		conn, err := c.connection(ctx)
		if err != nil {
			return err
		}
		spec, isStart := body.(Spec)
		if isStart && spec.Framed && conn.peer.Max < protocolFramed {
			return fault.New(fault.Unavailable, codeTooOld, "the keeper of this Runner is of version %s, which cannot keep such a command", conn.peer.Version).
				WithHint("it leaves when the commands that it keeps are over; then a new one is started")
		}
		request := body
		if isStart && conn.peer.Max < protocolHandOver {
			request = spec.withoutHandOver()
		}
		err = conn.call(ctx, op, request, into)
		switch {
		case errors.Is(err, errLost) && try >= maxTries:
			return fault.New(fault.Unavailable, "keeper_lost", "the keeper of this Runner ended %d times in a row", try).
				WithHint("look at %s for the reason", filepath.Join(c.dir, logName)).WithCause(err)
		case errors.Is(err, errLost):
			c.log.Info("connection to the keeper was lost", "operation", op)
		case fault.Code(err) == codeLeaving:
			select {
			case <-conn.gone:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		default:
			return err
		}
	}
}

// connection returns the living connection, or makes one.
func (c *Client) connection(ctx context.Context) (*clientConn, error) {
	select {
	case c.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.dialing }()
	c.mu.Lock()
	conn, closed := c.conn, c.closed
	c.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if conn != nil && conn.alive() {
		return conn, nil
	}
	c.mu.Lock()
	clear(c.blocked)
	c.mu.Unlock()
	conn, err := c.findOrStart(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.conn, closed = conn, c.closed
	c.mu.Unlock()
	if closed { // meanwhile
		conn.end(errClosed)
		return nil, errClosed
	}
	c.stirAll()
	return conn, nil
}

// Watch tells when a spool grows. C receives a value after it grew, or after its command was blocked
// or not any more; several changes may be one value. A Watch begins with a value, and gets one
// after every new connection: what happened meanwhile is in the file.
type Watch struct {
	C <-chan struct{}

	client *Client
	spool  string
	c      chan struct{}
	state  SpoolState
}

// Grew watches the spool at this path, which need not be there yet. Stop the Watch when done.
func (c *Client) Grew(spool string) *Watch {
	ch := make(chan struct{}, 1)
	w := &Watch{C: ch, c: ch, client: c, spool: spool, state: SpoolState{Spool: spool}}
	w.stir()
	c.mu.Lock()
	defer c.mu.Unlock()
	if state, is := c.blocked[spool]; is { // no change may ever come
		w.state = state
	}
	if c.watches[spool] == nil {
		c.watches[spool] = map[*Watch]struct{}{}
	}
	c.watches[spool][w] = struct{}{}
	return w
}

// State returns what was told last; only Spool is set when nothing was told yet. That a command is blocked is known also when it was told
// before the Watch began.
func (w *Watch) State() SpoolState {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	return w.state
}

// Stop ends the Watch.
func (w *Watch) Stop() {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	delete(w.client.watches[w.spool], w)
	if len(w.client.watches[w.spool]) == 0 {
		delete(w.client.watches, w.spool)
	}
}

func (w *Watch) stir() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

func (c *Client) stirAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, watches := range c.watches {
		for w := range watches {
			w.stir()
		}
	}
}

// event takes what the keeper tells unasked.
func (c *Client) event(f frame) {
	if f.Op != opSpools {
		return // of a newer keeper
	}
	var body spoolsBody
	if err := decodeBody(f, &body); err != nil {
		c.log.Warn("event of the keeper cannot be read", "error", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range body.Spools {
		delete(c.blocked, state.Spool)
		if state.Blocked != "" {
			c.blocked[state.Spool] = state
		}
		for w := range c.watches[state.Spool] {
			w.state = state
			w.stir()
		}
	}
}
