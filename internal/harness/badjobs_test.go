package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// declare applies Stack s, Namespace n and one Module m on Runner edge-1 with the given body.
func declare(s *harness.Server, name, body string) {
	s.Apply(fmt.Sprintf("kind: Stack\nname: s\n---\nkind: Namespace\nstack: s\nname: n\n---\nkind: Module\nstack: s\nnamespace: n\nname: %s\nrunner: edge-1\n%s", name, body))
}

func tofu(code string) string {
	return "engine: opentofu\nsource:\n  type: inline\n  files:\n    main.tf: |\n      " + strings.ReplaceAll(strings.TrimSpace(code), "\n", "\n      ") + "\n"
}

func script(run string) string {
	return "engine: script\nsource: {type: inline, files: {readme: x}}\nscript:\n  run: |\n    " + strings.ReplaceAll(strings.TrimSpace(run), "\n", "\n    ") + "\n"
}

// TestJobsThatFail runs what cannot work and checks that each Job says why, in a code and a sentence.
func TestJobsThatFail(t *testing.T) {
	url, _ := repository(t, map[string]string{"there/main.tf": ""})
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	git := func(url, rest string) string {
		return fmt.Sprintf("engine: opentofu\nsource: {type: git, url: %q%s}\n", url, rest)
	}
	for name, c := range map[string]struct {
		body, action, code string
		step               work.StepKind
		hint               bool
	}{
		"url":       {git("file:///nowhere/at/all", ""), "apply", "source_not_found", work.StepFetch, true},
		"revision":  {git(url, ", revision: nowhere"), "apply", "revision_not_found", work.StepFetch, true},
		"subdir":    {git(url, ", subdirectory: elsewhere"), "apply", "subdirectory_missing", work.StepFetch, true},
		"code":      {tofu(`resource "terraform_data" "x" { nonsense = 1 }`), "apply", "", work.StepValidate, true},
		"syntax":    {tofu(`resource {`), "apply", "", work.StepInit, true},
		"plan":      {tofu("variable \"without_a_value\" {}"), "apply", "", work.StepPlan, true},
		"apply":     {tofu("resource \"terraform_data\" \"x\" {\n  provisioner \"local-exec\" {\n    command = \"exit 3\"\n  }\n}"), "apply", "", work.StepApply, true},
		"hook":      {tofu(`output "x" { value = 1 }`) + "hooks: [{task: init, phase: before, script: 'echo no; exit 9'}]\n", "apply", "hook_failed", work.StepInit, true},
		"exit":      {script("exit 7"), "run", "", work.StepRun, true},
		"unset":     {script("echo $not_set_at_all"), "run", "", work.StepRun, true},
		"pipe":      {script("false | true"), "run", "", work.StepRun, true},
		"signal":    {script("kill -SEGV $$"), "run", "", work.StepRun, true},
		"extrafile": {tofu(`output "x" { value = 1 }`) + "extra_files: [{file_name: main.tf, contents: ''}]\n", "apply", "file_exists", work.StepFetch, true},
	} {
		t.Run(name, func(t *testing.T) {
			declare(s, name, c.body)
			j := s.Ends(s.Submit(c.action, "s/n/"+name), work.Failed)
			if j.Failure == nil || j.Failure.Message == "" || (c.code != "" && j.Failure.Code != c.code) {
				t.Fatalf("failure %+v, want code %q", j.Failure, c.code)
			}
			quoted := j.Failure.Excerpt != nil && len(j.Failure.Excerpt.Lines) > 0
			if c.hint && j.Failure.Hint == "" && !quoted {
				t.Fatalf("failure %+v has neither a hint nor lines of the log", j.Failure)
			}
			for _, st := range j.Steps {
				if (st.Status == work.StepFailed) != (st.Kind == c.step) {
					t.Fatalf("step %s is %s, want %s to fail", st.Kind, st.Status, c.step)
				}
			}
			if j.Attempt != 1 {
				t.Fatalf("tried %d times", j.Attempt)
			}
		})
	}
	t.Run("exit status of the command line", func(t *testing.T) {
		if r := s.Try("module", "run", "s/n/exit"); r.Status != 1 || !strings.Contains(r.Err, "7") {
			t.Fatalf("status %d: %s", r.Status, r.Err)
		}
	})
}

