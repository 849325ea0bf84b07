package harness

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Link is a network cable between this host and a network namespace of its own, which programs can be started in. Each end
// is a tun device, and what goes from one to the other goes through this process, which can hold it up, lose some of it, or swallow
// all of it without a word. The devices and the namespace end with the process that made them, however it ends.
type Link struct {
	Near, Far string // addresses of this host and of the namespace

	space     int // of the namespace
	swallow   atomic.Bool
	delay     atomic.Int64 // of each packet, in nanoseconds
	lossPerMy atomic.Int64 // packets lost out of a million
	lossDue   atomic.Int64 // grows with each packet by lossPerMy; a million of it is one packet
	lost      atomic.Int64
	ends      [2]*os.File
	over      chan struct{}
	moving    sync.WaitGroup
}

var links atomic.Uint32

// NewLink makes a Link. It skips the test where the system does not let it.
func NewLink(t testing.TB) *Link {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network of its own needs root")
	}
	l := &Link{over: make(chan struct{}), space: -1}
	t.Cleanup(l.close)
	// Of the range for measurements between devices (RFC 2544), four addresses for each Link of each process.
	base := uint32(198)<<24 | 18<<16 | (uint32(os.Getpid())*8+links.Add(1))%(1<<15)<<2
	near, far := address(base+1), address(base+2)
	l.Near, l.Far = near.String(), far.String()
	err := l.open(0, near)
	if err == nil {
		err = aside(func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("making a network namespace: %w", err)
			}
			if l.space, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
				return err
			}
			return l.open(1, far)
		})
	}
	if err != nil {
		t.Skipf("this system has no network devices for tests: %v", err)
	}
	l.moving.Go(func() { l.move(l.ends[0], l.ends[1]) })
	l.moving.Go(func() { l.move(l.ends[1], l.ends[0]) })
	return l
}

func address(n uint32) net.IP { return net.IPv4(byte(n>>24), byte(n>>16), byte(n>>8), byte(n)) }

// aside runs f on a thread of its own, which ends with f: what f does to it concerns nobody else.
func aside(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// open makes the device of one end, in the namespace of the calling thread.
func (l *Link) open(end int, at net.IP) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("opening /dev/net/tun: %w", err)
	}
	device, err := unix.NewIfreq("lwtest%d")
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, device); err != nil {
		unix.Close(fd)
		return fmt.Errorf("making a tun device: %w", err)
	}
	l.ends[end] = os.NewFile(uintptr(fd), device.Name())
	return up(device.Name(), at)
}

// up gives a device its address and switches it on.
func up(name string, at net.IP) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	for _, set := range []struct {
		request uint
		fill    func(*unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(at.To4()) }},
		{unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 252}) }},
		{unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		r, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := set.fill(r); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, set.request, r); err != nil {
			return fmt.Errorf("setting up %s: %w", name, err)
		}
	}
	return nil
}

// packet is on its way until due.
type packet struct {
	data []byte
	due  time.Time
}

// move takes packets from one end to the other until the Link is closed.
func (l *Link) move(from, to *os.File) {
	wire := make(chan packet, 10_000)
	defer close(wire)
	l.moving.Go(func() { l.deliver(wire, to) })
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if l.swallow.Load() || l.losesNext() {
			l.lost.Add(1)
			continue
		}
		select {
		case wire <- packet{append([]byte(nil), buf[:n]...), time.Now().Add(time.Duration(l.delay.Load()))}:
		default: // a queue that is full loses what comes, as that of any router
			l.lost.Add(1)
		}
	}
}

// losesNext tells whether the next packet is one to lose: as many are as were asked for, no more and no less.
func (l *Link) losesNext() bool {
	part := l.lossPerMy.Load()
	due := l.lossDue.Add(part)
	return due/1_000_000 != (due-part)/1_000_000
}

func (l *Link) deliver(wire <-chan packet, to *os.File) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p := range wire {
		if wait := time.Until(p.due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-l.over:
				return
			}
		}
		_, _ = to.Write(p.data)
	}
}

// Swallow has every packet vanish: no end is told anything. False ends that.
func (l *Link) Swallow(all bool) { l.swallow.Store(all) }

// Slow delays each packet, each way, and loses some: loss is a part of one.
func (l *Link) Slow(delay time.Duration, loss float64) {
	l.delay.Store(int64(delay))
	l.lossPerMy.Store(int64(loss * 1e6))
}

// Lost is the number of packets that did not arrive.
func (l *Link) Lost() int64 { return l.lost.Load() }

// Behind has the Runner's process be at the far end of a Link.
func (r *Runner) Behind(l *Link) { r.begin = l.start }

// start starts a program at the far end.
func (l *Link) start(cmd *exec.Cmd) error {
	return aside(func() error {
		if err := unix.Setns(l.space, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the network namespace: %w", err)
		}
		return cmd.Start()
	})
}

func (l *Link) close() {
	close(l.over)
	for _, end := range l.ends {
		if end != nil {
			end.Close()
		}
	}
	l.moving.Wait()
	if l.space >= 0 {
		unix.Close(l.space)
	}
}
