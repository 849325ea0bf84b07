//go:build linux

package script

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"legwork/internal/launcher"
	"legwork/internal/process"
	"legwork/internal/work"
)

// TestMain lets this program play a runner, which hides its environment and its memory as a real one does.
func TestMain(m *testing.M) {
	if !slices.Equal(os.Args[1:], []string{"runner", "start"}) {
		os.Exit(m.Run())
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	_, err := process.WithoutSettings(launcher.IsSetting)
	if err == nil {
		err = process.KeepPrivate()
	}
	if err == nil {
		err = os.WriteFile("private", nil, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-asked
	os.Exit(0)
}

// TestExampleWithAPrivateProcess lists and stops a process that hides its environment, as every runner does.
func TestExampleWithAPrivateProcess(t *testing.T) {
	b := bench(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.Hosting.Exec.Run = strings.Replace(b.Hosting.Exec.Run, "sleep 600", self+" runner start", 1)
	l, task := b.Open(t), b.Task("owner", "cloud", "cloud-1")
	if _, err := l.Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(b.Left(t)[0], "cloud-1")
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	late, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for private := false; !private; {
		_, err := os.Stat(filepath.Join(dir, "work", "private"))
		private = err == nil
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the process does not hide its environment")
		}
	}
	reports, err := l.List(t.Context(), task)
	if err != nil || len(reports) != 1 || reports[0].State != work.UnitRunning {
		t.Fatalf("list: got %+v, %v, want cloud-1 running", reports, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "work", "private")); err != nil {
		t.Errorf("a list touched the working directory of a live process: %v", err)
	}
	if err := l.Stop(t.Context(), task, []string{"cloud-1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Identify(pid); err == nil {
		t.Errorf("process %d is alive after a stop", pid)
	}
}
