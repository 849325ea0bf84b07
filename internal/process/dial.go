//go:build linux || darwin

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"legwork/internal/fault"
)

const (
	connectWait = 15 * time.Second // for a keeper to answer, its start included
	dialTick    = 2 * time.Millisecond
	launchPause = 200 * time.Millisecond // between two tries to start a keeper
)

var (
	errLost   = errors.New("the connection to the keeper was lost")
	errClosed = fault.New(fault.Unavailable, "keeper_client_closed", "the connection to the keeper was closed by this program")
)

// clientConn is one connection to a keeper.
type clientConn struct {
	conn net.Conn
	peer helloBody
	gone chan struct{} // closed when nothing is read any more

	writing sync.Mutex

	mu    sync.Mutex
	next  uint64
	calls map[uint64]chan frame // nil when the connection has ended
	why   error
}

// findOrStart returns a connection to a keeper, which it starts when there is none.
func (c *Client) findOrStart(ctx context.Context) (*clientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	if err := privateDir(c.dir); err != nil {
		return nil, err
	}
	tick := time.NewTicker(dialTick)
	defer tick.Stop()
	var launched time.Time
	var pid int
	var running <-chan error
	for {
		conn, err := c.dial(ctx)
		if err == nil && conn.peer.Pid == pid {
			c.yields = conn.peer.Version
		}
		if err == nil && !c.replace(ctx, conn) {
			return conn, nil
		}
		if fault.Is(err, fault.Unsupported) {
			return nil, err
		}
		if err != nil && running == nil && time.Since(launched) > launchPause {
			if pid, running, err = c.startKeeper(); err != nil {
				return nil, err
			}
			launched = time.Now()
		}
		select {
		case <-tick.C:
		case <-running: // it ended: another one was faster, or it failed
			running = nil
		case <-ctx.Done():
			return nil, c.noKeeper(ctx)
		}
	}
}

func (c *Client) noKeeper(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return fault.New(fault.Unavailable, "keeper_unreachable", "the keeper of this Runner does not answer").
		WithHint("look at %s for the reason", filepath.Join(c.dir, logName))
}

// dial connects to a keeper that is there.
func (c *Client) dial(ctx context.Context) (*clientConn, error) {
	short, done, err := socketDir(c.dir)
	if err != nil {
		return nil, fmt.Errorf("finding the keeper's folder: %w", err)
	}
	defer done()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", filepath.Join(short, socketName))
	if err != nil {
		return nil, fmt.Errorf("connecting to the keeper: %w", err)
	}
	cc := &clientConn{conn: conn, gone: make(chan struct{}), calls: map[uint64]chan frame{}}
	in := bufio.NewReader(conn)
	if err := cc.greet(in, c.version, readKey(c.dir)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	go cc.read(in, c.event)
	return cc, nil
}

// greet says hello and finds the protocol to speak.
func (cc *clientConn) greet(in *bufio.Reader, version, key string) error {
	message, err := encodeFrame(0, opHello, helloBody{Min: protocolMin, Max: protocolMax, Version: version, Pid: os.Getpid(), Key: key}, nil)
	if err != nil {
		return err
	}
	_ = cc.conn.SetDeadline(time.Now().Add(helloWait))
	if _, err := cc.conn.Write(message); err != nil {
		return fmt.Errorf("greeting the keeper: %w", err)
	}
	answer, err := readFrame(in)
	if err != nil {
		return fmt.Errorf("greeting the keeper: %w", err)
	}
	if err := answer.Fault.asError(); err != nil {
		return err
	}
	if err := decodeBody(answer, &cc.peer); err != nil {
		return err
	}
	if _, err := commonProtocol(protocolMin, cc.peer.Min, cc.peer.Max); err != nil {
		return err
	}
	return cc.conn.SetDeadline(time.Time{})
}

// replace asks a keeper of another version to leave when it keeps nothing. It tells whether that
// one is gone now. A keeper of the version that is started from here is as good as can be had, also where that is not the Client's: the
// program's file may have been replaced since the Client's process began.
func (c *Client) replace(ctx context.Context, conn *clientConn) bool {
	if conn.peer.Version == c.version || conn.peer.Version == c.yields {
		return false
	}
	c.log.Info("keeper is of another version and will leave when it keeps nothing", "version", conn.peer.Version)
	if err := conn.call(ctx, opRetire, nil, nil); err != nil {
		return errors.Is(err, errLost)
	}
	var list listBody
	if err := conn.call(ctx, opList, nil, &list); err != nil {
		return errors.Is(err, errLost)
	}
	if len(list.Commands) > 0 {
		return false
	}
	select {
	case <-conn.gone:
		return true
	case <-time.After(leaveGrace):
		return false // it began something meanwhile
	}
}

// startKeeper starts a keeper as the leader of a session of its own. The channel tells when that
// process has ended, whose id is pid.
func (c *Client) startKeeper() (pid int, ended <-chan error, err error) {
	if len(c.launch.Argv) == 0 {
		return 0, nil, errors.New("starting a keeper: no command line for it")
	}
	file, err := os.OpenFile(filepath.Join(c.dir, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, nil, fmt.Errorf("opening the keeper's log: %w", err)
	}
	defer file.Close()
	boundLog(file)
	cmd := exec.Command(c.launch.Argv[0], c.launch.Argv[1:]...)
	cmd.Env, cmd.Dir = append([]string{}, c.launch.Env...), c.dir
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("starting a keeper: %w", err)
	}
	c.log.Info("keeper started", "pid", cmd.Process.Pid)
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }() // so that it is no zombie when it leaves before this program
	return cmd.Process.Pid, over, nil
}

