package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"legwork/internal/fault"
)

// maxHandshakes bounds the logins under way at one address: sshd refuses some of more than ten (MaxStartups).
const maxHandshakes = 8

// Pool holds the connections to Nodes: one for each user and address, whatever the names. It is safe for concurrent use.
type Pool struct {
	config Config
	login  *login
	trust  *trust
	ctx    context.Context // of the dials, which serve whoever waits for them
	close  context.CancelCauseFunc

	mu      sync.Mutex
	conns   map[string]*conn
	gates   map[string]chan struct{} // by address
	changed chan struct{}            // closed and replaced when a place may have become free
	closed  bool
	dials   sync.WaitGroup
}

// conn is one connection, or the attempt to make it. Fields below ready are set before it is closed.
type conn struct {
	key    string
	target Target
	ready  chan struct{}
	err    error
	client *ssh.Client
	via    *conn         // the last jump host, held as long as this one lives
	lost   chan struct{} // closed when the connection is gone

	// under Pool.mu
	users    int // who holds it
	sessions int
	limit    int
	used     time.Time
	cause    error // why it was given up
}

var errPoolClosed = fault.New(fault.Unavailable, "pool_closed", "the connections to the Nodes are closed")

// NewPool reads keys and known hosts and connects to nothing yet. Faults: key_unreadable, known_hosts_unreadable.
func NewPool(config Config) (*Pool, error) {
	l, err := newLogin(config.Auth)
	if err != nil {
		return nil, err
	}
	t, err := newTrust(config.HostKeys)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Pool{
		config: config.orDefault(), login: l, trust: t, ctx: ctx, close: cancel,
		conns: map[string]*conn{}, gates: map[string]chan struct{}{}, changed: make(chan struct{}),
	}, nil
}

// Close ends all connections. Commands under way lose theirs. It may be called twice.
func (p *Pool) Close() error {
	p.close(errPoolClosed)
	p.mu.Lock()
	p.closed = true
	for _, c := range p.conns {
		if c.client != nil {
			p.giveUp(c, errPoolClosed)
		}
	}
	p.signal()
	p.mu.Unlock()
	p.dials.Wait()
	return nil
}

// signal wakes whoever waits for a place. The lock is held.
func (p *Pool) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// giveUp closes a connection and forgets it. The lock is held.
func (p *Pool) giveUp(c *conn, cause error) {
	if c.cause == nil {
		c.cause = cause
	}
	if p.conns[c.key] == c {
		delete(p.conns, c.key)
	}
	go c.client.Close() // it may wait for a peer that takes nothing
	p.signal()
}

// connect gives the connection to the last of hops, made when there is none, and holds it until release.
func (p *Pool) connect(ctx context.Context, hops []Target) (*conn, error) {
	key := ""
	for _, hop := range hops {
		key += fmt.Sprintf("%q@%q ", hop.User, hop.address())
	}
	for {
		c, changed, err := p.place(key, hops)
		if err != nil {
			return nil, err
		}
		if c == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("waiting for a free connection: %w", context.Cause(ctx))
			}
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			p.release(c)
			return nil, fmt.Errorf("connecting to %s: %w", c.target.label(), context.Cause(ctx))
		}
		if c.err != nil {
			p.release(c)
			return nil, c.err
		}
		return c, nil
	}
}

// place finds or begins the connection of a key. When there is no room it gives what to wait for.
func (p *Pool) place(key string, hops []Target) (*conn, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errPoolClosed
	}
	c := p.conns[key]
	if c == nil {
		// Jump hosts are beyond the limit: those who wait for a place may be waiting for them.
		jump := len(hops) <= len(p.config.Jump)
		if !jump && len(p.conns) >= p.config.MaxConnections && !p.evict() {
			return nil, p.changed, nil
		}
		c = &conn{key: key, target: hops[len(hops)-1], ready: make(chan struct{}), lost: make(chan struct{}), limit: p.config.MaxSessions}
		p.conns[key] = c
		p.dials.Add(1)
		go p.make(c, hops)
	}
	c.users++
	return c, nil, nil
}

