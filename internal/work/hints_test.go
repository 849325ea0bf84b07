package work_test

import (
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func TestMissingEngineSaysWhatToDo(t *testing.T) {
	host := work.Candidate{Runner: "edge", Instance: "a", Online: true, Free: 1,
		Engines: map[string]string{"terraform": "1.5.7", "script": "1", "discovery": "1", "secrets": "1"}}
	for engine, want := range map[catalog.Engine]string{
		catalog.OpenTofu: "install tofu there, or name its folder in Engine.AdditionalBinaryPaths, " +
			"or set the Module's engine to one of: script, terraform, and queue it anew",
		"ansible":  "install ansible there, or name its folder in Engine.AdditionalBinaryPaths",
		"launcher": "set Runner.launcher to true in the settings of runner edge, on its host, and start it again",
		"runbook":  "it is part of legwork: its Runner is older, or its settings leave it out",
	} {
		_, wait := work.Eligible(work.Need{Runner: "edge", Engine: engine}, []work.Candidate{host})
		if want = "no online instance has the engine " + string(engine) + ": " + want; wait.Text != want {
			t.Errorf("%q\nwant %q", wait.Text, want)
		}
	}
}

// TestHarderCancelKeepsTheReason: why a Job was canceled is not lost when somebody cancels it harder and says nothing.
func TestHarderCancelKeepsTheReason(t *testing.T) {
	next := func(j work.Job, e work.Event) work.Job {
		t.Helper()
		j, _, err := work.Next(j, e, t0)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := next(toStep(t, applyJob(), 0), work.CancelRequested{Mode: work.Graceful, By: "ann", Reason: "wrong Module"})
	j = next(j, work.CancelRequested{Mode: work.Kill, By: "bob"})
	if j.Cancel.Mode != work.Kill || j.Cancel.By != "bob" || j.Cancel.Reason != "wrong Module" {
		t.Errorf("%+v", *j.Cancel)
	}
	over := j
	over.Status = work.Succeeded
	_, _, err := work.Next(over, work.CancelRequested{Mode: work.Kill, By: "bob"}, t0)
	if fault.Code(err) != "job_state" || fault.Of(err).Hint == "" {
		t.Errorf("%v %q", err, fault.Of(err).Hint)
	}
}
