package boot

import (
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/runner"
)

func TestPolicySettings(t *testing.T) {
	s, err := LoadRunnerSettings(Layers{Environ: complete(
		"Policy__AllowedEngines=opentofu,script", "Policy__AllowedSources=inline,https://git.example.com/**", "Policy__AllowedShells__0=sh", "Policy__NoInlineScripts=true",
		"HooksPreapproval__AllowedVariables=AWS_*,PATH")})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Policy.policy()
	if len(p.Engines) != 2 || p.Engines[1] != catalog.Script || len(p.Sources) != 2 || len(p.Shells) != 1 || !p.NoInlineScripts {
		t.Errorf("got %+v", p)
	}
	if p.CheckURL("https://git.example.com/a/b") != nil || p.CheckURL("https://example.com/a/b") == nil {
		t.Error("the sources do not reach the policy")
	}
	if p := DefaultRunnerSettings().Policy.policy(); len(p.Engines)+len(p.Sources)+len(p.Shells) != 0 || p.NoInlineScripts {
		t.Errorf("the policy is not off by default: %+v", p)
	}
	_, err = LoadRunnerSettings(Layers{Environ: complete(
		"Policy__AllowedEngines=cobol", "Policy__AllowedSources=*", "Policy__AllowedShells=zsh", "HooksPreapproval__AllowedVariables=[")})
	if got := problems(t, err); len(got) != 4 {
		t.Errorf("got %q", got)
	}
}

func TestPruneSettings(t *testing.T) {
	s, err := LoadRunnerSettings(Layers{Environ: complete("WorkingDirectory__MaxAgeDays=2", "WorkingDirectory__MaxSizeMiB=3", "WorkingDirectory__PruneLocalState=true")})
	if want := (runner.Prune{MaxAge: 48 * time.Hour, MaxBytes: 3 << 20, LocalState: true}); err != nil || s.WorkingDirectory.prune() != want {
		t.Errorf("got %+v %v", s.WorkingDirectory.prune(), err)
	}
	if p := DefaultRunnerSettings().WorkingDirectory.prune(); p.MaxAge != 30*24*time.Hour || p.MaxBytes != 0 || p.LocalState {
		t.Errorf("default: %+v", p)
	}
}
