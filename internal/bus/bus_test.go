package bus_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"legwork/internal/bus"
	"legwork/internal/fault"
	"legwork/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long a test waits for what must come; it is over only when something is broken.
const patience = time.Minute

// kinds are the two buses that must behave alike. Each gives two ends of one bus.
var kinds = map[string]func(t testing.TB) (a, b *bus.Bus){
	"embedded": func(t testing.TB) (a, b *bus.Bus) {
		one := open(t, "")
		return one, one
	},
	"cluster": func(t testing.TB) (a, b *bus.Bus) {
		url := natsServer(t)
		return open(t, url), open(t, url)
	},
}

func open(t testing.TB, url string) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func natsServer(t testing.TB) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server did not start")
	}
	return s.ClientURL()
}

func TestBus(t *testing.T) {
	cases := map[string]func(t *testing.T, a, b *bus.Bus){
		"a hint reaches whoever subscribes":      reaches,
		"wildcards match":                        wildcards,
		"hints of one publisher stay in order":   inOrder,
		"a canceled subscription is over":        canceled,
		"a slow subscriber loses and blocks not": slow,
	}
	for kind, ends := range kinds {
		for name, run := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				a, b := ends(t)
				run(t, a, b)
			})
		}
	}
}

type hint struct{ subject, data string }

// collect subscribes and gives what comes.
func collect(t *testing.T, b *bus.Bus, subject string) <-chan hint {
	t.Helper()
	got := make(chan hint, 10000)
	cancel, err := b.Subscribe(subject, func(subject string, data []byte) { got <- hint{subject, string(data)} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return got
}

func next(t *testing.T, got <-chan hint) hint {
	t.Helper()
	select {
	case h := <-got:
		return h
	case <-time.After(patience):
		t.Fatal("no hint came")
		return hint{}
	}
}

func reaches(t *testing.T, a, b *bus.Bus) {
	one, two := collect(t, b, "job.1"), collect(t, a, "job.1")
	a.Publish("job.2", []byte("other"))
	a.Publish("job.1", []byte("x"))
	for _, got := range []<-chan hint{one, two} {
		if h := next(t, got); h != (hint{"job.1", "x"}) {
			t.Errorf("got %v", h)
		}
	}
}

func wildcards(t *testing.T, a, b *bus.Bus) {
	word, rest := collect(t, b, "log.*.new"), collect(t, b, "log.>")
	a.Publish("log.a.b.new", nil)
	a.Publish("log.a.new", nil)
	if h := next(t, word); h.subject != "log.a.new" {
		t.Errorf("log.*.new matched %s", h.subject)
	}
	if h := next(t, rest); h.subject != "log.a.b.new" {
		t.Errorf("log.> missed log.a.b.new, got %s", h.subject)
	}
}

func inOrder(t *testing.T, a, b *bus.Bus) {
	got := collect(t, b, "n")
	for i := range 1000 {
		a.Publish("n", strconv.AppendInt(nil, int64(i), 10))
	}
	for i := range 1000 {
		if h := next(t, got); h.data != strconv.Itoa(i) {
			t.Fatalf("got %s instead of %d", h.data, i)
		}
	}
}

func canceled(t *testing.T, a, b *bus.Bus) {
	got := make(chan hint, 100)
	cancel, err := b.Subscribe("c", func(s string, d []byte) { got <- hint{s, string(d)} })
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	cancel()
	after := collect(t, b, "c")
	a.Publish("c", nil)
	next(t, after)
	if len(got) > 0 {
		t.Error("a hint came after the subscription was over")
	}
}

// slow has a subscriber that stands still while far more is published than is kept for it: the publisher goes
// on, others hear all, and the slow one goes on with what was kept.
func slow(t *testing.T, a, b *bus.Bus) {
	const many = 40_000
	hold := make(chan struct{})
	var once sync.Once
	var heard int
	last := make(chan int, 1)
	cancel, err := b.Subscribe("s", func(_ string, d []byte) {
		once.Do(func() { <-hold })
		if heard++; string(d) == "end" {
			last <- heard
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	sawAll := collect(t, b, "seen")
	for range many {
		a.Publish("s", []byte("x"))
	}
	a.Publish("seen", nil)
	next(t, sawAll) // everything before it was delivered or dropped
	close(hold)
	for { // its queue may still be full
		a.Publish("s", []byte("end"))
		select {
		case n := <-last:
			if n >= many || n < 100 {
				t.Errorf("the slow subscriber heard %d of %d", n, many)
			}
			return
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the slow subscriber does not go on")
		}
	}
}

func TestUnreachable(t *testing.T) {
	_, err := bus.Open(t.Context(), bus.Config{URL: "nats://127.0.0.1:1"})
	if !fault.Is(err, fault.Unavailable) || fault.Of(err).Hint == "" {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := bus.Open(ctx, bus.Config{URL: "nats://127.0.0.1:1"}); err == nil {
		_ = b.Close()
		t.Error("a bus was opened although its time was over")
	}
}

func TestComesBack(t *testing.T) {
	options := &server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server did not start")
	}
	b := open(t, s.ClientURL())
	got := collect(t, b, "back")
	s.Shutdown()
	s.WaitForShutdown()
	b.Publish("back", []byte("lost")) // neither blocks nor fails
	again, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	again.Start()
	defer func() { again.Shutdown(); again.WaitForShutdown() }()
	for deadline := time.Now().Add(patience); ; {
		b.Publish("back", []byte("found"))
		select {
		case h := <-got:
			if h.data == "found" {
				return
			}
		case <-time.After(20 * time.Millisecond):
			if time.Now().After(deadline) {
				t.Fatal("the bus did not come back")
			}
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for kind, ends := range kinds {
		b.Run(kind, func(b *testing.B) {
			from, to := ends(b)
			back := make(chan struct{}, 1)
			cancel, err := to.Subscribe("ping", func(string, []byte) { back <- struct{}{} })
			if err != nil {
				b.Fatal(err)
			}
			defer cancel()
			for b.Loop() {
				from.Publish("ping", nil)
				<-back
			}
		})
	}
}

// BenchmarkMemory reports what the bus inside the process adds to its resident memory.
func BenchmarkMemory(b *testing.B) {
	before := resident(b)
	one, err := bus.Open(context.Background(), bus.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer one.Close()
	for b.Loop() {
		one.Publish("x", nil)
	}
	b.ReportMetric(float64(resident(b)-before)/1024, "KiB-resident")
}

func resident(b *testing.B) int {
	debug.FreeOSMemory()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(os.Getpid()), "statm"))
	if err != nil {
		b.Skip("no /proc here")
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}
