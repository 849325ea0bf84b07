package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/leaktest"
	"legwork/internal/work"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// pair makes both ends of a connection over loopback.
func pair(t *testing.T, tune tuning) (client, server *Conn) {
	t.Helper()
	accepted := make(chan *Conn, 1)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := accept(w, r, tune)
		if err != nil {
			t.Errorf("accept: %v", err)
		}
		accepted <- c
	}))
	t.Cleanup(hub.Close)
	httpClient, err := HTTPClient("")
	if err != nil {
		t.Fatal(err)
	}
	client, err = dial(t.Context(), DialConfig{URL: hub.URL, HTTPClient: httpClient}, tune)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() {
		var both sync.WaitGroup
		both.Go(func() { client.Close(CloseNormal, "") })
		both.Go(func() { server.Close(CloseNormal, "") })
		both.Wait()
	})
	return client, server
}

func everyMessage() []Message {
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)
	ref := Ref{Job: "0198-abc", Attempt: 3}
	spec := &work.Spec{
		Module: "prod/network/vpc", ModuleID: "m-1", Engine: catalog.OpenTofu, Action: work.Apply,
		Source:     catalog.Source{Type: catalog.Inline, Files: map[string]string{"main.tf": "x"}},
		Script:     &catalog.ScriptSpec{Run: "true"},
		Inputs:     []work.InputValue{{Name: "cidr", Kind: catalog.Parameter, Value: []byte(`"a"`), Sensitive: true}},
		ExtraFiles: []catalog.ExtraFile{{FileName: "a", Contents: "b"}}, Hooks: []catalog.Hook{{Task: "apply", Phase: catalog.Before, Script: "x"}},
		Steps: []work.StepKind{work.StepFetch}, Changing: []bool{false}, StepTimeout: time.Second, Number: 7,
	}
	result := work.StepResult{Status: work.StepFailed, ExitCode: 1, Failure: &work.Failure{Code: "c", Message: "m", Hint: "h"},
		StartedAt: at, FinishedAt: at, Plan: &work.PlanSummary{Add: 1}, Changes: []byte("[]"),
		Outputs: map[string]catalog.OutputValue{"id": {Value: []byte(`"v"`), Sensitive: true}}, HasOutputs: true}
	return []Message{
		&Hello{Capability: 1, Version: "v", Instance: "i", Key: "k", OS: "linux", Arch: "amd64",
			Engines: map[string]string{"opentofu": "1"}, Labels: map[string]string{"a": "b"}, Capacity: 10,
			Journal: []Held{{Ref: ref, Step: -1}, {Ref: ref, Step: 2, Running: true}}},
		&Heartbeat{Working: []Ref{ref}, Draining: true, Blocked: []Blocked{{Ref: ref, Reason: "full"}}}, &Accept{ref}, &Refuse{Ref: ref, Code: "busy", Message: "no"},
		&StepStarted{Ref: ref, Step: 1, At: at}, &StepFinished{Ref: ref, Step: 1, LastSeq: 9, Result: result},
		&LogBatch{Ref: ref, Step: 1, First: 1, Count: 1, Records: []byte{1}}, &Draining{},
		&Welcome{Capability: 1, Session: "s", Heartbeat: time.Second, Lease: time.Minute, Runner: "edge",
			Jobs: []Verdict{{Ref: ref, Fate: Continue, Spec: spec, Acks: []StepLog{{Step: 1, Next: 5}}, Next: 2, Cancel: work.Kill}}},
		&Offer{Ref: ref, Engine: "opentofu", Module: "a/b/c"}, &Withdrawn{ref}, &RunStep{Ref: ref, Step: 1, Spec: spec, Watch: true},
		&Cancel{Ref: ref, Mode: work.Graceful}, &LogAck{Ref: ref, Step: 1, Next: 9}, &StepAck{Ref: ref, Step: 1},
		&Drain{Resume: true}, &Configure{Ref: ref, Watch: true}, &Drop{ref}, &Notice{Text: "t", Trouble: true}, &Goodbye{Reason: "r"},
	}
}

