package apitest

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// StepRun is one Step that a scripted Runner executes.
type StepRun struct {
	Ctx  context.Context // ends when the Job is canceled
	Kind work.StepKind
	Spec *work.Spec

	Round *work.Round // of a Part; nil otherwise

	runner *Runner
	ref    wire.Ref
	step   int
	seq    uint64
}

// Print ships lines of the Step's log.
func (s *StepRun) Print(lines ...string) {
	records := make([]work.Record, len(lines))
	for i, line := range lines {
		records[i] = work.Record{Stream: work.Stdout, Data: []byte(line)}
	}
	s.ship(records...)
}

// ship numbers records and sends them.
func (s *StepRun) ship(records ...work.Record) {
	for i := range records {
		s.seq++
		records[i].Seq, records[i].Time = s.seq, time.Now()
	}
	batch, err := wire.PackRecords(s.ref, s.step, records)
	s.runner.world.Must(err)
	_ = s.runner.conn.SendWait(s.Ctx, batch) // a test that cuts the connection means it
}

// Behavior does a Step and gives its result; a zero Status is succeeded.
type Behavior func(*StepRun) work.StepResult

// Runner is an Instance that does what a Behavior says.
type Runner struct {
	Created  api.CreatedRunner
	world    *World
	conn     *wire.Conn
	behavior Behavior

	mu      sync.Mutex
	specs   map[string]*work.Spec
	begun   map[wire.Ref]int // the Steps of an Attempt that were begun
	cancels map[string]context.CancelFunc
	held    map[string]wire.Ref // Attempts, by Job
	working sync.WaitGroup
}

// Runner creates a Runner record that every Module may use, logs in as it and stays online until the test ends.
func (w *World) Runner(name string, behavior Behavior) *Runner {
	w.T.Helper()
	made, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: name, IsAssignedToAllModules: true})
	w.Must(err)
	return w.Connect(made, behavior)
}

// Connect brings an Instance of a Runner record online.
func (w *World) Connect(made api.CreatedRunner, behavior Behavior) *Runner {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	token, err := wire.FetchToken(ctx, http.DefaultClient, w.URL, wire.Client{OrganizationID: made.OrganizationID, ID: made.ClientID, Secret: made.ClientSecret})
	w.Must(err)
	hello := &wire.Hello{Capability: wire.Capability, Version: "test", Instance: "i-1", Key: "key of the instance i-1", OS: "linux", Arch: "amd64",
		Engines: map[string]string{"script": "1", "opentofu": "1.12.6", "runbook": "1", "discovery": "1"}, Capacity: 4}
	if w.Says != nil {
		w.Says(hello)
	}
	conn, err := wire.Dial(ctx, wire.DialConfig{URL: w.URL, Token: token.Value, HTTPClient: http.DefaultClient,
		OrganizationID: made.OrganizationID, RunnerID: made.ID, Instance: hello.Instance})
	w.Must(err)
	w.Must(conn.Send(hello))
	m, err := conn.Receive(ctx)
	w.Must(err)
	welcome, ok := m.(*wire.Welcome)
	if !ok {
		w.T.Fatalf("instead of a welcome: %#v", m)
	}
	r := &Runner{Created: made, world: w, conn: conn, behavior: behavior, specs: map[string]*work.Spec{}, begun: map[wire.Ref]int{}, cancels: map[string]context.CancelFunc{},
		held: map[string]wire.Ref{}}
	over := make(chan struct{})
	var parts sync.WaitGroup
	parts.Go(func() {
		defer close(over)
		r.listen()
	})
	parts.Go(func() { r.beat(welcome.Heartbeat/3, over) })
	w.T.Cleanup(func() {
		conn.Close(wire.CloseNormal, "")
		parts.Wait()
		r.working.Wait()
	})
	return r
}

// beat says that the Instance lives, and what it has, until the Session is over.
func (r *Runner) beat(every time.Duration, over <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-over:
			return
		}
		r.mu.Lock()
		m := &wire.Heartbeat{Working: slices.Collect(maps.Values(r.held))}
		r.mu.Unlock()
		_ = r.conn.Send(m) // listen sees a connection that ended
	}
}

// Leave ends the Session.
func (r *Runner) Leave() { r.conn.Close(wire.CloseNormal, "") }

func (r *Runner) listen() {
	for {
		message, err := r.conn.Receive(context.Background())
		if err != nil {
			r.cancelAll()
			return
		}
		switch m := message.(type) {
		case *wire.Offer:
			_ = r.conn.Send(&wire.Accept{Ref: m.Ref}) // the next Receive says why not
		case *wire.RunStep:
			r.begin(m)
		case *wire.Drop:
			r.mu.Lock()
			if r.held[m.Job] == m.Ref {
				delete(r.held, m.Job)
			}
			r.mu.Unlock()
		case *wire.Cancel:
			r.mu.Lock()
			if cancel := r.cancels[m.Job]; cancel != nil {
				cancel()
			}
			r.mu.Unlock()
		}
	}
}

func (r *Runner) cancelAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cancel := range r.cancels {
		cancel()
	}
}

func (r *Runner) begin(m *wire.RunStep) {
	ctx, cancel := context.WithCancel(context.Background())
	r.mu.Lock()
	if m.Step < r.begun[m.Ref] { // told twice, it is done once
		r.mu.Unlock()
		cancel()
		return
	}
	r.begun[m.Ref], r.held[m.Job] = m.Step+1, m.Ref
	if m.Spec != nil {
		r.specs[m.Job] = m.Spec
	}
	spec := r.specs[m.Job]
	r.cancels[m.Job] = cancel
	r.mu.Unlock()
	r.working.Go(func() {
		defer cancel()
		s := &StepRun{Ctx: ctx, Kind: spec.Steps[m.Step], Spec: spec, Round: m.Round, runner: r, ref: m.Ref, step: m.Step}
		begun := time.Now()
		_ = r.conn.Send(&wire.StepStarted{Ref: m.Ref, Step: m.Step, At: begun}) // listen sees a connection that ended
		result := r.behavior(s)
		if result.Status == "" {
			result.Status = work.StepSucceeded
		}
		if ctx.Err() != nil {
			result.Status = work.StepCanceled
		}
		result.StartedAt, result.FinishedAt = begun, time.Now()
		_ = r.conn.Send(&wire.StepFinished{Ref: m.Ref, Step: m.Step, LastSeq: s.seq, Result: result}) // as above
	})
}
