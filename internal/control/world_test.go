package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/blob"
	"legwork/internal/bus"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/leaktest"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
	"legwork/internal/wire"
	"legwork/internal/work"
)

func TestMain(m *testing.M) {
	os.Exit(leaktest.Check(storetest.Main(m)))
}

// database gives the database of a test: SQLite, or PostgreSQL when LEGWORK_TEST_DATABASE says so.
func database(t testing.TB) string {
	if os.Getenv("LEGWORK_TEST_DATABASE") == "postgres" {
		return storetest.Postgres(t)
	}
	return filepath.Join(t.TempDir(), "legwork.db")
}

// patience is how long a test waits for something that has to happen, on a machine that has much else to do.
const patience = time.Minute

// flip is a Sealer whose sealed values are not the plain ones, and open only for what they were sealed for.
type flip struct{}

func (flip) Seal(b, context []byte) ([]byte, error) {
	return turned(slices.Concat(context, []byte("\x00\x00"), b)), nil
}

func (flip) Open(b, context []byte) ([]byte, error) {
	plain, ok := bytes.CutPrefix(turned(b), slices.Concat(context, []byte("\x00\x00")))
	if !ok {
		return nil, errors.New("sealed for something else")
	}
	return plain, nil
}

func turned(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = b[i] ^ 0x5a
	}
	return out
}

// world is a store, a bus and a place for blobs that Servers share.
type world struct {
	t     testing.TB
	store *store.Store
	bus   *bus.Bus
	blobs *blob.Store
	org   string
	other string // another Organization, in which the same names exist
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, database(t))
}

func newWorldOn(t testing.TB, database string) *world {
	t.Helper()
	ctx := context.Background()
	w := &world{t: t}
	var err error
	if w.store, err = store.Open(ctx, database, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	if w.bus, err = bus.Open(ctx, bus.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.bus.Close() })
	if w.blobs, err = blob.Open(ctx, filepath.Join(t.TempDir(), "blobs")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.blobs.Close() })
	w.must(w.store.Update(ctx, func(tx *store.Tx) error {
		for name, id := range map[string]*string{"default": &w.org, "other": &w.other} {
			o, err := tx.CreateOrganization(name)
			if err != nil {
				return err
			}
			*id = o.ID
		}
		return nil
	}))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v (%+v)", err, fault.Of(err).Unwrap())
	}
}

func (w *world) owner() catalog.Actor {
	return catalog.Actor{OrganizationID: w.org, ID: "ann", Name: "ann", Role: catalog.RoleOwner}
}

func (w *world) stranger() catalog.Actor {
	return catalog.Actor{OrganizationID: w.other, ID: "bob", Name: "bob", Role: catalog.RoleOwner}
}

// server is one Server of a world.
type server struct {
	*world
	c    *Control
	hub  *httptest.Server
	stop func() // ends it and waits
}

// serve starts a Server. Nothing that a test takes long over changes what it does: presence is kept and Offers lapse when the test says
// so, by a call or by a limit of its own.
func (w *world) serve(limits Limits) *server {
	w.t.Helper()
	return w.serveLogging(limits, testLog(w.t))
}

func (w *world) serveLogging(limits Limits, log *slog.Logger) *server {
	w.t.Helper()
	limits.Heartbeat = cmp.Or(limits.Heartbeat, time.Hour)
	limits.OfferTime = cmp.Or(limits.OfferTime, time.Hour)
	s := &server{world: w}
	s.c = New(Config{Store: w.store, Bus: w.bus, Blobs: w.blobs, Sealer: flip{}, Log: log, Limits: limits})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.c.Run(ctx) }()
	s.hub = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, err := wire.Upgrade(rw, r)
		if err != nil {
			return
		}
		q := r.URL.Query()
		_ = s.c.ServeRunner(r.Context(), conn, RunnerIdentity{
			OrganizationID: q.Get("organization_id"), RunnerID: q.Get("runner_id"), Instance: q.Get("runner_instance")})
	}))
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run: %v", err)
		}
		s.hub.Close()
	})
	w.t.Cleanup(s.stop)
	eventually(w.t, "the server is up", func() bool { return s.c.upSince.Load() > 0 })
	return s
}

// testLog shows the program's log of a test that failed.
func testLog(t testing.TB) *slog.Logger {
	var mu sync.Mutex
	var b strings.Builder
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if t.Failed() && b.Len() > 0 {
			t.Log(b.String())
		}
	})
	return slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return b.Write(p)
	}), nil))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

var _ io.Writer = writerFunc(nil)

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen that %s", what)
		}
		pause(5 * time.Millisecond)
	}
}

// pause lets others run between two looks.
func pause(d time.Duration) { <-time.After(d) }

// declare applies a manifest.
func (s *server) declare(actor catalog.Actor, text string) {
	s.t.Helper()
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "test.yaml", Data: []byte(text)}})
	s.must(err)
	_, err = s.c.ApplyManifest(context.Background(), actor, m, false)
	s.must(err)
}

const stackText = `
kind: Stack
name: prod
---
kind: Namespace
stack: prod
name: net
defaults: {engine: script, runner: edge}
`

