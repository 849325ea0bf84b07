package boot

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	hostConnections    = 64          // of a listener for the host itself: of the Local Runner, of metrics
	minDescriptors     = 64          // that connections leave to the rest of the program
	maxDescriptors     = 1024        // that are reserved at most
	refusalLogInterval = time.Minute // between two lines about connections that were refused
)

// connectionLimit bounds the open connections of a process, in all and for each address, so that nobody can take all of
// its file descriptors. It is safe for concurrent use.
type connectionLimit struct {
	total      int
	perAddress int
	shared     func(netip.Addr) bool // addresses of many clients, which perAddress does not bound
	log        *slog.Logger

	mu        sync.Mutex
	open      int
	byAddress map[netip.Prefix]int
	refused   int // since the last line in the log
	logged    time.Time
}

// newConnectionLimit returns a limit. An address that is shared by many clients counts toward the total only.
func newConnectionLimit(total, perAddress int, shared func(netip.Addr) bool, log *slog.Logger) *connectionLimit {
	return &connectionLimit{total: total, perAddress: perAddress, shared: shared, log: log, byAddress: map[netip.Prefix]int{}}
}

// hostLimit returns the limit of a listener that only its host uses.
func hostLimit(log *slog.Logger) *connectionLimit {
	return newConnectionLimit(hostConnections, hostConnections, netip.Addr.IsLoopback, log)
}

// connectionsWithin returns the limit of connections for a process that may open a number of files: at most wanted. A quarter of the files, within bounds, stays for its database, its own files and its child processes.
func connectionsWithin(wanted, files int) int {
	if files <= 0 {
		return wanted
	}
	reserve := min(max(files/4, minDescriptors), maxDescriptors)
	return max(min(wanted, files-reserve), 1)
}

// listener returns a listener whose connections count toward the limit.
func (c *connectionLimit) listener(inner net.Listener) net.Listener {
	return limitedListener{inner, c}
}

type limitedListener struct {
	net.Listener
	limit *connectionLimit
}

// Accept returns the next connection within the limit. It closes those beyond it.
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := clientAddress(conn.RemoteAddr())
		if l.limit.add(from, time.Now()) {
			return &limitedConn{Conn: conn, done: sync.OnceFunc(func() { l.limit.remove(from) })}, nil
		}
		conn.Close()
	}
}

type limitedConn struct {
	net.Conn
	done func()
}

// Close closes the connection, which then counts no more.
func (c *limitedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// clientAddress returns the address of a peer, or the zero Addr when it has none.
func clientAddress(address net.Addr) netip.Addr {
	from, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}

// clientNetwork returns the network that counts as one client: of IPv6 64 bits, which one client usually has whole.
func clientNetwork(from netip.Addr) netip.Prefix {
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(from, bits).Masked()
}

// add counts a connection. It returns false when there are too many.
func (c *connectionLimit) add(from netip.Addr, now time.Time) bool {
	network := clientNetwork(from)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.total {
		c.refuse(now, "connections refused: there are too many", "max_connections", c.total)
		return false
	}
	if c.byAddress[network] >= c.perAddress && !c.shared(from) {
		c.refuse(now, "connections refused: too many from one address", "address", network.Addr(), "max_connections_per_address", c.perAddress)
		return false
	}
	c.open++
	c.byAddress[network]++
	return true
}

// refuse logs that connections are refused, once in a while. The caller holds mu.
func (c *connectionLimit) refuse(now time.Time, text string, details ...any) {
	c.refused++
	if now.Sub(c.logged) < refusalLogInterval {
		return
	}
	c.log.Warn(text, append(details, "refused", c.refused)...)
	c.logged, c.refused = now, 0
}

func (c *connectionLimit) remove(from netip.Addr) {
	network := clientNetwork(from)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.byAddress[network]--
	if c.byAddress[network] == 0 {
		delete(c.byAddress, network)
	}
}
