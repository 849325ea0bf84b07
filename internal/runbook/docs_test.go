package runbook_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
	"legwork/internal/runbook"
)

// TestTheExampleOfTheDocs does what docs/RUNBOOKS.md says of its example.
func TestTheExampleOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/RUNBOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "deploy.yaml", Data: []byte(text)}})
	if err != nil || len(m.Runbooks) != 1 {
		t.Fatal(err, fault.Of(err).Details)
	}
	spec := m.Runbooks[0].Spec
	if problems := runbook.Problems(spec); len(problems) > 0 {
		t.Fatal(problems)
	}
	options, err := runbook.Resolve(spec.Options, map[string]any{"version": "v1.2"})
	if err != nil {
		t.Fatal(err)
	}
	list := nodes(12)
	for i := range list {
		list[i].Attributes = map[string]string{"rack": fmt.Sprint(12 - i)}
	}
	announce := catalog.RunbookSpec{Name: "announce", Options: []catalog.Option{{Name: "text"}, {Name: "urgent", Type: catalog.BooleanOption}}, Steps: []catalog.RunbookStep{cmd("say")}}
	p := compile(t, runbook.Input{Spec: spec, Options: options, Nodes: list, Runners: runners(t), Lookup: lookup(announce)})
	const want = "[{0 1 -1} {1 2 -1} {2 5 0} {2 5 1} {2 5 2} {2 5 3}] [[0] [1 2 3 4 5] [6 7 8] [9 10 11]] [deploy-key registry-token]"
	if got := fmt.Sprint(p.Rounds, p.Batches, p.Secrets); got != want || p.Items[4].Name != "note/say" {
		t.Fatal(got)
	}
	v := runbook.View{Item: p.Items[2], Scopes: p.Scopes, Node: &node.Node{Name: "web"}, Secrets: map[string]string{"registry-token": "t"},
		Results: map[string]runbook.Result{"build": {Values: map[string]string{"digest": "d"}}}}
	script, _, env, err := v.Script(*p.Items[2].Step.Script)
	if err != nil || env["REGISTRY_TOKEN"] != "t" || env["STEP_build_digest"] != "d" || !strings.Contains(script, `''"${NODE_NAME}"''`) {
		t.Fatal(script, env, err)
	}
}

// TestTheCopyExampleOfTheDocs checks the runbook in the section about files.
func TestTheCopyExampleOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/RUNBOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## Files\n")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "configure.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Runbooks) != 1 {
		t.Fatalf("got %d runbooks, want 1", len(m.Runbooks))
	}
	if problems := runbook.Problems(m.Runbooks[0].Spec); len(problems) > 0 {
		t.Error(problems)
	}
}
