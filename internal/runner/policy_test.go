package runner

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

func TestPolicy(t *testing.T) {
	git := func(url string) *work.Spec {
		spec := scriptSpec("", false)
		spec.Source, spec.Script = catalog.Source{Type: catalog.Git, URL: url}, &catalog.ScriptSpec{File: "a.sh"}
		return spec
	}
	const url = "https://git.example.com/infra/net.git"
	with := func(spec *work.Spec, change func(*work.Spec)) *work.Spec {
		change(spec)
		return spec
	}
	hook := func(sp *work.Spec) { sp.Hooks = []catalog.Hook{{Task: "run", Phase: catalog.Before, Script: "x"}} }
	only := Policy{Sources: []string{"https://git.example.com/infra/*"}}
	for name, c := range map[string]struct {
		policy Policy
		spec   *work.Spec
		rule   string
	}{
		"nothing set":        {Policy{}, with(git("ssh://anything"), hook), ""},
		"engine":             {Policy{Engines: []catalog.Engine{catalog.OpenTofu}}, git(url), "AllowedEngines"},
		"engine allowed":     {Policy{Engines: []catalog.Engine{catalog.Script}}, git(url), ""},
		"source allowed":     {only, git(url), ""},
		"other source":       {only, git("https://evil.example.com/infra/net.git"), "AllowedSources"},
		"inline source":      {only, scriptSpec("x", false), "AllowedSources"},
		"inline allowed":     {Policy{Sources: []string{"inline"}}, scriptSpec("x", false), ""},
		"git, inline only":   {Policy{Sources: []string{"inline"}}, git(url), "AllowedSources"},
		"no source":          {only, with(scriptSpec("x", false), func(sp *work.Spec) { sp.Source = catalog.Source{} }), ""},
		"extra file":         {only, with(git(url), func(sp *work.Spec) { sp.ExtraFiles = []catalog.ExtraFile{{FileName: "x.tf"}} }), "AllowedSources"},
		"shell":              {Policy{Shells: []string{"sh"}}, git(url), "AllowedShells"},
		"shell allowed":      {Policy{Shells: []string{"bash"}}, with(git(url), hook), ""},
		"shell of a Hook":    {Policy{Shells: []string{"bash"}}, with(git(url), func(sp *work.Spec) { hook(sp); sp.Hooks[0].Shell = "sh" }), "AllowedShells"},
		"inline script":      {Policy{NoInlineScripts: true}, scriptSpec("x", false), "NoInlineScripts"},
		"script file":        {Policy{NoInlineScripts: true}, git(url), ""},
		"Hook, none allowed": {Policy{NoInlineScripts: true}, with(git(url), hook), "NoInlineScripts"},
	} {
		err := c.policy.check(work.StepRun, c.spec)
		if (err == nil) != (c.rule == "") || err != nil && (faultOf(err).Code != "policy_refused" || !strings.Contains(faultOf(err).Message, "Policy."+c.rule)) {
			t.Errorf("%s: got %v, want %q", name, err, c.rule)
		}
	}
}

