package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// scripts declares Modules of a script.
func scripts(names ...string) string {
	text := "kind: Stack\nname: prod\n---\nkind: Namespace\nstack: prod\nname: network\ndefaults: {engine: script, runner: edge}\n"
	for _, name := range names {
		text += fmt.Sprintf("---\n{kind: Module, stack: prod, namespace: network, name: %s, script: {run: 'true', repeatable: true}}\n", name)
	}
	return text
}

// over waits until a Job is over.
func over(t *testing.T, w *apitest.World, id string) *work.Job {
	t.Helper()
	for deadline := time.Now().Add(apitest.Patience); ; <-time.After(10 * time.Millisecond) {
		job, err := w.Client.Job(context.Background(), id)
		w.Must(err)
		if job.Status.Terminal() {
			return job
		}
		if time.Now().After(deadline) {
			t.Fatalf("job %s is %s", id, job.Status)
		}
	}
}

// What a Job did is queued anew once it is over, not before, by who may, and not once its Module is gone.
func TestRetry(t *testing.T) {
	w := apitest.Start(t)
	ctx := context.Background()
	release := make(chan struct{})
	w.Runner("edge", func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepRun {
			select {
			case <-release:
			case <-s.Ctx.Done():
			}
		}
		return work.StepResult{}
	})
	w.Apply(scripts("vpc"))
	first, err := w.Client.SubmitJob(ctx, api.JobRequest{Module: "prod/network/vpc", Action: work.Run, Priority: work.PriorityHigh})
	w.Must(err)
	if _, err := w.Client.Retry(ctx, first.ID); fault.Code(err) != "job_not_over" || !strings.Contains(fault.Of(err).Message, "only a job that is over") || fault.Of(err).Hint == "" {
		t.Errorf("while it is under way: %v", err)
	}
	close(release)
	over(t, w, first.ID)
	again, err := w.Client.Retry(ctx, fmt.Sprint(first.Number))
	w.Must(err)
	if again.Number != first.Number+1 || again.ModuleID != first.ModuleID || again.Action != first.Action || again.Priority != work.PriorityHigh || again.Cause != "retry of job #1" {
		t.Errorf("%+v", again)
	}
	over(t, w, again.ID)
	viewer, stranger := w.ClientWith(w.TokenFor("default", catalog.RoleViewer)), w.ClientWith(w.TokenFor("other", catalog.RoleOwner))
	if _, err := viewer.Retry(ctx, first.ID); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a viewer: %v", err)
	}
	if _, err := stranger.Retry(ctx, first.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("another Organization: %v", err)
	}
	w.Must(w.Client.DeleteModule(ctx, "prod/network/vpc", true))
	if _, err := w.Client.Retry(ctx, first.ID); fault.Code(err) != "module_gone" {
		t.Errorf("of a Module that is gone: %v", err)
	}
}

func TestJobsAreFiltered(t *testing.T) {
	w := apitest.Start(t)
	ctx := context.Background()
	w.Runner("edge", func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	w.Apply(scripts("vpc", "dns"))
	for _, module := range []string{"vpc", "dns", "vpc"} {
		job, err := w.Client.SubmitJob(ctx, api.JobRequest{Module: "prod/network/" + module, Action: work.Run})
		w.Must(err)
		over(t, w, job.ID)
	}
	second, err := w.Client.Job(ctx, "2")
	w.Must(err)
	for want, query := range map[string]api.JobQuery{
		"[3 1]":   {Search: "VPC"},
		"[2]":     {Search: "#2"},
		"[3 2 1]": {Search: second.CreatedBy, Action: work.Run, Runner: "edge", Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)},
		"[]":      {Action: work.Apply},
		"[1]":     {Until: second.CreatedAt},
		"[3 2]":   {Since: second.CreatedAt},
	} {
		page, err := w.Client.Jobs(ctx, query)
		w.Must(err)
		got := []int64{}
		for _, j := range page.Items {
			got = append(got, j.Number)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%+v: %v, want %s", query, got, want)
		}
	}
	if _, err := w.Client.Jobs(ctx, api.JobQuery{Action: "dance"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an action that is none: %v", err)
	}
}
