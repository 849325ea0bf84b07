package runner

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// fakeServer speaks the Server's side of the wire and remembers all it was told. It stores a log
// record once and fails the test over a gap.
type fakeServer struct {
	t      testing.TB
	http   *httptest.Server
	secret string

	mu         sync.Mutex
	changed    *sync.Cond
	conn       *wire.Conn
	hellos     []*wire.Hello
	got        []wire.Message // all but log batches and heartbeats
	beats      []*wire.Heartbeat
	jobs       map[wire.Ref]*fakeJob
	batches    int
	holdAcks   bool
	mute       bool // StepFinished is not answered
	noDrainAck bool // nor is Draining
	refuse     *wire.CloseError
	verdict    func(wire.Held) wire.Verdict
	closing    sync.WaitGroup
	files      map[string][]byte        // of releases, by path
	tooOld     string                   // the version that it does not speak with
	finished   func(*wire.StepFinished) // drives a benchmark, under the lock
}

type fakeJob struct {
	spec    *work.Spec
	logs    map[int][]work.Record
	results map[int]work.StepResult
	last    map[int]uint64
	times   map[int]int // how often a Step was reported
}

func newServer(t testing.TB) *fakeServer {
	s := &fakeServer{t: t, secret: "correct horse", jobs: map[wire.Ref]*fakeJob{}}
	s.changed = sync.NewCond(&s.mu)
	mux := http.NewServeMux()
	mux.HandleFunc(wire.TokenPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("client_id") != "org:client" || r.FormValue("client_secret") != s.secret {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
			return
		}
		fmt.Fprint(w, `{"access_token":"token","token_type":"Bearer","expires_in":600}`)
	})
	mux.HandleFunc(wire.HubPath, s.hub)
	mux.HandleFunc("/releases/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		file, ok := s.files[r.URL.Path]
		s.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(file)
	})
	s.http = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.cut()
		s.http.Close()
		s.closing.Wait()
	})
	return s
}

func (s *fakeServer) url() string { return s.http.URL }

func (s *fakeServer) hub(w http.ResponseWriter, r *http.Request) {
	s.closing.Add(1)
	defer s.closing.Done()
	if r.Header.Get("Authorization") != "Bearer token" || r.URL.Query().Get("runner_instance") != "edge-1" {
		s.t.Errorf("unexpected request %v", r.URL)
	}
	conn, err := wire.Upgrade(w, r)
	if err != nil {
		s.t.Errorf("upgrade: %v", err)
		return
	}
	defer conn.Close(wire.CloseNormal, "")
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		conn.Close(refuse.Code, refuse.Reason)
		return
	}
	m, err := conn.Receive(context.Background())
	if err != nil {
		return
	}
	hello := m.(*wire.Hello)
	s.mu.Lock()
	old := hello.Version == s.tooOld
	s.mu.Unlock()
	if old {
		conn.Close(wire.CloseCapability, "the Runner is too old for this Server")
		return
	}
	s.welcome(conn, hello)
	for {
		m, err := conn.Receive(context.Background())
		if err != nil {
			return
		}
		s.take(conn, m)
	}
}

func (s *fakeServer) welcome(conn *wire.Conn, hello *wire.Hello) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &wire.Welcome{Capability: wire.Capability, Session: fmt.Sprint("s", len(s.hellos)), Heartbeat: 50 * time.Millisecond, Lease: time.Minute, Runner: "edge"}
	for _, held := range hello.Journal {
		if s.verdict != nil {
			w.Jobs = append(w.Jobs, s.verdict(held))
			continue
		}
		w.Jobs = append(w.Jobs, s.continues(held))
	}
	s.hellos = append(s.hellos, hello)
	if old := s.conn; old != nil {
		s.closing.Go(func() { old.Close(wire.CloseReplaced, "") })
	}
	s.conn = conn
	_ = conn.Send(w)
	s.changed.Broadcast()
}

// continues is the verdict of a Server that wants the Job done. The caller holds mu.
func (s *fakeServer) continues(held wire.Held) wire.Verdict {
	v := wire.Verdict{Ref: held.Ref, Fate: wire.Unknown}
	if j := s.jobs[held.Ref]; j != nil {
		v.Fate, v.Spec, v.Acks = wire.Continue, j.spec, j.acks()
		for v.Next < len(j.spec.Steps) && j.times[v.Next] > 0 {
			v.Next++
		}
	}
	return v
}

func (j *fakeJob) acks() []wire.StepLog {
	var acks []wire.StepLog
	for step, records := range j.logs {
		acks = append(acks, wire.StepLog{Step: step, Next: uint64(len(records)) + 1})
	}
	return acks
}

func (s *fakeServer) take(conn *wire.Conn, m wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	switch m := m.(type) {
	case *wire.Heartbeat:
		s.beats = append(s.beats, m)
		return
	case *wire.LogBatch:
		s.store(conn, m)
		return
	case *wire.Draining:
		if !s.noDrainAck {
			_ = conn.Send(&wire.DrainAck{})
		}
	case *wire.StepFinished:
		j := s.jobs[m.Ref]
		if j == nil || uint64(len(j.logs[m.Step])) != m.LastSeq {
			s.t.Errorf("result of %v step %d says %d records, %d are here", m.Ref, m.Step, m.LastSeq, len(j.logs[m.Step]))
		}
		if s.mute {
			return
		}
		j.results[m.Step] = m.Result
		j.times[m.Step]++
		_ = conn.Send(&wire.StepAck{Ref: m.Ref, Step: m.Step})
		if s.finished != nil {
			s.finished(m)
			return
		}
	}
	s.got = append(s.got, m)
}

