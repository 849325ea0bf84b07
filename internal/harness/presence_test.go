package harness_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// gate holds the Jobs of some Modules until it is opened.
type gate struct {
	t   *testing.T
	dir string
}

// gated declares Modules of the Runner edge-1, of engine script, which wait at a gate. before runs first, in the same shell.
func gated(t *testing.T, s *harness.Server, before string, names ...string) gate {
	t.Helper()
	g := gate{t, t.TempDir()}
	for _, name := range names {
		declare(s, name, script(fmt.Sprintf("%s\ntouch %[2]s/%[3]s; until [ -e %[2]s/open ]; do read -rt 0.05 <> <(:) || :; done; echo came to its end", before, g.dir, name)))
	}
	return g
}

// begun waits until the Job of a Module is at the gate.
func (g gate) begun(name string) {
	g.t.Helper()
	harness.Eventually(g.t, name+" has begun", func() bool {
		_, err := os.Stat(filepath.Join(g.dir, name))
		return err == nil
	})
}

func (g gate) open() {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, "open"), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// waits waits until a Job is held back because its Runner drains.
func waits(t *testing.T, s *harness.Server, id string) {
	t.Helper()
	harness.Eventually(t, "job "+id+" waits because of the drain", func() bool { return s.Job(id).Wait.Code == work.WaitDraining })
}

// untouched checks that a Job was never given out.
func untouched(t *testing.T, s *harness.Server, id string) {
	t.Helper()
	if j := s.Job(id); j.Status != work.Queued || j.Attempt != 0 {
		t.Errorf("job %s is %s, attempt %d: it was given out", id, j.Status, j.Attempt)
	}
}

// TestDrainByCommand drains a Runner, and one Instance, while a Job runs, and resumes them.
func TestDrainByCommand(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1")
	g := gated(t, s, "", "m0", "m1", "m2")
	first := s.Submit("run", "s/n/m0")
	g.begun("m0")
	if late := s.Try("runner", "drain", "edge-1", "--wait", "--timeout", "1ns"); late.Status != 6 || !strings.Contains(late.Err, "1 at edge-1") {
		t.Fatalf("a drain that is not over in time: %d %s", late.Status, late.Err)
	}
	drained := make(chan harness.Result, 1)
	go func() { drained <- s.Try("runner", "drain", "edge-1", "--wait") }()
	second := s.Submit("run", "s/n/m1")
	waits(t, s, second)
	select {
	case r := <-drained:
		t.Fatalf("it is drained while a Job runs: %+v", r)
	default:
	}
	g.open()
	if r := <-drained; r.Status != 0 {
		t.Fatalf("drain: %d %s", r.Status, r.Err)
	}
	s.Ends(first, work.Succeeded)
	untouched(t, s, second)
	if out := s.Do("runner", "show", "edge-1", "-o", "json"); !strings.Contains(out, `"DRAINING"`) || r.Ended() {
		t.Errorf("it is there and drains: %s", out)
	}
	s.Do("runner", "resume", "edge-1")
	s.Ends(second, work.Succeeded)

	s.Do("runner", "drain", "edge-1/edge-1-a", "--wait")
	third := s.Submit("run", "s/n/m2")
	waits(t, s, third)
	untouched(t, s, third)
	s.Do("runner", "resume", "edge-1/edge-1-a")
	s.Ends(third, work.Succeeded)
	if r := s.Try("runner", "drain", "edge-1/nobody"); r.Status != 4 || !strings.Contains(r.Err, "nobody") {
		t.Errorf("an Instance that is not there: %d %s", r.Status, r.Err)
	}
}

// terminate sends a Runner so many signals, each when the last one was understood: the system makes one of two that come together.
func terminate(t *testing.T, r *harness.Runner, signals int) {
	t.Helper()
	for _, understood := range []string{"draining: no further Jobs are taken", "mode=graceful", "mode=kill"}[:signals] {
		r.Signal(syscall.SIGTERM)
		harness.Eventually(t, "the runner says "+understood, func() bool { return strings.Contains(r.Output(), understood) })
	}
}

// TestSignalsToARunner: the first lets the Job end and takes no other, the second cancels it gracefully, the third kills it. Each
// time the process ends with status 0, and never a Job begins that was not there before.
func TestSignalsToARunner(t *testing.T) {
	const polite, deaf = "trap 'echo was interrupted; exit 1' INT", "trap 'echo was interrupted' INT TERM"
	for _, c := range []struct {
		name    string
		signals int
		before  string // what the Job does about signals
		change  harness.RunnerSettings
		open    bool
		want    work.Status
		says    string
	}{
		{"first", 1, polite, nil, true, work.Succeeded, "came to its end"},
		{"second", 2, polite, nil, false, work.Canceled, "was interrupted"},
		{"third", 3, deaf, change(map[string]any{"InterruptSeconds": 300, "TerminateSeconds": 300}, "Cancel"), false, work.Canceled, ""},
		{"drain_timeout", 1, polite, change("1s", "Runner", "drain_timeout"), false, work.Canceled, "was interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := harness.StartServer(t)
			var changes []harness.RunnerSettings
			if c.change != nil {
				changes = append(changes, c.change)
			}
			r := s.StartRunner("edge-1", append(changes, change(2, "Runner", "Capacity"))...)
			g := gated(t, s, c.before, "m0", "m1")
			id := s.Submit("run", "s/n/m0")
			g.begun("m0")
			terminate(t, r, c.signals)
			next := s.Submit("run", "s/n/m1") // a place is free
			if c.open {
				waits(t, s, next)
				g.open()
			}
			if status := r.Wait(); status != 0 {
				t.Errorf("it ended with %d", status)
			}
			s.Ends(id, c.want)
			untouched(t, s, next)
			log := s.Log(id)
			if !strings.Contains(log, c.says) || strings.Contains(log, "came to its end") != c.open {
				t.Errorf("log:\n%s", log)
			}
			harness.Eventually(t, "it is offline", func() bool { return r.Seen().State == "offline" })
		})
	}
}