// scripts declares a Stack with that many Modules m0, m1, ... of engine script, which run on the Runner edge.
func (s *server) scripts(actor catalog.Actor, n int) {
	s.t.Helper()
	var b strings.Builder
	b.WriteString(stackText)
	for i := range n {
		fmt.Fprintf(&b, "---\n{kind: Module, stack: prod, namespace: net, name: m%d, script: {run: 'true', repeatable: true}}\n", i)
	}
	s.declare(actor, b.String())
}

// localRecord makes the record of the Server's own Runner as a Server does.
func (w *world) localRecord(c *Control, actor catalog.Actor) {
	w.t.Helper()
	by := catalog.Registrar{OrganizationID: actor.OrganizationID, ID: catalog.ServerRegistrar, Name: catalog.ServerRegistrar, AnyLabels: true}
	_, err := c.RegisterRunner(context.Background(), by, catalog.Registration{Name: catalog.LocalRunner, Lifetime: catalog.Persistent}, Proof{})
	w.must(err)
}

// runner makes a Runner record that every Module may use.
func (s *server) runner(actor catalog.Actor, spec catalog.RunnerSpec) catalog.Runner {
	s.t.Helper()
	if spec.Name == "" {
		spec.Name = "edge"
	}
	spec.IsAssignedToAllModules = true
	if spec.Name == catalog.LocalRunner {
		s.localRecord(s.c, actor)
		r, err := s.c.UpdateRunner(context.Background(), actor, catalog.LocalRunner, spec)
		s.must(err)
		return r
	}
	made, err := s.c.CreateRunner(context.Background(), actor, spec)
	s.must(err)
	return made.Runner
}

func (s *server) submit(module string, action work.Action) *work.Job {
	s.t.Helper()
	j, err := s.c.Submit(context.Background(), s.owner(), SubmitRequest{Module: module, Action: action})
	s.must(err)
	return j
}

func (s *server) job(id string) *work.Job {
	s.t.Helper()
	j, err := s.c.Job(context.Background(), s.owner(), id)
	s.must(err)
	return j
}

// until waits until a Job is in a state.
func (s *server) until(id string, status work.Status) *work.Job {
	s.t.Helper()
	return s.within(patience, id, status)
}

// within waits as long as that until a Job is in a state.
func (s *server) within(most time.Duration, id string, status work.Status) *work.Job {
	s.t.Helper()
	var j *work.Job
	deadline := time.Now().Add(most)
	for j = s.job(id); j.Status != status; j = s.job(id) {
		if time.Now().After(deadline) || (j.Status.Terminal() && j.Status != status) {
			b, _ := json.Marshal(j)
			s.t.Fatalf("job #%d is %s, not %s: %s", j.Number, j.Status, status, b)
		}
		pause(5 * time.Millisecond)
	}
	return j
}

// log reads a Job's whole log.
func (s *server) log(id string) []store.LogLine {
	s.t.Helper()
	var all []store.LogLine
	for {
		after := int64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Pos
		}
		lines, _, err := s.c.ReadLog(context.Background(), s.owner(), id, after, 0, LogFilter{})
		s.must(err)
		if len(lines) == 0 {
			return all
		}
		all = append(all, lines...)
	}
}

// fake is an Instance that says what a test has it say.
type fake struct {
	t       testing.TB
	runner  catalog.Runner
	hello   wire.Hello
	conn    *wire.Conn
	welcome *wire.Welcome
	in      chan wire.Message
	passed  []wire.Message // over which an expect went; the next one looks there first
	end     error          // why the connection ended; read it after in is closed
}

func (s *server) fake(r catalog.Runner, name string) *fake {
	return &fake{t: s.t, runner: r, hello: wire.Hello{
		Capability: wire.Capability, Version: "test", Instance: name, Key: "key of " + name + " 0123456789", OS: "linux", Arch: "amd64",
		Engines: map[string]string{"script": "1", "opentofu": "1.12.6"}, Capacity: 1,
	}}
}

// dial connects and says hello. A refusal is returned.
func (f *fake) dial(s *server) error {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := wire.Dial(ctx, wire.DialConfig{URL: s.hub.URL, Token: "-", HTTPClient: s.hub.Client(),
		OrganizationID: f.runner.OrganizationID, RunnerID: f.runner.ID, Instance: f.hello.Instance})
	if err != nil {
		f.t.Fatal(err)
	}
	f.conn, f.in, f.passed = conn, make(chan wire.Message, 10_000), nil
	f.t.Cleanup(func() { conn.Close(wire.CloseNormal, "") })
	hello := f.hello
	if err := conn.Send(&hello); err != nil {
		return err
	}
	first, err := conn.Receive(ctx)
	if _, bye := first.(*wire.Goodbye); bye { // a long reason goes ahead of its close frame
		_, err = conn.Receive(ctx)
	}
	if err != nil {
		return err
	}
	f.welcome = first.(*wire.Welcome)
	go f.listen(conn, f.in)
	return nil
}

