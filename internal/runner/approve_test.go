package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// approvedRunner starts a Runner that runs approved scripts alone, and approves texts by writing them into its folder.
func approvedRunner(t *testing.T, s *fakeServer, variables ...string) func(texts ...string) {
	cfg := testConfig(t, s)
	cfg.Approval = Approval{Enabled: true, Dir: t.TempDir(), Variables: variables}
	start(t, cfg)
	n := 0
	return func(texts ...string) {
		for _, text := range texts {
			n++
			if err := os.WriteFile(filepath.Join(cfg.Approval.Dir, "any-name-"+string(rune('a'+n))), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func fileSpec(files map[string]string, name string) *work.Spec {
	spec := scriptSpec("", false)
	spec.Source = catalog.Source{Type: catalog.Inline, Files: files}
	spec.Script = &catalog.ScriptSpec{File: name}
	return spec
}

// TestApprovedFileIsRunAsItWasSeen has a Hook replace the script file between the look and the run.
func TestApprovedFileIsRunAsItWasSeen(t *testing.T) {
	s := newServer(t)
	approve := approvedRunner(t, s)
	swap := `echo 'echo swapped' > deploy/run.sh`
	approve("echo seen; cat data.txt", swap)
	spec := fileSpec(map[string]string{"deploy/run.sh": "echo seen; cat data.txt", "data.txt": "data\n"}, "deploy/run.sh")
	spec.Hooks = []catalog.Hook{{Task: "run", Phase: catalog.Before, Script: swap}}
	job := ref("job-1", 1)
	s.begin(job, spec, 1)
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v", got.Failure)
	}
	if got := s.text(job, 1, work.Stdout); got != "seen\ndata\n" {
		t.Errorf("it ran %q", got)
	}
}

func TestScriptFileThatIsNotApproved(t *testing.T) {
	s := newServer(t)
	approve := approvedRunner(t, s)
	approve("echo good")
	for name, spec := range map[string]*work.Spec{
		"other":   fileSpec(map[string]string{"a.sh": "echo good\n"}, "a.sh"),
		"extra":   fileSpec(map[string]string{"a.txt": ""}, "a.sh"),
		"missing": fileSpec(map[string]string{"a.txt": ""}, "b.sh"),
		"outside": fileSpec(map[string]string{"a.txt": ""}, "../../../../etc/hostname"),
	} {
		spec.ModuleID = name
		spec.ExtraFiles = []catalog.ExtraFile{{FileName: "a.sh", Contents: "echo bad"}}
		if name == "other" {
			spec.ExtraFiles = nil
		}
		job := ref(name, 1)
		s.begin(job, spec, 1)
		want := "script_not_approved"
		if name == "missing" || name == "outside" {
			want = "script_file"
		}
		if got := s.result(job, 1); got.Status != work.StepFailed || got.Failure.Code != want || s.text(job, 1, work.Stdout) != "" {
			t.Errorf("%s: got %+v %+v", name, got, got.Failure)
		}
	}
}

// TestVariablesThatRunCode passes an approved script the variables with which a shell runs something else.
func TestVariablesThatRunCode(t *testing.T) {
	s := newServer(t)
	const script = "echo fine"
	approve := approvedRunner(t, s, "PS1", "color", "AWS_*")
	approve(script)
	evil := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(evil, []byte("echo evil\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, refused := range map[string]bool{
		"BASH_ENV": true, "BASH_FUNC_echo%%": true, "SHELLOPTS": true, "PS4": true, "PATH": true, "LD_PRELOAD": true, "ld_preload": true,
		"AWS_CONFIG_FILE": true, "other": true, "a b": true, "": true, "color": false, "PS1": false, "AWS_REGION": false,
	} {
		n++
		spec := scriptSpec(script, false)
		spec.Inputs = []work.InputValue{{Name: name, Kind: catalog.Env, Value: []byte(`"` + evil + `"`)}}
		job := ref(fmt.Sprint("job-", n), 1)
		s.begin(job, spec, 1)
		got := s.result(job, 1)
		switch {
		case refused && (got.Status != work.StepFailed || got.Failure.Code != "variable_not_approved" && got.Failure.Code != "bad_input"):
			t.Errorf("%q was let through: %+v %+v", name, got, got.Failure)
		case !refused && got.Status != work.StepSucceeded:
			t.Errorf("%q was refused: %+v", name, got.Failure)
		case strings.Contains(s.text(job, 1, work.Stdout), "evil"):
			t.Errorf("%q ran other code", name)
		}
	}
}

func TestVariablesWithoutAList(t *testing.T) {
	ok := []work.InputValue{{Name: "anything", Kind: catalog.Env}, {Name: "PATH", Kind: catalog.Parameter}}
	if err := checkVariables(ok, nil); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"BASH_ENV", "MY_PAGER", "PYTHONPATH", "TF_CLI_ARGS", "1x", "x-y"} {
		if err := checkVariables([]work.InputValue{{Name: name, Kind: catalog.Env}}, nil); faultOf(err).Code != "variable_not_approved" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSameShell(t *testing.T) {
	for _, c := range []struct {
		text, shell string
		ok          bool
	}{
		{"echo", "", true}, {"echo", "sh", true},
		{"#!/bin/bash\necho", "", true}, {"#!/usr/bin/env bash\n", "bash", true}, {"#!/usr/bin/env -S bash -x\n", "bash", true},
		{"#!/bin/sh\n", "sh", true}, {"#! /bin/sh -e\n", "sh", true},
		{"#!/bin/bash\n", "sh", false}, {"#!/bin/sh\n", "", false}, {"#!/usr/bin/python3\n", "bash", false}, {"#!\n", "bash", false}, {"#!/usr/bin/env\n", "bash", false},
	} {
		if err := sameShell(foreignScript{"it", c.shell, []byte(c.text)}); (err == nil) != c.ok {
			t.Errorf("%q in %q: %v", c.text, c.shell, err)
		}
	}
}

// TestApprovalOutlivesARestart takes the approval away while the script runs and the Runner is replaced: what is
// under way ends as it would have.
func TestApprovalOutlivesARestart(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	cfg.Approval = Approval{Enabled: true, Dir: t.TempDir()}
	approved := filepath.Join(cfg.Approval.Dir, "x")
	if err := os.WriteFile(approved, []byte(counting), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, cfg)
	job := ref("job-1", 1)
	s.begin(job, fileSpec(map[string]string{"run.sh": counting}, "run.sh"), 1)
	s.sees(job, 1, "line 50\n")
	r.leave(t)
	if err := os.Remove(approved); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	if got := s.result(job, 1); got.Status != work.StepSucceeded {
		t.Fatalf("got %+v", got.Failure)
	}
	wantCounting(t, s, job)
}

func TestApproverFollowsLinksAndSkipsWhatIsNoFile(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(data, "script"), []byte("linked"), 0o600),
		os.Symlink(filepath.Join(data, "script"), filepath.Join(dir, "script")),
		os.Symlink(data, filepath.Join(dir, "..data")),
		os.Symlink("nowhere", filepath.Join(dir, "broken")),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
		os.WriteFile(filepath.Join(dir, "large"), make([]byte, maxApproved+1), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a := newApprover(Approval{Enabled: true, Dir: dir})
	if err := a.check("it", []byte("linked")); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "x", string(make([]byte, maxApproved+1))} {
		if err := a.check("it", []byte(text)); faultOf(err).Code != "script_not_approved" {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

// TestApproverSeesAQuickChange changes a file to another text of the same length and puts its time back.
func TestApproverSeesAQuickChange(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	a := newApprover(Approval{Enabled: true, Dir: dir})
	for range 50 {
		put("one")
		if err := a.check("it", []byte("one")); err != nil {
			t.Fatal(err)
		}
		put("two")
		if err := a.check("it", []byte("one")); err == nil {
			t.Fatal("what was replaced is still approved")
		}
	}
}