func TestEngineMissingIsSaidBeforeTheJobStarts(t *testing.T) {
	s := harness.StartServer(t)
	s.StartRunner("edge-1", func(m map[string]any) { delete(m, "Engine") })
	declare(s, "m", tofu(`output "x" { value = 1 }`))
	id := s.Submit("apply", "s/n/m")
	harness.Eventually(t, "the job says which engine is missing", func() bool {
		return s.Job(id).Wait.Code == work.WaitEngineMissing
	})
	if j := s.Job(id); j.Attempt != 0 || !strings.Contains(j.Wait.Text, "opentofu") {
		t.Fatalf("%+v", j.Wait)
	}
	s.Do("job", "cancel", id)
	s.Ends(id, work.Canceled)
}

func TestChildrenLeftBehindAreEnded(t *testing.T) {
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	file := filepath.Join(t.TempDir(), "child")
	declare(s, "m", script(fmt.Sprintf("sleep 1000 &\necho $! > %s\necho over", file)))
	s.Ends(s.Submit("run", "s/n/m"), work.Succeeded)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the child is gone", func() bool {
		_, err := os.Stat("/proc/" + strings.TrimSpace(string(b)))
		return os.IsNotExist(err)
	})
}

func TestOutputOfAllKinds(t *testing.T) {
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	declare(s, "m", script(`
printf '\377\376 binary \001\n'
head -c 10000000 /dev/zero | tr '\0' y; echo
printf 'no newline at the end'
`))
	id := s.Submit("run", "s/n/m")
	s.Ends(id, work.Succeeded)
	log := s.Do("job", "logs", id, "--raw")
	if !strings.Contains(log, "\xff\xfe binary \x01\n") || strings.Count(log, "y") < 10000000 || !strings.Contains(log, "no newline at the end") {
		t.Fatalf("%d bytes", len(log))
	}
	if !strings.Contains(log, strings.Repeat("y", 10000000)) {
		t.Fatal("the line of 10 MB is not in one piece")
	}
}

func TestSecretsAreMaskedAndNeverOnTheDisk(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1")
	declare(s, "m", script("echo the secret is $PASSWORD, again ${PASSWORD}; printf '%s' \"$PASSWORD\" | base64")+
		"inputs: [{name: PASSWORD, kind: env, value: "+secret+", sensitive: true}]\n")
	id := s.Submit("run", "s/n/m")
	s.Ends(id, work.Succeeded)
	if log := s.Log(id); strings.Contains(log, secret) || strings.Contains(log, "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5") || !strings.Contains(log, "the secret is ***") {
		t.Fatalf("log:\n%s", log)
	}
	nowhere(t, r.Dir, secret)
}

func TestCancel(t *testing.T) {
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	for _, c := range []struct {
		mode, run string
		want      work.Status
	}{
		{"graceful", "trap 'echo interrupted; exit 3' INT\necho ready\nwhile :; do read -rt 0.05 <> <(:) || :; done", work.Canceled},
		{"kill", "trap '' INT TERM\necho ready\nwhile :; do read -rt 0.05 <> <(:) || :; done", work.Canceled},
		{"graceful", "trap 'echo interrupted; exit 0' INT\necho ready\nwhile :; do read -rt 0.05 <> <(:) || :; done", work.Succeeded},
	} {
		name := "m" + c.mode + string(c.want[0])
		declare(s, name, script(c.run))
		id := s.Submit("run", "s/n/"+name)
		s.Says(id, "ready")
		s.Do("job", "cancel", id, "--mode", c.mode)
		s.Ends(id, c.want)
		if log := s.Log(id); c.mode == "graceful" && !strings.Contains(log, "interrupted") {
			t.Fatalf("the script was not interrupted:\n%s", log)
		}
	}
}

func TestAfterCurrentLetsTheStepEnd(t *testing.T) {
	s := harness.StartServer(t)
	s.StartRunner("edge-1")
	gate := filepath.Join(t.TempDir(), "gate")
	declare(s, "m", tofu(`output "x" { value = 1 }`)+
		fmt.Sprintf("hooks: [{task: init, phase: after, script: 'echo ready; until [ -e %s ]; do read -rt 0.05 <> <(:) || :; done'}]\n", gate))
	id := s.Submit("apply", "s/n/m")
	s.Says(id, "ready")
	s.Do("job", "cancel", id, "--mode", "after-current")
	if j := s.Job(id); j.Status != work.Canceling {
		t.Fatalf("the job is %s", j.Status)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := s.Ends(id, work.Canceled)
	if j.Steps[1].Status != work.StepSucceeded || j.Steps[2].Status != work.StepSkipped {
		t.Fatalf("%+v", j.Steps)
	}
}
