package runner

import (
	"testing"

	"legwork/internal/work"
)

func TestStatus(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	if got := New(cfg).Status(); got.Connected || got.Capacity != 10 || got.Finished != nil {
		t.Errorf("before the first Session: %+v", got)
	}
	r := start(t, cfg)
	job := ref("job-1", 1)
	s.begin(job, scriptSpec("exit 1", false), 1)
	s.result(job, 1)
	got := r.Status()
	if !got.Connected || got.Sessions != 1 || got.Held != 1 || got.Running != 0 || got.Finished[work.StepSucceeded] != 1 || got.Finished[work.StepFailed] != 1 {
		t.Errorf("got %+v", got)
	}
	r.Drain()
	eventually(t, "it drains", func() bool { return r.Status().Draining })
}