func TestEveryMessageArrivesAsItWasSent(t *testing.T) {
	client, server := pair(t, defaultTuning())
	sent := everyMessage()
	for _, m := range sent {
		if err := client.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range sent {
		got, err := server.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
}

func TestSendersDoNotMix(t *testing.T) {
	client, server := pair(t, defaultTuning())
	const senders, each = 8, 500
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				if err := client.Send(&StepAck{Ref: Ref{Job: "j", Attempt: s}, Step: i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := make([]int, senders)
	for range senders * each {
		m, err := server.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ack := m.(*StepAck)
		if ack.Step != next[ack.Attempt] {
			t.Fatalf("sender %d: got %d, want %d", ack.Attempt, ack.Step, next[ack.Attempt])
		}
		next[ack.Attempt]++
	}
	wg.Wait()
}

func TestCloseTellsThePeerWhy(t *testing.T) {
	long := strings.Repeat("a sentence that is too long for a close frame, ", 6)
	for _, reason := range []string{"", "Runner r-1 does not exist", long} {
		client, server := pair(t, defaultTuning())
		if err := server.Send(&Drain{}); err != nil {
			t.Fatal(err)
		}
		go server.Close(CloseUnknown, reason)
		var err error
		for err == nil {
			_, err = client.Receive(t.Context())
		}
		var closed *CloseError
		if !errors.As(err, &closed) || closed.Code != CloseUnknown || !closed.Code.Permanent() {
			t.Fatalf("got %v", err)
		}
		if want := cmp(reason, CloseUnknown.Sentence()); closed.Error() != want {
			t.Errorf("got %q, want %q", closed.Error(), want)
		}
		if client.Send(&Drain{}) == nil {
			t.Error("a closed connection took a message")
		}
	}
}

func cmp(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func TestSlowPeerIsClosed(t *testing.T) {
	tune := defaultTuning()
	tune.queueBytes, tune.closeGrace = 1<<20, 50*time.Millisecond
	client, _ := pair(t, tune) // nobody receives at the other end
	batch := &LogBatch{Ref: Ref{Job: "j"}, First: 1, Count: 1, Records: make([]byte, 256<<10)}
	var err error
	for range 200 {
		if err = client.Send(batch); err != nil {
			break
		}
	}
	if CodeOf(err) != CloseSlow {
		t.Fatalf("got %v, want CloseSlow", err)
	}
}

func TestSendWaitWaitsForRoom(t *testing.T) {
	tune := defaultTuning()
	tune.roomBytes = 64 << 10
	client, server := pair(t, tune)
	const total = 100
	go func() {
		for i := range total {
			if err := client.SendWait(t.Context(), &LogBatch{Ref: Ref{Job: "j"}, First: uint64(i + 1), Count: 1, Records: make([]byte, 100<<10)}); err != nil {
				t.Error(err)
			}
			client.mu.Lock()
			if client.queued > 300<<10 {
				t.Errorf("%d bytes are queued", client.queued)
			}
			client.mu.Unlock()
		}
	}()
	for i := range total {
		m, err := server.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := m.(*LogBatch).First; got != uint64(i+1) {
			t.Fatalf("got %d, want %d", got, i+1)
		}
	}
}

func TestSendWaitEndsWithContextAndConnection(t *testing.T) {
	tune := defaultTuning()
	tune.roomBytes, tune.queueBytes, tune.closeGrace = 1, 64<<20, 10*time.Millisecond
	client, _ := pair(t, tune)
	big := &LogBatch{Ref: Ref{Job: "j"}, First: 1, Count: 1, Records: make([]byte, 4<<20)}
	for range 6 { // more than the sockets take
		if err := client.Send(big); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := client.SendWait(ctx, big); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- client.SendWait(t.Context(), big) }()
	client.Close(CloseNormal, "done")
	if err := <-ended; err == nil {
		t.Fatal("no error after the close")
	}
}

// TestHalfOpenIsNoticed cuts a connection in the way of a pulled cable: bytes vanish, nobody is told. Time is virtual.
func TestHalfOpenIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cable := newCable(t)
		client, server := cable.pair()
		atClient, atServer := make(chan error, 1), make(chan error, 1)
		go func() { _, err := client.Receive(t.Context()); atClient <- err }()
		go func() { _, err := server.Receive(t.Context()); atServer <- err }()
		time.Sleep(time.Hour) // pings keep an idle connection alive
		synctest.Wait()
		select {
		case err := <-atClient:
			t.Fatalf("ended while the cable was whole: %v", err)
		case err := <-atServer:
			t.Fatalf("ended while the cable was whole: %v", err)
		default:
		}
		cable.cut()
		began := time.Now()
		for _, ch := range []chan error{atClient, atServer} {
			if err := <-ch; CodeOf(err) != CloseSilent {
				t.Errorf("got %v, want CloseSilent", err)
			}
			if took := time.Since(began); took < DeadAfter-PingEvery || took > DeadAfter+PingEvery {
				t.Errorf("noticed after %v", took)
			}
		}
		client.Close(CloseNormal, "")
		server.Close(CloseNormal, "")
	})
}

// TestCloseDoesNotWaitForTheDead: a peer that answers nothing any more does not hold up the one who closes. Time is virtual.
func TestCloseDoesNotWaitForTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cable := newCable(t)
		client, server := cable.pair()
		cable.cut()
		reading := make(chan error, 1)
		go func() { _, err := client.Receive(context.Background()); reading <- err }() // at one end, and nobody reads at the other
		grace := defaultTuning().closeGrace
		var both sync.WaitGroup
		for _, c := range []*Conn{client, server} {
			both.Go(func() {
				began := time.Now()
				c.Close(CloseNormal, "")
				if took := time.Since(began); took > 2*grace {
					t.Errorf("closing took %v", took)
				}
			})
		}
		both.Wait()
		if err := <-reading; CodeOf(err) != CloseNormal {
			t.Errorf("the reader got %v", err)
		}
	})
}

