package ecs

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// TestThroughTheProcess goes the way of a Job: the Engine writes the task down, and a process performs it with what it finds in its
// environment. Neither token nor key stands in a file or in what the process says.
func TestThroughTheProcess(t *testing.T) {
	c := newCloud(t)
	b := c.bench()
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	task.Version = "1.2.3"
	dir := t.TempDir()
	kinds := launcher.Kinds{catalog.LaunchECS: New}
	e := launcher.NewEngine(launcher.Host{Dir: filepath.Join(dir, "launcher"), Program: "legwork"})
	var said bytes.Buffer
	for _, step := range []work.StepKind{work.StepCheck, work.StepPrepare, work.StepLaunch} {
		spec := &work.Spec{Task: task, Inputs: []work.InputValue{
			{Name: launcher.UnitEnv + "PASSWORD", Kind: catalog.Env, Value: []byte(`"hunter2"`), Sensitive: true},
		}}
		w := engine.Workspace{JobDir: dir, Spec: spec}
		command, _, err := e.Command(t.Context(), step, w)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range command.Env {
			name, value, _ := strings.Cut(entry, "=")
			t.Setenv(name, value)
		}
		if status := kinds.Main(t.Context(), command.Argv[len(command.Argv)-1], &said); status != 0 {
			t.Fatalf("%s: %d\n%s", step, status, said.String())
		}
		result, err := e.Result(t.Context(), step, w, engine.Exit{Reason: engine.ReasonExited})
		if err != nil || result.Status != work.StepSucceeded {
			t.Fatalf("%s: %+v %v", step, result, err)
		}
		if step == work.StepLaunch && (len(result.Units) != 1 || result.Units[0].Name != "cloud-00000001" || result.Units[0].ID != c.tasks[0].arn) {
			t.Errorf("units: %+v", result.Units)
		}
	}
	if env := c.taskOf("cloud-00000001").env; env["PASSWORD"] != "hunter2" || env["LEGWORK_RUNNER__REGISTRATIONTOKEN"] != "token-of-cloud-00000001" {
		t.Errorf("the task is told %v", env)
	}
	if !slices.Contains(strings.Split(said.String(), "\n"), "works in eu-central-1 as arn:aws:iam::123456789012:user/launcher") {
		t.Errorf("said:\n%s", said.String())
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	texts := map[string]string{"what was said": said.String()}
	for _, name := range files {
		text, _ := os.ReadFile(name)
		texts[filepath.Base(name)] = string(text)
	}
	for name, text := range texts {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "token-of-") {
			t.Errorf("a secret stands in %s:\n%s", name, text)
		}
	}
	if len(texts) != 7 {
		t.Errorf("%d texts were looked at", len(texts))
	}
}
