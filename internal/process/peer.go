//go:build linux || darwin

package process

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"legwork/internal/fault"
)

const (
	helloWait = 10 * time.Second // for the first message of a connection
	writeWait = 30 * time.Second // for a peer that reads nothing
	maxCalls  = 4 * maxKept      // unanswered requests of one connection
)

// peer is one connection of a Runner, at the keeper's end.
type peer struct {
	keeper *keeper
	conn   net.Conn
	calls  sync.WaitGroup // answers and events on their way
	slots  chan struct{}  // one per unanswered request

	writing sync.Mutex

	mu    sync.Mutex
	dirty map[string]SpoolState // by path: not yet told
	wake  chan struct{}
}

func newPeer(k *keeper, conn net.Conn) *peer {
	return &peer{keeper: k, conn: conn, dirty: map[string]SpoolState{}, wake: make(chan struct{}, 1), slots: make(chan struct{}, maxCalls)}
}

// serve reads requests until the connection ends, each answered by a goroutine of its own.
func (p *peer) serve() error {
	defer p.conn.Close()
	if err := p.authenticate(); err != nil {
		return err
	}
	in := bufio.NewReader(p.conn)
	if err := p.greet(in); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer p.calls.Wait()
	defer cancel()
	p.calls.Go(func() { p.tell(ctx) })
	for {
		f, err := readFrame(in)
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serving the Runner: %w", err)
		}
		select {
		case p.slots <- struct{}{}:
		default:
			return fmt.Errorf("serving the Runner: more than %d open requests", maxCalls)
		}
		p.calls.Go(func() {
			body, err := p.answer(ctx, f)
			p.send(f.Call, f.Op, body, err)
			<-p.slots
		})
	}
}

// authenticate refuses other users. The folder's mode keeps them out already.
func (p *peer) authenticate() error {
	conn, ok := p.conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("identifying the Runner: %w", err)
	}
	user, userErr := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { user, userErr = peerUser(int(fd)) }); err != nil || userErr != nil {
		return fmt.Errorf("identifying the Runner: %w", errors.Join(err, userErr))
	}
	if user != os.Geteuid() && user != 0 {
		return fmt.Errorf("identifying the Runner: user %d is not the keeper's", user)
	}
	return nil
}

// greet answers the first message, which must be a hello.
func (p *peer) greet(in io.Reader) error {
	_ = p.conn.SetReadDeadline(time.Now().Add(helloWait))
	f, err := readFrame(in)
	if errors.Is(err, io.EOF) {
		return nil // it only looked whether somebody is here
	}
	if err != nil {
		return fmt.Errorf("greeting the Runner: %w", err)
	}
	var hello helloBody
	if err := decodeBody(f, &hello); err != nil || f.Op != opHello {
		return fmt.Errorf("greeting the Runner: the first message is no hello")
	}
	speak, err := commonProtocol(protocolKeyed, hello.Min, hello.Max)
	mine := helloBody{Min: protocolKeyed, Max: protocolMax, Version: p.keeper.version, Pid: os.Getpid(), Speak: speak}
	if err != nil {
		p.send(f.Call, opHello, mine, err)
		return fmt.Errorf("greeting the Runner: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(hello.Key), []byte(p.keeper.key)) != 1 {
		err := fault.New(fault.Forbidden, "keeper_key", "the keeper serves only programs that can read its folder")
		p.send(f.Call, opHello, helloBody{}, err)
		return fmt.Errorf("greeting the Runner: %w", err)
	}
	p.send(f.Call, opHello, mine, nil)
	return p.conn.SetReadDeadline(time.Time{})
}

// answer does what a request asks for.
func (p *peer) answer(ctx context.Context, f frame) (any, error) {
	switch f.Op {
	case opStart:
		var spec Spec
		if err := decodeBody(f, &spec); err != nil {
			return nil, err
		}
		return nil, p.keeper.start(spec)
	case opStop:
		var stop stopBody
		if err := decodeBody(f, &stop); err != nil {
			return nil, err
		}
		return nil, p.stop(stop)
	case opList:
		return listBody{Commands: p.keeper.list()}, nil
	case opWait:
		var wait waitBody
		if err := decodeBody(f, &wait); err != nil {
			return nil, err
		}
		return p.wait(ctx, wait.ID)
	case opSlow:
		var slow slowBody
		if err := decodeBody(f, &slow); err != nil {
			return nil, err
		}
		return nil, p.slowDown(slow.ID)
	case opRetire:
		p.keeper.retire()
		return nil, nil
	}
	return nil, fault.New(fault.Unsupported, "unknown_operation", "the keeper does not know the operation %q", f.Op).
		WithHint("it belongs to another version of the Runner and leaves when its commands have ended")
}

func (p *peer) stop(stop stopBody) error {
	if stop.Mode != Graceful && stop.Mode != Kill {
		return fault.New(fault.Invalid, "bad_stop_mode", "there is no way %q to stop a command", stop.Mode)
	}
	c, err := p.keeper.find(stop.ID)
	if err != nil {
		return err
	}
	c.stop(stop.Mode)
	return nil
}

func (p *peer) slowDown(id string) error {
	c, err := p.keeper.find(id)
	if err != nil {
		return err
	}
	c.slowDown(time.Now())
	return nil
}

func (p *peer) wait(ctx context.Context, id string) (any, error) {
	c, err := p.keeper.find(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.done:
		return c.exit, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send writes one message. When that fails the connection is of no use any more.
func (p *peer) send(call uint64, op string, body any, failure error) {
	message, err := encodeFrame(call, op, body, failure)
	if err != nil {
		p.keeper.log.Error("answering failed", "operation", op, "error", err)
		_ = p.conn.Close()
		return
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = p.conn.SetWriteDeadline(time.Now().Add(writeWait))
	if _, err := p.conn.Write(message); err != nil {
		_ = p.conn.Close() // serve ends by this
	}
}

// note keeps the newest state of a spool for tell. It never waits.
func (p *peer) note(state SpoolState) {
	p.mu.Lock()
	p.dirty[state.Spool] = state
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// tell sends the states of spools as they change. What changes while a message is being written is
// joined into the next.
func (p *peer) tell(ctx context.Context) {
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		states := make([]SpoolState, 0, len(p.dirty))
		for _, state := range p.dirty {
			states = append(states, state)
		}
		clear(p.dirty)
		p.mu.Unlock()
		if len(states) > 0 {
			p.send(0, opSpools, spoolsBody{Spools: states}, nil)
		}
	}
}

// dismiss waits a while for answers that are on their way and ends the connection.
func (p *peer) dismiss(within time.Duration) {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(p.slots) > 0 {
		select {
		case <-tick.C:
		case <-deadline.C:
			_ = p.conn.Close()
			return
		}
	}
	_ = p.conn.Close()
}
