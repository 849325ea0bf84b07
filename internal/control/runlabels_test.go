package control

import (
	"context"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// TestLabelsThatNoRunnerHas: a Runbook that no Runner could ever take is refused, and one whose Runner is away says so.
func TestLabelsThatNoRunnerHas(t *testing.T) {
	w := newWorld(t)
	s := &stage{server: w.serve(Limits{})}
	ctx := context.Background()
	s.declare(s.owner(), "kind: Stack\nname: prod\n---\nkind: Stack\nname: other")
	of := func(name, stack, region string) catalog.Runner {
		made, err := s.c.CreateRunner(ctx, s.owner(), catalog.RunnerSpec{Name: name, Labels: map[string]string{"region": region}, AllowMultipleInstances: true})
		s.must(err)
		_, err = s.c.CreateAssignment(ctx, s.owner(), catalog.AssignmentSpec{Runner: name, Scope: stack})
		s.must(err)
		return made.Runner
	}
	s.runners = []catalog.Runner{of("eu", "prod", "eu"), of("us", "other", "us")}
	run := func(region string) (*work.Job, error) {
		return s.c.SubmitRun(ctx, s.owner(), RunRequest{Options: map[string]any{"region": region}, Inline: &catalog.RunbookSpec{Stack: "prod", Name: "x",
			Options:  []catalog.Option{{Name: "region"}},
			Dispatch: catalog.Dispatch{Mode: catalog.ManualDispatch, Labels: map[string]string{"region": "${option.region}"}},
			Steps:    []catalog.RunbookStep{{Name: "one", Command: "true", Each: catalog.EachRunner}}}})
	}
	for region, hint := range map[string]string{"mars": "no runner has these labels", "us": "legwork assignment create us prod"} {
		_, err := run(region)
		if fault.Code(err) != "runner_missing" || !strings.Contains(err.Error(), "no runner with the labels region="+region+" is assigned to the whole of stack prod") ||
			!strings.Contains(fault.Of(err).Hint, hint) {
			t.Errorf("%s: %v %q", region, err, fault.Of(err).Hint)
		}
	}
	job, err := run("eu")
	s.must(err)
	eventually(t, "the job says what it waits for", func() bool {
		j, err := s.c.Job(ctx, s.owner(), job.ID)
		s.must(err)
		return j.Status == work.Running && j.Notice == "no instance of a runner with the labels region=eu is online"
	})
	v, err := s.c.RunView(ctx, s.owner(), job.ID)
	s.must(err)
	if v.Job.Notice == "" {
		t.Error("the page does not say it")
	}
	s.host(0, "a").online(s.server).take()
	eventually(t, "the notice is gone", func() bool {
		j, err := s.c.Job(ctx, s.owner(), job.ID)
		s.must(err)
		return j.Notice == ""
	})
}

// TestTheLocalRunnerThatIsNotAssigned is not said to be missing.
func TestTheLocalRunnerThatIsNotAssigned(t *testing.T) {
	w := newWorld(t)
	c := w.still()
	w.declare(c, w.owner(), "kind: Stack\nname: prod")
	run := func() error {
		_, err := c.SubmitRun(context.Background(), w.owner(), RunRequest{Inline: &catalog.RunbookSpec{Stack: "prod", Name: "x", Dispatch: catalog.Dispatch{Mode: catalog.LocalDispatch},
			Steps: []catalog.RunbookStep{{Name: "one", Command: "true", Each: catalog.EachRunner}}}})
		return err
	}
	if err := run(); !strings.Contains(err.Error(), "the Server has none") {
		t.Errorf("%v", err)
	}
	w.localRecord(c, w.owner())
	if err := run(); !strings.Contains(err.Error(), "is not assigned") || fault.Of(err).Hint != "run: legwork assignment create local prod" {
		t.Errorf("%v %q", err, fault.Of(err).Hint)
	}
}
