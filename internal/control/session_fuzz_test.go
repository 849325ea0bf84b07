package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// FuzzSession sends a sequence of messages, two bytes each, as a hostile instance of a runner that has another instance
// at work. The job of the other instance does not change, and the server ends the session or goes on to answer.
func FuzzSession(f *testing.F) {
	s := newWorld(f).serve(Limits{Lease: time.Hour}) // the other instance sends no heartbeats
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 1)
	victim := s.fake(r, "victim").online(s)
	job := s.submit("prod/net/m0", work.Run)
	step := victim.take()
	victim.start(step.Ref, 0)
	s.until(job.ID, work.Running)
	f.Add([]byte{0, 0, 1, 1, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0})
	f.Add([]byte{2, 1, 4, 1, 3, 1})
	for kind := range byte(10) { // one message about each job, also followed by a claim that its step is finished
		for ref := range byte(3) {
			f.Add([]byte{kind, ref})
			f.Add([]byte{kind, ref, 3, ref, 4, ref, 7, ref})
		}
	}
	f.Add([]byte{9, 0})
	f.Add([]byte{5, 0, 5, 1, 0, 0, 6, 0})
	var sessions atomic.Int64
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		name := fmt.Sprint("hostile-", sessions.Add(1)%4)
		if err := sayAll(ctx, s, r, name, hostileMessages(data, step.Ref)); err != nil {
			t.Fatalf("session: got %v, want an end with a code", err)
		}
		j, err := s.c.Job(ctx, s.owner(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		if j.Status != work.Running || j.Attempt != step.Attempt || j.Binding == nil || j.Binding.Instance != "victim" {
			t.Errorf("job of the other instance: got %s, attempt %d, %+v, want it untouched", j.Status, j.Attempt, j.Binding)
		}
		instances, err := s.c.Instances(ctx, s.owner(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range instances {
			if i.Name == "victim" && !i.Connected {
				t.Errorf("the other instance: got %+v, want its session open", i)
			}
			if i.Name != "victim" && !strings.HasPrefix(i.Name, "hostile-") {
				t.Errorf("instances: got %q, want only hostile ones and the victim", i.Name)
			}
		}
		lines, _, err := s.c.ReadLog(ctx, s.owner(), job.ID, 0, 0, LogFilter{})
		if err != nil || len(lines) > 0 {
			t.Errorf("log of the other instance's job: got %d lines, %v, want none", len(lines), err)
		}
	})
}

// hostileMessages decodes messages, two bytes each: the kind, and the job.
func hostileMessages(data []byte, victim wire.Ref) []wire.Message {
	refs := []wire.Ref{victim, {Job: victim.Job, Attempt: victim.Attempt + 1}, {Job: "nothing", Attempt: 1}}
	var all []wire.Message
	for ; len(data) >= 2 && len(all) < 32; data = data[2:] {
		ref, at := refs[int(data[1])%len(refs)], time.Now()
		batch, err := wire.PackRecords(ref, 0, records(0, 1, 1))
		if err != nil {
			panic(err) // one small record
		}
		all = append(all, []wire.Message{
			&wire.Heartbeat{Working: []wire.Ref{ref}, Blocked: []wire.Blocked{{Ref: ref, Reason: "a\nb"}}},
			&wire.Accept{Ref: ref},
			&wire.Refuse{Ref: ref, Code: "x", Message: "no"},
			&wire.StepStarted{Ref: ref, Step: int(data[1] >> 4), At: at},
			&wire.StepFinished{Ref: ref, Step: int(data[1] >> 4), Result: work.StepResult{Status: work.StepSucceeded}},
			batch,
			&wire.Draining{},
			&wire.Goodbye{Reason: "bye"},
			&wire.Hello{Capability: wire.Capability, Instance: "victim", Key: "0123456789abcdef"},
			&wire.Welcome{},
		}[int(data[0])%10])
	}
	return all
}

// sayAll connects, says hello and all messages, and ends the session. It returns an error when the server gave no
// answer.
func sayAll(ctx context.Context, s *server, r catalog.Runner, name string, messages []wire.Message) error {
	conn, err := wire.Dial(ctx, wire.DialConfig{URL: s.hub.URL, Token: "-", HTTPClient: s.hub.Client(),
		OrganizationID: r.OrganizationID, RunnerID: r.ID, Instance: name})
	if err != nil {
		return err
	}
	defer conn.Close(wire.CloseNormal, "")
	hello := s.fake(r, name).hello
	if err := conn.Send(&hello); err != nil {
		return err
	}
	if _, err := conn.Receive(ctx); err != nil {
		return err
	}
	for _, m := range messages {
		if conn.Send(m) != nil {
			break // the server closed the session
		}
	}
	if err := conn.Send(&wire.StepStarted{Ref: wire.Ref{Job: "nothing", Attempt: 1}, At: time.Now()}); err != nil {
		return nil
	}
	for { // the last message ends the session
		if _, err := conn.Receive(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		}
	}
}