// evict closes the connection that was idle for longest. The lock is held.
func (p *Pool) evict() bool {
	var oldest *conn
	for _, c := range p.conns {
		if c.users == 0 && c.client != nil && (oldest == nil || c.used.Before(oldest.used)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	p.giveUp(oldest, errors.New("it was idle"))
	return true
}

func (p *Pool) release(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.users--
	c.used = time.Now()
	p.signal()
}

// make connects and keeps watch until the connection is gone.
func (p *Pool) make(c *conn, hops []Target) {
	defer p.dials.Done()
	client, via, err := p.dial(hops)
	p.mu.Lock()
	c.client, c.via, c.err = client, via, err
	if err == nil && p.closed {
		p.giveUp(c, errPoolClosed)
	}
	if err != nil && p.conns[c.key] == c {
		delete(p.conns, c.key)
		p.signal()
	}
	p.mu.Unlock()
	close(c.ready)
	if err != nil {
		return
	}
	go p.keepAlive(c)
	err = client.Wait()
	p.mu.Lock()
	p.giveUp(c, err)
	p.mu.Unlock()
	close(c.lost)
	if via != nil {
		p.release(via)
	}
}

// keepAlive asks for a sign of life and closes a connection that gives none.
func (p *Pool) keepAlive(c *conn) {
	ticker := time.NewTicker(p.config.KeepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-c.lost:
			return
		}
		alive := make(chan error, 1)
		go func() {
			_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
			alive <- err
		}()
		select {
		case <-alive: // an error ends the connection by itself
		case <-c.lost:
			return
		case <-time.After(p.config.KeepAlive):
			p.mu.Lock()
			p.giveUp(c, fmt.Errorf("no sign of life for %s", 2*p.config.KeepAlive))
			p.mu.Unlock()
			return
		}
	}
}

// lostBecause gives why a connection is gone, nil when it lives or nothing is known.
func (p *Pool) lostBecause(c *conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.cause
}

// openSession takes one of the sessions that the server allows over a connection, and waits for one that is in use.
// What it gives back closes the session and frees its place.
func (p *Pool) openSession(ctx context.Context, c *conn) (ssh.Channel, <-chan *ssh.Request, func(), error) {
	for {
		if err := p.takeSession(ctx, c); err != nil {
			return nil, nil, nil, err
		}
		channel, requests, err := p.openChannel(ctx, c)
		if err == nil {
			return channel, requests, sync.OnceFunc(func() { _ = channel.Close(); p.freeSession(c, false) }), nil
		}
		var refused *ssh.OpenChannelError
		isRefused := errors.As(err, &refused) && ctx.Err() == nil
		alone := p.freeSession(c, isRefused)
		if isRefused && !alone {
			continue
		}
		if ctx.Err() == nil {
			p.mu.Lock()
			p.giveUp(c, err)
			p.mu.Unlock()
		}
		return nil, nil, nil, fmt.Errorf("opening a session: %w", err)
	}
}

// openChannel tries for a short while when the server refuses: it may not have noticed yet that a session has ended.
func (p *Pool) openChannel(ctx context.Context, c *conn) (ssh.Channel, <-chan *ssh.Request, error) {
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		channel, requests, err := c.client.OpenChannel("session", nil)
		var refused *ssh.OpenChannelError
		most := 40 * time.Millisecond
		if p.alone(c) {
			most = 5 * time.Second // there is nobody else to wait for
		}
		if !errors.As(err, &refused) || wait > most {
			return channel, requests, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

func (p *Pool) alone(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.sessions == 1
}

func (p *Pool) takeSession(ctx context.Context, c *conn) error {
	for {
		p.mu.Lock()
		if c.cause != nil {
			defer p.mu.Unlock()
			return fmt.Errorf("opening a session: %w", c.cause)
		}
		if c.sessions < c.limit {
			c.sessions++
			p.mu.Unlock()
			return nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a session of %s: %w", c.target.label(), context.Cause(ctx))
		}
	}
}

// freeSession gives a place back. When the server refused it (MaxSessions), as many as are open now are the limit from
// now on; it tells whether that was the only one.
func (p *Pool) freeSession(c *conn, refused bool) (alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.sessions--
	if refused {
		c.limit = max(1, min(c.limit, c.sessions))
	}
	p.signal()
	return c.sessions == 0
}
