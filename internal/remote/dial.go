package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"legwork/internal/fault"
)

// maxLogins is how often a login is tried that the server cut off before it began.
const maxLogins = 6

// dial logs in to the last of hops through those before it.
func (p *Pool) dial(hops []Target) (*ssh.Client, *conn, error) {
	var via *conn
	last := len(hops) - 1
	if last > 0 {
		var err error
		if via, err = p.connect(p.ctx, hops[:last]); err != nil {
			return nil, nil, jumpFault(hops, err)
		}
	}
	client, err := p.logIn(hops[last], via)
	if err != nil && via != nil {
		p.release(via)
		return nil, nil, err
	}
	return client, via, err
}

// jumpFault names the hop that failed. A hop before it may have said so already.
func jumpFault(hops []Target, err error) error {
	f := fault.Of(err)
	if f.Code == "jump_failed" {
		return err
	}
	hop := len(hops) - 1
	return fault.New(f.Kind, "jump_failed", "jump host %d of the way, %s, failed: %s", hop, hops[hop-1].label(), f.Message).WithHint("%s", f.Hint).WithCause(err)
}

// logIn tries again, with growing waits, while the server cuts connections off before it says who it is: it has too many
// that are not logged in yet.
func (p *Pool) logIn(target Target, via *conn) (*ssh.Client, error) {
	gate := p.gate(target)
	wait := 100 * time.Millisecond
	for try := 1; ; try++ {
		select {
		case gate <- struct{}{}:
		case <-p.ctx.Done():
			return nil, context.Cause(p.ctx)
		}
		client, busy, err := p.handshake(target, via)
		<-gate
		if err == nil || !busy || try == maxLogins {
			return client, err
		}
		select {
		case <-time.After(wait + rand.N(wait)):
		case <-p.ctx.Done():
			return nil, context.Cause(p.ctx)
		}
		wait *= 2
	}
}

func (p *Pool) gate(target Target) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	gate := p.gates[target.address()]
	if gate == nil {
		gate = make(chan struct{}, maxHandshakes)
		p.gates[target.address()] = gate
	}
	return gate
}

// handshake connects and logs in once. busy tells that the server cut the connection off before it showed its key.
func (p *Pool) handshake(target Target, via *conn) (client *ssh.Client, busy bool, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.config.ConnectTimeout)
	defer cancel()
	connection, err := dialTCP(ctx, target, via)
	if err != nil {
		return nil, cutOff(err), connectFault(target, "connecting", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	var shown, trusted bool
	var refused error
	methods, done := p.login.methods()
	defer done()
	config := &ssh.ClientConfig{
		User: target.User, Auth: methods, HostKeyAlgorithms: p.trust.algorithms(target.address()),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			shown = true
			refused = p.trust.check(target, key)
			trusted = refused == nil
			return refused
		},
	}
	secure, channels, requests, err := ssh.NewClientConn(connection, target.address(), config)
	if !stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err == nil {
		return ssh.NewClient(secure, channels, requests), false, nil
	}
	_ = connection.Close()
	switch {
	case refused != nil:
		return nil, false, refused
	case p.ctx.Err() != nil:
		return nil, false, context.Cause(p.ctx)
	case ctx.Err() != nil && trusted:
		return nil, false, connectFault(target, "logging in", context.DeadlineExceeded)
	case ctx.Err() != nil:
		return nil, false, connectFault(target, "SSH handshake", context.DeadlineExceeded)
	}
	return nil, !shown && cutOff(err), p.handshakeFault(target, trusted, err)
}

func (p *Pool) handshakeFault(target Target, trusted bool, err error) error {
	var algorithms *ssh.AlgorithmNegotiationError
	switch {
	case errors.As(err, &algorithms):
		return fault.New(fault.Failed, "handshake_failed", "%s and this program have no algorithm in common: %s", target.label(), printable(err.Error())).
			WithHint("update its sshd, or allow a current algorithm there").WithCause(err)
	case cutOff(err):
		return fault.New(fault.Unavailable, "host_unreachable", "%s closed the connection during the login", target.label()).
			WithHint("look into the log of its sshd; MaxStartups or a block after failed logins may be the reason").WithCause(err)
	case trusted:
		return p.login.fault(target, err)
	}
	return fault.New(fault.Failed, "handshake_failed", "%s does not speak SSH as expected: %s", target.label(), printable(err.Error())).
		WithHint("check that the port is that of an SSH server").WithCause(err)
}

// cutOff tells that the other side closed the connection without a word of the protocol.
func cutOff(err error) bool {
	text := err.Error() // some of the errors are texts alone
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.HasSuffix(text, "EOF") || strings.HasSuffix(text, "connection reset by peer") || strings.HasSuffix(text, "broken pipe")
}

func dialTCP(ctx context.Context, target Target, via *conn) (net.Conn, error) {
	if via == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", target.address())
	}
	connection, err := via.client.DialContext(ctx, "tcp", target.address())
	if err != nil {
		return nil, fmt.Errorf("through %s: %w", via.target.label(), err)
	}
	return connection, nil
}