// TestOneOffKilledInItsJob: a Runner of one Job that dies in it takes that Job up again, and no other.
func TestOneOffKilledInItsJob(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	r := s.NewRunner("edge-1", change(true, "Runner", "one_off"), change(2, "Runner", "Capacity"))
	g := gated(t, s, "", "m0", "m1")
	first := s.Submit("run", "s/n/m0")
	r.Start()
	g.begun("m0")
	second := s.Submit("run", "s/n/m1")
	r.Kill()
	r.Start()
	r.Online()
	g.open()
	if status := r.Wait(); status != 0 {
		t.Errorf("it ended with %d", status)
	}
	if j := s.Ends(first, work.Succeeded); j.Attempt != 1 {
		t.Errorf("attempt %d", j.Attempt)
	}
	untouched(t, s, second)
}

// TestOnlyOneInstance: while the Instance of a Runner that allows one lives, another one is refused, and says why. It is let in when the
// first is dead: at once where its Server was started anew meanwhile, else when the silence of the first was noticed.
func TestOnlyOneInstance(t *testing.T) {
	for _, c := range []struct {
		name   string
		second string // its Instance name
		silent bool   // nobody tells the Server that the first is gone
		says   string
	}{
		{"another name", "edge-1-b", false, `allows one Instance and "edge-1-a" is connected`},
		{"the same name", "edge-1-a", false, `another process is connected as instance "edge-1-a"`},
		{"a first one that is silent", "edge-1-b", true, `allows one Instance and "edge-1-a" is connected`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := harness.StartServer(t, "--set", "lease=4s", "--set", "heartbeat=1s")
			first := s.NewRunner("edge-1", change(newParting(t, s.URL).url, "Server", "Url"))
			if c.second == "edge-1-a" {
				several(s)
			}
			first.Start()
			first.Online()
			second := first.Twin(c.second, s.URL)
			second.Start()
			refused := func() bool { return strings.Contains(strings.ReplaceAll(second.Output(), `\`, ""), c.says) }
			harness.Eventually(t, "the second is told why it is refused", refused)
			if second.Ended() || second.Connections() != 0 || first.Ended() || first.Connections() != 1 {
				t.Fatalf("connected %d and %d times", first.Connections(), second.Connections())
			}
			if !c.silent {
				s.Kill()
			}
			first.Kill()
			if !c.silent {
				s.Start()
			}
			second.Online()
			declare(s, "m", script("echo done"))
			if j := s.Ends(s.Submit("run", "s/n/m"), work.Succeeded); j.Binding.Instance != c.second {
				t.Errorf("it ran at %s", j.Binding.Instance)
			}
		})
	}
}

// parting is a relay to a Server that can drop the Runner's side of its connections and leave the Server in the belief that all is well.
type parting struct {
	url    string
	mu     sync.Mutex
	inner  []net.Conn // to Runners
	closed bool
	outer  []net.Conn // to the Server
}

func newParting(t *testing.T, target string) *parting {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &parting{url: "http://" + l.Addr().String()}
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = true
		for _, c := range append(p.inner, p.outer...) {
			c.Close()
		}
	})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go p.relay(in, strings.TrimPrefix(target, "http://"))
		}
	}()
	return p
}

func (p *parting) relay(in net.Conn, target string) {
	out, err := net.Dial("tcp", target)
	if err != nil {
		in.Close()
		return
	}
	p.mu.Lock()
	p.inner, p.outer = append(p.inner, in), append(p.outer, out)
	if p.closed {
		in.Close()
		out.Close()
	}
	p.mu.Unlock()
	go func() { _, _ = io.Copy(in, out) }()
	_, _ = io.Copy(out, in) // out stays open when in ends
}

// part drops the Runner's side of all connections.
func (p *parting) part() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.inner {
		c.Close()
	}
	p.inner = nil
}

// TestInstanceTakesItsOwnSessionOver: a Runner loses its connection and its Server does not notice. It proves to be the same process and is
// taken back long before the old Session would be found dead; its Job goes on.
func TestInstanceTakesItsOwnSessionOver(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	net := newParting(t, s.URL)
	r := s.NewRunner("edge-1", change(net.url, "Server", "Url"))
	g := gated(t, s, "", "m0")
	r.Start()
	r.Online()
	id := s.Submit("run", "s/n/m0")
	g.begun("m0")
	net.part()
	parted := time.Now()
	harness.Eventually(t, "it is back", func() bool { return r.Connections() == 2 })
	if took := time.Since(parted); took >= wire.DeadAfter {
		t.Errorf("it took %s", took)
	}
	if out := r.Output(); strings.Contains(out, "another process") || strings.Contains(out, "allows one Instance") {
		t.Errorf("it was refused: %s", out)
	}
	g.open()
	if j := s.Ends(id, work.Succeeded); j.Attempt != 1 || len(j.Losses) != 0 {
		t.Errorf("attempt %d, losses %+v", j.Attempt, j.Losses)
	}
}