// cable carries a connection within a bubble of virtual time until it is cut; then it swallows.
type cable struct {
	t       *testing.T
	plugged chan net.Conn // at the Server's end
	over    chan struct{} // closed when it is taken away

	mu   sync.Mutex
	gone bool
}

func newCable(t *testing.T) *cable {
	c := &cable{t: t, plugged: make(chan net.Conn), over: make(chan struct{})}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (c *cable) cut() { c.mu.Lock(); defer c.mu.Unlock(); c.gone = true }

// pair makes both ends of a connection over the cable, at the pace of real ones.
func (c *cable) pair() (client, server *Conn) {
	c.t.Helper()
	accepted := make(chan *Conn, 1)
	hub := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := accept(w, r, defaultTuning())
		accepted <- conn
	})}
	go func() { _ = hub.Serve(c) }()
	c.t.Cleanup(func() { _ = hub.Close() })
	plugs := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return c.plug(), nil }}}
	client, err := dial(c.t.Context(), DialConfig{URL: "http://hub.test", HTTPClient: plugs}, defaultTuning())
	if err != nil {
		c.t.Fatal(err)
	}
	return client, <-accepted
}

// plug gives the Runner's end of the cable.
func (c *cable) plug() net.Conn {
	client, near := net.Pipe()
	far, server := net.Pipe()
	go c.forward(far, near)
	go c.forward(near, far)
	c.plugged <- server
	return client
}

// forward carries one direction until an end is closed, of which the other end hears nothing once the cable is cut.
func (c *cable) forward(to, from net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		c.mu.Lock()
		gone := c.gone
		c.mu.Unlock()
		switch {
		case err != nil && gone:
			return
		case err != nil:
			to.Close()
			return
		case !gone:
			_, _ = to.Write(buf[:n]) // whether it is closed, the other direction tells
		}
	}
}

// Accept, Close and Addr make a listener of the Server's end.
func (c *cable) Accept() (net.Conn, error) {
	select {
	case conn := <-c.plugged:
		return conn, nil
	case <-c.over:
		return nil, net.ErrClosed
	}
}

func (c *cable) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.over:
	default:
		close(c.over)
	}
	return nil
}

func (c *cable) Addr() net.Addr { return &net.TCPAddr{} }

