// Package ports gives tests ports of loopback to start servers on that take a number and not a listener. A port that the system chose
// and that was closed again can be had by anybody a moment later; one of this package is of nobody else.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
)

// lowest is the first port that is given. What the system chooses for connections begins above them; see highest.
const lowest = 10_000

// highest gives where the ports begin that the system chooses for connections, which would be in the way of a server that starts again.
func highest() int {
	first := 32_768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &first)
	}
	if first < lowest+1000 {
		return 32_768
	}
	return first
}

// Free gives a port that nobody listens on, on any address of this host, and that no other call gives, in any process, until this process
// has ended: also a server that is killed finds it free again.
func Free(t testing.TB) int {
	t.Helper()
	most := highest() - lowest
	for range 10 * most {
		port := lowest + rand.IntN(most)
		if !claim(port) {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue // another program's; the claim stays, and does no harm
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no port is free")
	return 0
}

// claim tells whether a port is this process's from now on. A name of the abstract namespace (unix(7)) is had once on a host, and ends with
// its process. Where there is no such namespace every port is everybody's.
func claim(port int) bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return true
	}
	syscall.CloseOnExec(fd)
	switch err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: fmt.Sprintf("@legwork-test-port-%d", port)}); err {
	case nil:
		return true // and the socket stays open
	case syscall.EADDRINUSE:
		_ = syscall.Close(fd)
		return false
	}
	_ = syscall.Close(fd)
	return true
}