// boundLog empties a log file that has grown too large. It must be open for appending.
func boundLog(file *os.File) {
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() > maxLogBytes {
		_ = file.Truncate(0)
	}
}

// call makes one request and waits for its answer. A connection that breaks is errLost.
func (cc *clientConn) call(ctx context.Context, op string, body, into any) error {
	call, answer, err := cc.register()
	if err != nil {
		return err
	}
	defer cc.unregister(call)
	message, err := encodeFrame(call, op, body, nil)
	if err != nil {
		return err
	}
	cc.write(message)
	select {
	case f, ok := <-answer:
		if !ok {
			return cc.reason()
		}
		if err := f.Fault.asError(); err != nil {
			return err
		}
		if into == nil {
			return nil
		}
		return decodeBody(f, into)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (cc *clientConn) register() (uint64, chan frame, error) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.calls == nil {
		return 0, nil, cc.why
	}
	cc.next++
	answer := make(chan frame, 1)
	cc.calls[cc.next] = answer
	return cc.next, answer, nil
}

func (cc *clientConn) unregister(call uint64) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	delete(cc.calls, call)
}

// write sends one message; when that fails the connection is over and read tells everyone.
func (cc *clientConn) write(message []byte) {
	cc.writing.Lock()
	defer cc.writing.Unlock()
	_ = cc.conn.SetWriteDeadline(time.Now().Add(writeWait))
	if _, err := cc.conn.Write(message); err != nil {
		_ = cc.conn.Close()
	}
}

// read hands out answers and events until the connection ends.
func (cc *clientConn) read(in *bufio.Reader, event func(frame)) {
	defer close(cc.gone)
	for {
		f, err := readFrame(in)
		if err != nil {
			cc.end(errLost)
			return
		}
		if f.Call == 0 {
			event(f)
			continue
		}
		cc.mu.Lock()
		answer := cc.calls[f.Call]
		delete(cc.calls, f.Call)
		cc.mu.Unlock()
		if answer != nil {
			answer <- f
		}
	}
}

// end closes the connection and fails all that wait for an answer.
func (cc *clientConn) end(why error) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.calls == nil {
		return
	}
	for _, answer := range cc.calls {
		close(answer)
	}
	cc.calls, cc.why = nil, why
	_ = cc.conn.Close()
}

func (cc *clientConn) alive() bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return cc.calls != nil
}

func (cc *clientConn) reason() error {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return cc.why
}