func (f *fake) listen(conn *wire.Conn, in chan wire.Message) {
	defer close(in)
	for {
		m, err := conn.Receive(context.Background())
		if err != nil {
			f.end = err
			return
		}
		in <- m
	}
}

// online dials and must not be refused. The Server has the Session in its books when it returns.
func (f *fake) online(s *server) *fake {
	f.t.Helper()
	if err := f.dial(s); err != nil {
		f.t.Fatalf("refused: %v", err)
	}
	eventually(f.t, "the session is known", func() bool { return s.c.sessions.get(f.welcome.Session) != nil })
	return f
}

// cut ends the connection as a broken network does.
func (f *fake) cut() {
	f.conn.Close(wire.CloseNormal, "")
	for range f.in {
	}
}

func (f *fake) send(all ...wire.Message) {
	f.t.Helper()
	for _, m := range all {
		if err := f.conn.Send(m); err != nil {
			f.t.Fatalf("send: %v", err)
		}
	}
}

// expect waits for a message of a type. Others stay for the next expect.
func expect[M wire.Message](f *fake) M {
	f.t.Helper()
	return expectThat(f, func(M) bool { return true })
}

func expectThat[M wire.Message](f *fake, fits func(M) bool) M {
	f.t.Helper()
	var want M
	for i, m := range f.passed {
		if got, ok := m.(M); ok && fits(got) {
			f.passed = slices.Delete(f.passed, i, i+1)
			return got
		}
	}
	late := time.After(patience)
	for {
		select {
		case m, ok := <-f.in:
			if !ok {
				f.t.Fatalf("the connection ended while a %T was awaited: %v", want, f.end)
			}
			if got, ok := m.(M); ok && fits(got) {
				return got
			}
			f.passed = append(f.passed, m)
		case <-late:
			f.t.Fatalf("no %T came", want)
		}
	}
}

// closed waits for the end of the connection and gives its code.
func (f *fake) closed() wire.CloseCode {
	f.t.Helper()
	late := time.After(patience)
	for {
		select {
		case _, ok := <-f.in:
			if !ok {
				return wire.CodeOf(f.end)
			}
		case <-late:
			f.t.Fatal("the connection did not end")
		}
	}
}

// take accepts the next Offer and gives the first Step of it.
func (f *fake) take() *wire.RunStep {
	f.t.Helper()
	o := expect[*wire.Offer](f)
	f.send(&wire.Accept{Ref: o.Ref})
	return expectThat(f, func(m *wire.RunStep) bool { return m.Ref == o.Ref })
}

// records makes that many records from a sequence number on.
func records(step int, first uint64, n int) []work.Record {
	all := make([]work.Record, n)
	for i := range all {
		seq := first + uint64(i)
		all[i] = work.Record{Seq: seq, Time: time.Now(), Stream: work.Stdout, Data: fmt.Appendf(nil, "step %d line %d", step, seq)}
	}
	return all
}

func (f *fake) print(ref wire.Ref, step int, first uint64, n int) {
	f.t.Helper()
	b, err := wire.PackRecords(ref, step, records(step, first, n))
	if err != nil {
		f.t.Fatal(err)
	}
	f.send(b)
}

func (f *fake) start(ref wire.Ref, step int) {
	f.t.Helper()
	f.send(&wire.StepStarted{Ref: ref, Step: step, At: time.Now()})
}

func (f *fake) finish(ref wire.Ref, step int, last uint64, r work.StepResult) {
	f.t.Helper()
	if r.Status == "" {
		r.Status = work.StepSucceeded
	}
	r.StartedAt, r.FinishedAt = time.Now(), time.Now()
	f.send(&wire.StepFinished{Ref: ref, Step: step, LastSeq: last, Result: r})
}

// run executes a Step with that many lines.
func (f *fake) run(m *wire.RunStep, lines int, r work.StepResult) {
	f.t.Helper()
	f.start(m.Ref, m.Step)
	if lines > 0 {
		f.print(m.Ref, m.Step, 1, lines)
	}
	f.finish(m.Ref, m.Step, uint64(lines), r)
}

// work takes Offers and runs whatever it is given, until the connection ends. result may be nil.
func (f *fake) work(lines int, result func(m *wire.RunStep, kind work.StepKind) work.StepResult) {
	specs := map[wire.Ref]*work.Spec{}
	for m := range f.in {
		switch m := m.(type) {
		case *wire.Offer:
			_ = f.conn.Send(&wire.Accept{Ref: m.Ref})
		case *wire.RunStep:
			if m.Spec != nil {
				specs[m.Ref] = m.Spec
			}
			r := work.StepResult{Status: work.StepSucceeded}
			if result != nil {
				r = result(m, specs[m.Ref].Steps[m.Step])
			}
			_ = f.conn.Send(&wire.StepStarted{Ref: m.Ref, Step: m.Step, At: time.Now()})
			if lines > 0 {
				if b, err := wire.PackRecords(m.Ref, m.Step, records(m.Step, 1, lines)); err == nil {
					_ = f.conn.Send(b)
				}
			}
			_ = f.conn.Send(&wire.StepFinished{Ref: m.Ref, Step: m.Step, LastSeq: uint64(lines), Result: r})
		}
	}
}
