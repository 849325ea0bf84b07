package nodes

import (
	"bytes"
	"context"
	"path/filepath"
	"reflect"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

type playbookFunc func(ctx context.Context, run engine.PlaybookRun) error

func (f playbookFunc) Perform(ctx context.Context, run engine.PlaybookRun) error { return f(ctx, run) }

// TestPlaybook has a playbook say something of two Nodes out of three.
func TestPlaybook(t *testing.T) {
	item := runbook.Item{Name: "site", Kind: runbook.AnsibleItem, Step: catalog.RunbookStep{Each: catalog.EachRunner, Ansible: &catalog.AnsibleStep{
		Playbook: "site.yml", ExtraVars: map[string]any{"to": "${option.word}"},
	}}}
	f := file(t, 3, item)
	f.Run.Scopes[0].Values["word"], f.Run.OnFailure = "prod", catalog.ContinueOnFailure
	path := filepath.Join(t.TempDir(), "round")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	x := Executor{
		Transport: func(*File, map[string]string, []string) (Transport, error) { return newMemory(nil), nil },
		Playbook: playbookFunc(func(_ context.Context, run engine.PlaybookRun) error {
			if len(run.Nodes) != 3 || run.Vars["to"] != "prod" {
				t.Errorf("got %+v", run)
			}
			_, _ = run.Log(1, work.Stdout).Write([]byte("changed\n"))
			run.Emit(0, work.NodeEvent{Status: work.NodeSucceeded, Detail: "ok 1"})
			run.Emit(1, work.NodeEvent{Status: work.NodeFailed, Failure: &work.Failure{Code: "playbook_failed", Message: "no"}})
			return nil
		}),
	}
	var out bytes.Buffer
	if code := x.run(t.Context(), path, nil, &out, nil); code != 0 {
		t.Fatal(out.String())
	}
	d := readFrames(t, out.Bytes())
	if d.status(0, 0) != work.NodeSucceeded || d.status(1, 0) != work.NodeFailed || d.status(2, 0) != work.NodeSkipped || d.status(once, 0) != work.NodeSucceeded {
		t.Errorf("got %v", d.events)
	}
	got, _, _ := ReadResult(path)
	got.Spans = nil // tested on its own
	if !reflect.DeepEqual(got, work.RoundResult{Succeeded: 2, Bad: []int{1}}) {
		t.Errorf("got %+v", got)
	}
	if d.text(work.Stdout) != "changed\n" {
		t.Errorf("the log says %q", d.text(work.Stdout))
	}
}

// TestPlaybookThatIsSkipped has a playbook whose condition is false. The step is skipped as a whole, too.
func TestPlaybookThatIsSkipped(t *testing.T) {
	f := file(t, 2, runbook.Item{Name: "site", Kind: runbook.AnsibleItem, Step: catalog.RunbookStep{
		Each: catalog.EachRunner, Ansible: &catalog.AnsibleStep{Playbook: "site.yml"}, When: "1 == 2",
	}})
	d := perform(t, f, newMemory(nil))
	for _, n := range []int{once, 0, 1} {
		if got := d.status(n, 0); got != work.NodeSkipped {
			t.Errorf("node %d: got %s, want %s", n, got, work.NodeSkipped)
		}
	}
}
