package boot

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
)

// scriptedListener accepts connections from the addresses that a test names.
type scriptedListener struct{ from []string }

func (l *scriptedListener) Accept() (net.Conn, error) {
	if len(l.from) == 0 {
		return nil, net.ErrClosed
	}
	address := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.from[0]))
	l.from = l.from[1:]
	here, there := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, there) }()
	return addressedConn{here, address}, nil
}

func (l *scriptedListener) Close() error   { return nil }
func (l *scriptedListener) Addr() net.Addr { return &net.TCPAddr{} }

type addressedConn struct {
	net.Conn
	remote net.Addr
}

func (c addressedConn) RemoteAddr() net.Addr { return c.remote }

func TestConnectionLimit(t *testing.T) {
	proxies := []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("2001:db8:1::7")}
	shared := func(a netip.Addr) bool { return slices.Contains(proxies, a) || a.IsLoopback() }
	limit := newConnectionLimit(12, 2, shared, slog.New(slog.DiscardHandler))
	inner := &scriptedListener{from: []string{
		"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", // the third is one too many of its address
		"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1", // one network
		"10.0.0.7:1", "127.0.0.1:1", // shared
		"[::1]:1", "[::1]:2", "[::1]:3", // shared
		"[2001:db8:1::7]:1", "[2001:db8:1::7]:2", "[2001:db8:1::7]:3", // a proxy
		"192.0.2.9:1", // one too many in all
	}}
	listener := limit.listener(inner)
	var open []net.Conn
	for {
		conn, err := listener.Accept()
		if err != nil {
			break
		}
		open = append(open, conn)
	}
	if len(open) != 12 {
		t.Fatalf("got %d connections, want 12", len(open))
	}
	open[0].Close()
	open[0].Close() // counts once
	inner.from = []string{"192.0.2.1:4", "192.0.2.9:2"}
	again, err := listener.Accept()
	if err != nil || again.RemoteAddr().String() != "192.0.2.1:4" {
		t.Fatalf("after a close: got %v %v, want a connection from 192.0.2.1:4", again, err)
	}
	if _, err := listener.Accept(); err == nil {
		t.Error("got a seventh connection, want none")
	}
}

func TestConnectionsWithin(t *testing.T) {
	for _, c := range []struct{ wanted, files, want int }{
		{25_000, 0, 25_000},
		{25_000, 1024, 768},
		{25_000, 65_536, 25_000},
		{100_000, 65_536, 64_512},
		{100, 1024, 100},
		{100, 64, 1},
	} {
		if got := connectionsWithin(c.wanted, c.files); got != c.want {
			t.Errorf("%d connections, %d files: got %d, want %d", c.wanted, c.files, got, c.want)
		}
	}
}
