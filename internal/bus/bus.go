// Package bus carries hints between the parts of a Server and between Servers: "something changed", offers, live logs.
//
// A hint may be lost, doubled or late; that costs time, never correctness. It is a NATS server inside the process,
// without a port, or a NATS cluster that several Servers share. Subjects are those of NATS: words with dots between
// them; a subscription may have * for one word and > for the rest.
package bus

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"legwork/internal/fault"
)

const (
	// hintsMost and bytesMost bound what waits for one subscriber; what comes on top is dropped.
	hintsMost = 8192
	bytesMost = 32 << 20
	startMost = 10 * time.Second
	// confirmMost is how long Subscribe waits for the server to know of it.
	confirmMost = 2 * time.Second
)

// Config says where the bus is.
type Config struct {
	URL         string       // "" = inside the process; else nats://host:4222 of a cluster, several with commas between
	Credentials string       // file with the credentials of a NATS user; "" = none
	Log         *slog.Logger // nil = none
}

// Bus carries hints. It is safe for concurrent use.
type Bus struct {
	conn     *nats.Conn
	embedded *server.Server // nil with a cluster
	log      *slog.Logger
}

// Open connects to the bus, or starts one inside the process. A cluster that cannot be reached is a fault.Unavailable;
// one that goes away later is looked for until it is there again.
func Open(ctx context.Context, c Config) (*Bus, error) {
	b := &Bus{log: c.Log}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	options := b.options(c)
	if c.URL == "" {
		if err := b.start(); err != nil {
			return nil, err
		}
		options = append(options, nats.InProcessServer(b.embedded))
	}
	if err := b.connect(ctx, c.URL, options); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// start runs a NATS server that listens nowhere.
func (b *Bus) start() (err error) {
	b.embedded, err = server.NewServer(&server.Options{
		ServerName: "legwork", DontListen: true, NoLog: true, NoSigs: true,
		MaxPayload: 1 << 20, MaxPending: 2 * bytesMost,
	})
	if err != nil {
		return fmt.Errorf("make the bus: %w", err)
	}
	b.embedded.Start()
	if !b.embedded.ReadyForConnections(startMost) {
		b.stop()
		return fault.New(fault.Internal, "bus_not_started", "the bus inside the process did not start")
	}
	return nil
}

func (b *Bus) options(c Config) []nats.Option {
	options := []nats.Option{
		nats.Name("legwork"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectJitter(500*time.Millisecond, time.Second),
		nats.ReconnectBufSize(-1), // an old hint is worth nothing
		nats.Timeout(startMost),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				b.log.Warn("bus disconnected", "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { b.log.Info("bus connected again") }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			b.log.Warn("bus hints dropped", "subject", subject, "error", err)
		}),
	}
	if c.Credentials != "" {
		options = append(options, nats.UserCredentials(c.Credentials))
	}
	return options
}

// connect waits for the connection no longer than ctx lasts.
func (b *Bus) connect(ctx context.Context, url string, options []nats.Option) error {
	type outcome struct {
		conn *nats.Conn
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		conn, err := nats.Connect(url, options...)
		done <- outcome{conn, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return fault.New(fault.Unavailable, "bus_unreachable", "the NATS server cannot be reached").
				WithHint("check its URL and credentials, or leave the URL empty to use the bus inside the program").WithCause(o.err)
		}
		b.conn = o.conn
		return nil
	case <-ctx.Done():
		go func() { // it ends within startMost
			if o := <-done; o.conn != nil {
				o.conn.Close()
			}
		}()
		return fmt.Errorf("connect to the bus: %w", context.Cause(ctx))
	}
}

// Publish sends a hint to all who subscribe to its subject, on every Server. It does not wait for them. data may be used
// again when it returns, and is at most 1 MiB. Without a connection the hint is lost.
func (b *Bus) Publish(subject string, data []byte) {
	if err := b.conn.Publish(subject, data); err != nil {
		b.log.Debug("bus hint lost", "subject", subject, "error", err)
	}
}

// Subscribe calls fn with every hint whose subject matches, one after the other, in a goroutine of the subscription. While fn is
// slow hints wait, up to a bound; beyond it they are dropped. cancel ends the subscription; fn may still run once more.
func (b *Bus) Subscribe(subject string, fn func(subject string, data []byte)) (cancel func(), err error) {
	s, err := b.conn.Subscribe(subject, func(m *nats.Msg) { fn(m.Subject, m.Data) })
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	if err := s.SetPendingLimits(hintsMost, bytesMost); err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	// What is published elsewhere from now on is to be seen: the server has to know of the subscription first.
	if err := b.conn.FlushTimeout(confirmMost); err != nil {
		b.log.Debug("bus subscription not confirmed", "subject", subject, "error", err)
	}
	return func() { _ = s.Unsubscribe() }, nil // a closed connection has none
}

// Connected tells whether hints travel now.
func (b *Bus) Connected() bool { return b.conn.IsConnected() }

// Close ends all subscriptions and the server inside the process.
func (b *Bus) Close() error {
	b.conn.Close()
	b.stop()
	return nil
}

func (b *Bus) stop() {
	if b.embedded != nil {
		b.embedded.Shutdown()
		b.embedded.WaitForShutdown()
	}
}