func (s *fakeServer) store(conn *wire.Conn, b *wire.LogBatch) {
	s.batches++
	records, err := wire.UnpackRecords(b)
	if err != nil {
		s.t.Errorf("batch: %v", err)
		return
	}
	j := s.jobs[b.Ref]
	if j == nil {
		s.t.Errorf("log of an unknown Job %v", b.Ref)
		return
	}
	for _, r := range records {
		have := uint64(len(j.logs[b.Step]))
		switch {
		case r.Seq <= have: // sent again
			if string(j.logs[b.Step][r.Seq-1].Data) != string(r.Data) {
				s.t.Errorf("record %d changed", r.Seq)
			}
		case r.Seq == have+1:
			j.logs[b.Step] = append(j.logs[b.Step], r)
		default:
			s.t.Errorf("gap: record %d comes after %d", r.Seq, have)
		}
	}
	if !s.holdAcks {
		_ = conn.Send(&wire.LogAck{Ref: b.Ref, Step: b.Step, Next: uint64(len(j.logs[b.Step])) + 1})
	}
}

// wait waits until cond, called under the lock, holds.
func (s *fakeServer) wait(what string, cond func() bool) {
	s.t.Helper()
	timeout := time.AfterFunc(patience+time.Second, func() { s.mu.Lock(); s.changed.Broadcast(); s.mu.Unlock() })
	defer timeout.Stop()
	deadline := time.Now().Add(patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for !cond() {
		if time.Now().After(deadline) {
			s.t.Fatalf("timed out: %s; got %s", what, s.summary())
		}
		s.changed.Wait()
	}
}

func (s *fakeServer) summary() string {
	var b strings.Builder
	for _, m := range s.got {
		fmt.Fprintf(&b, "\n  %T %+v", m, m)
	}
	return b.String()
}

func (s *fakeServer) send(m wire.Message) {
	s.t.Helper()
	s.wait("a Session", func() bool { return s.conn != nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.Send(m); err != nil {
		s.t.Errorf("send %T: %v", m, err)
	}
}

// cut ends the Session without a word, and returns when a new one would be another one.
func (s *fakeServer) cut() {
	s.mu.Lock()
	conn := s.conn
	s.conn = nil
	s.mu.Unlock()
	if conn != nil {
		conn.Close(wire.CloseShutdown, "")
	}
}

func (s *fakeServer) sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.hellos)
}

// scriptSpec is a Job of engine script with an inline source.
func scriptSpec(text string, repeatable bool) *work.Spec {
	return &work.Spec{
		Module: "prod/network/vpc", ModuleID: "module-1", StackName: "prod", Namespace: "network", Name: "vpc", Number: 42,
		Engine: catalog.Script, Action: work.Run,
		Source: catalog.Source{Type: catalog.Inline, Files: map[string]string{"data.txt": "data\n"}},
		Script: &catalog.ScriptSpec{Run: text, Repeatable: repeatable},
		Steps:  []work.StepKind{work.StepFetch, work.StepRun}, Changing: []bool{false, !repeatable},
	}
}

func ref(job string, attempt int) wire.Ref { return wire.Ref{Job: job, Attempt: attempt} }

// know makes the Server know a Job.
func (s *fakeServer) know(ref wire.Ref, spec *work.Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[ref] = &fakeJob{spec: spec, logs: map[int][]work.Record{}, results: map[int]work.StepResult{}, last: map[int]uint64{}, times: map[int]int{}}
}

// begin sends a Job's Steps up to and with the given one, and waits for the results of those before it.
func (s *fakeServer) begin(ref wire.Ref, spec *work.Spec, step int) {
	s.t.Helper()
	s.know(ref, spec)
	for i := range step + 1 {
		m := &wire.RunStep{Ref: ref, Step: i, Watch: true}
		if i == 0 {
			m.Spec = spec
		}
		s.send(m)
		if i < step {
			s.result(ref, i)
		}
	}
}

func (s *fakeServer) result(ref wire.Ref, step int) work.StepResult {
	s.t.Helper()
	s.wait(fmt.Sprintf("result of %v step %d", ref, step), func() bool { return s.jobs[ref].times[step] > 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[ref].results[step]
}

// text is the log of a Step, of the given streams or of all.
func (s *fakeServer) has(ref wire.Ref, step int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[ref].times[step] > 0
}

func (s *fakeServer) text(ref wire.Ref, step int, streams ...work.Stream) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[ref].text(step, streams...)
}

func (j *fakeJob) text(step int, streams ...work.Stream) string {
	var b strings.Builder
	for _, r := range j.logs[step] {
		for _, want := range streams {
			if r.Stream == want {
				b.Write(r.Data)
				b.WriteByte('\n')
			}
		}
		if len(streams) == 0 {
			b.Write(r.Data)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// sees waits until a Step's log holds some text.
func (s *fakeServer) sees(ref wire.Ref, step int, text string) {
	s.t.Helper()
	s.wait("log holds "+text, func() bool { return strings.Contains(s.jobs[ref].text(step), text) })
}

func count[M wire.Message](s *fakeServer) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, m := range s.got {
		if _, ok := m.(M); ok {
			n++
		}
	}
	return n
}