// TestPolicyLooksAtWhatTheStepDoes has a Spec bear what belongs to Steps of another kind: the policy is not turned away by it.
func TestPolicyLooksAtWhatTheStepDoes(t *testing.T) {
	forbidden := func() *work.Spec { // by engine, source, shell, and as a text of the Server
		spec := scriptSpec("x", false)
		spec.Engine = catalog.Terraform
		spec.Hooks = []catalog.Hook{{Task: "apply", Phase: catalog.Before, Script: "x"}}
		return spec
	}
	run := func(sp *work.Spec) { sp.Run = &work.RunSpec{} }
	where := func(sp *work.Spec) { sp.Where = "file:///etc" }
	source := func(sp *work.Spec) { sp.NodeSource = &catalog.NodeSourceSpec{} }
	hook := func(sp *work.Spec) { sp.Hooks = []catalog.Hook{{Task: "round", Phase: catalog.Before, Script: "x"}} }
	script := func(sp *work.Spec) { sp.Script = &catalog.ScriptSpec{Run: "x"} }
	policies := map[string]Policy{"none": {}, "engines": {Engines: []catalog.Engine{catalog.Script}}, "sources": {Sources: []string{"https://git.example.com/**"}},
		"shells": {Shells: []string{"sh"}}, "scripts": {NoInlineScripts: true}}
	kinds := []work.StepKind{work.StepFetch, work.StepInit, work.StepValidate, work.StepPlan, work.StepPlanDestroy, work.StepApply, work.StepDestroy, work.StepOutput, work.StepRun}
	own := []work.StepKind{work.StepRound, work.StepListSecrets, work.StepDiscover}
	for name, c := range map[string]struct {
		part  func(*work.Spec)
		right []work.StepKind // the Steps that it belongs to
	}{
		"Run": {run, []work.StepKind{work.StepRound}}, "Where": {where, []work.StepKind{work.StepListSecrets}},
		"NodeSource": {source, []work.StepKind{work.StepDiscover, work.StepFetch}}, "Hooks": {hook, append(kinds, work.StepDiscover)},
		"Script": {script, append(kinds, work.StepDiscover)},
	} {
		for _, kind := range append(kinds, own...) {
			for which, policy := range policies {
				if slices.Contains(c.right, kind) {
					continue
				}
				spec := &work.Spec{Engine: catalog.Script}
				c.part(spec)
				if err := policy.check(kind, spec); err == nil || faultOf(err).Code != "policy_refused" {
					t.Errorf("%s in a step %s, policy %s: %v", name, kind, which, err)
				}
			}
		}
	}
	for which, policy := range policies {
		for _, kind := range append(kinds, work.StepDiscover) {
			if err := policy.check(kind, forbidden()); (err == nil) != (which == "none") {
				t.Errorf("a step %s, policy %s: %v", kind, which, err)
			}
		}
	}
	for kind, part := range map[work.StepKind]func(*work.Spec){work.StepRound: run, work.StepListSecrets: where, work.StepDiscover: source, work.StepFetch: source} {
		spec := &work.Spec{}
		part(spec)
		if err := (Policy{}).check(kind, spec); err != nil {
			t.Errorf("a step %s with what belongs to it: %v", kind, err)
		}
	}
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		glob, url string
		want      bool
	}{
		{"https://git.example.com/infra/*", "https://git.example.com/infra/a.git", true},
		{"https://git.example.com/infra/*", "HTTPS://Git.Example.COM/infra/a.git", true},
		{"https://git.example.com/infra/*", "https://git.example.com/infra/a/b.git", false},
		{"https://git.example.com/infra/**", "https://git.example.com/infra/a/b.git", true},
		{"https://git.example.com/infra/**", "https://git.example.com/infra/../other/b.git", false},
		{"https://git.example.com/infra/**", "https://git.example.com/infra/%2e%2e/other.git", false},
		{"https://git.example.com/infra/**", `https://git.example.com/infra/..\other.git`, false},
		{"https://git.example.com/**", "https://git.example.com.evil.org/a.git", false},
		{"https://git.example.com*", "https://git.example.com@evil.org/a.git", false},
		{"https://*.example.com/a", "https://evil.org/x.example.com/a", false},
		{"https://*.example.com/a", "https://x:y@b.example.com/a", false},
		{"https://*.example.com/a", "https://b.example.com/a", true},
		{"git@example.com:infra/*", "git@example.com:infra/a.git", true},
		{"git@example.com:infra/*", "git@example.com:infra/../a.git", false},
		{"git@example.com:infra/**", "git@example.com:../a.git", false},
		{"/srv/git/*", "/srv/git/a", true}, {"/srv/git/*", "/srv/gitx/a", false}, {"/srv/git/?", "/srv/git/a", true},
		{"https://a/b", "https://a/b\n", false}, {"**", "ssh://git@host/x", true}, {"https://a.b/c", "https://axb/c", false},
	} {
		if err := (Policy{Sources: []string{c.glob}}).CheckURL(c.url); (err == nil) != c.want {
			t.Errorf("%s against %s: %v", c.glob, c.url, err)
		}
	}
}

// FuzzCheckURL looks for a URL that a glob lets through although it begins otherwise.
func FuzzCheckURL(f *testing.F) {
	f.Add("https://git.example.com/infra/x")
	f.Add("https://git.example.com/infra/../x")
	f.Fuzz(func(t *testing.T, raw string) {
		p := Policy{Sources: []string{"https://git.example.com/infra/**"}}
		if p.CheckURL(raw) != nil {
			return
		}
		if !strings.HasPrefix(strings.ToLower(raw), "https://git.example.com/") || strings.Contains(raw, "/..") || strings.Contains(raw, "%") {
			t.Errorf("let through: %q", raw)
		}
	})
}

// TestPolicyDecidesBeforeAnythingRuns has the first Step refused, whose log says so and whose source is not fetched.
func TestPolicyDecidesBeforeAnythingRuns(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	cfg.Policy = Policy{NoInlineScripts: true}
	start(t, cfg)
	job := ref("job-1", 1)
	s.begin(job, scriptSpec("echo never", false), 0)
	got := s.result(job, 0)
	if got.Status != work.StepFailed || got.Failure.Code != "policy_refused" || got.Failure.Hint == "" {
		t.Fatalf("got %+v %+v", got, got.Failure)
	}
	if text := s.text(job, 0, work.System); !strings.Contains(text, "Policy.NoInlineScripts") {
		t.Errorf("the log says %q", text)
	}
	if exists(filepath.Join(cfg.WorkingDirectory, "modules", "module-1", "src", "data.txt")) {
		t.Error("the source was fetched")
	}
}
