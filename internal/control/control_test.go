package control

import (
	"context"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

func TestJobRunsFromSubmitToItsLog(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.fake(r, "a").online(s)
	j := s.submit("prod/net/m0", work.Run)
	step := f.take()
	if step.Step != 0 || step.Spec == nil || step.Spec.Script.Run != "true" || step.Attempt != 1 || step.Job != j.ID {
		t.Fatalf("first step: %+v", step)
	}
	f.run(step, 3, work.StepResult{Commit: "abc"})
	step = expect[*wire.RunStep](f)
	if step.Step != 1 || step.Spec != nil {
		t.Fatalf("second step: %+v", step)
	}
	f.run(step, 2, work.StepResult{})
	drop := expect[*wire.Drop](f)
	if drop.Job != j.ID {
		t.Fatalf("dropped %+v", drop)
	}
	done := s.until(j.ID, work.Succeeded)
	if done.Commit != "abc" || done.Binding.Instance != "a" {
		t.Fatalf("job: %+v", done)
	}
	lines := s.log(j.ID)
	if len(lines) != 5 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, l := range lines {
		if l.Pos != int64(i+1) {
			t.Fatalf("line %d has position %d", i, l.Pos)
		}
	}
	_, end, err := s.c.ReadLog(context.Background(), s.owner(), j.ID, 5, 0, LogFilter{})
	if err != nil || end.Last != 5 || !end.Complete {
		t.Fatalf("end: %+v %v", end, err)
	}
}