func TestHostileFrames(t *testing.T) {
	for name, m := range map[string]Message{
		"path in an id":    &Drop{Ref{Job: "../../etc"}},
		"too many records": &LogBatch{Ref: Ref{Job: "j"}, First: 1, Count: MaxBatchRecords + 1},
		"sequence zero":    &LogBatch{Ref: Ref{Job: "j"}, First: 0, Count: 1},
		"unknown status":   &StepFinished{Ref: Ref{Job: "j"}, Result: work.StepResult{Status: "great"}},
		"huge journal":     &Heartbeat{Working: make([]Ref, MaxJournal+1)},
		"step kind a path": &RunStep{Ref: Ref{Job: "j"}, Spec: &work.Spec{ModuleID: "m", Steps: []work.StepKind{"../x"}, Changing: []bool{true}}},
		"module id a path": &RunStep{Ref: Ref{Job: "j"}, Spec: &work.Spec{ModuleID: "../m"}},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := pair(t, defaultTuning())
			if err := client.Send(m); err != nil {
				t.Fatal(err)
			}
			if _, err := server.Receive(t.Context()); CodeOf(err) != CloseProtocol {
				t.Fatalf("server: %v, want CloseProtocol", err)
			}
			if _, err := client.Receive(t.Context()); CodeOf(err) != CloseProtocol {
				t.Fatalf("client: %v, want CloseProtocol", err)
			}
		})
	}
	t.Run("larger than a frame", func(t *testing.T) {
		client, _ := pair(t, defaultTuning())
		if err := client.Send(&Goodbye{Reason: strings.Repeat("x", MaxFrame)}); err == nil {
			t.Fatal("it was taken")
		}
	})
}

func TestUnknownMessagesAreIgnored(t *testing.T) {
	known, err := appendMessage(nil, &Drain{Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	frame := append([]byte{200, 0x82, 0x01, 0x02}, known...) // type 200: [1, 2]
	m, rest, err := nextMessage(frame)
	if m != nil || err != nil {
		t.Fatalf("got %v, %v", m, err)
	}
	if m, _, err = nextMessage(rest); err != nil || !m.(*Drain).Resume {
		t.Fatalf("got %v, %v", m, err)
	}
}

// TestIdleConnectionIsSmall holds the promise of under 40 KiB of an idle connection at the Server.
// Both ends are in this process, so both are counted.
func TestIdleConnectionIsSmall(t *testing.T) {
	const n = 200
	accepted := make(chan *Conn, n)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Upgrade(w, r)
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		accepted <- c
		_, _ = c.Receive(context.Background())
		c.Close(CloseNormal, "")
	}))
	defer hub.Close()
	before := inUse()
	clients := make([]*Conn, n)
	for i := range clients {
		c, err := Dial(t.Context(), DialConfig{URL: hub.URL})
		if err != nil {
			t.Fatal(err)
		}
		clients[i] = c
		<-accepted
	}
	each := (inUse() - before) / n
	t.Logf("%d bytes for both ends of a connection", each)
	if each > 80<<10 {
		t.Errorf("%d bytes for both ends of an idle connection", each)
	}
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { c.Close(CloseNormal, "") })
	}
	wg.Wait()
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func FuzzFrame(f *testing.F) {
	for _, m := range everyMessage() {
		data, err := appendMessage(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		for len(frame) > 0 {
			m, rest, err := nextMessage(frame)
			if err != nil {
				if CodeOf(err) != CloseProtocol {
					t.Fatalf("unexpected error %v", err)
				}
				return
			}
			if len(rest) >= len(frame) {
				t.Fatal("no progress")
			}
			if m != nil {
				if _, err := appendMessage(nil, m); err != nil {
					t.Fatalf("what was decoded cannot be encoded: %v", err)
				}
			}
			if batch, ok := m.(*LogBatch); ok {
				_, _ = UnpackRecords(batch)
			}
			frame = rest
		}
	})
}

func ExampleCloseCode() {
	fmt.Println(CloseDuplicate, CloseDuplicate.Permanent(), CloseUnknown.Permanent())
	// Output: duplicate_instance false true
}
