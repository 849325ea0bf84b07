//go:build linux

package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"legwork/internal/launcher/launchertest"
	"legwork/internal/work"
)

// journal writes the journal of a Job into the folder of a Unit.
func (p *place) journal(t *testing.T, task *work.RunnerTask, unit string) string {
	t.Helper()
	file := filepath.Join(p.open(t).folder(task), unit, workFolder, "jobs", "j.1", "journal")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// lostTask is a cleanup after the loss of a Unit.
func lostTask(b *launchertest.Bench, unit string) *work.RunnerTask {
	task := b.Task("owner", "cloud")
	task.Asked, task.Known, task.Lost = time.Now(), []string{unit}, []work.Unit{{Name: unit, Token: "used"}}
	return task
}

// TestResume starts a process again that ended with unreported work, in the same folder, a few times.
func TestResume(t *testing.T) {
	p := newPlace(t)
	const unit = "cloud-00000001"
	task := p.bench().Task("owner", "cloud", unit)
	if _, err := p.open(t).Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	journal := p.journal(t, task, unit)
	for n := range maxResumes + 1 {
		p.kill(t, unit)
		if _, err := p.open(t).List(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(journal); err != nil {
			t.Fatalf("a list removed the journal of an open job: %v", err)
		}
		want := work.UnitRunning
		if n == maxResumes {
			want = work.UnitStopped
		}
		reports, err := p.open(t).Resume(t.Context(), lostTask(p.bench(), unit))
		if err != nil || len(reports) != 1 || reports[0].State != want {
			t.Fatalf("resume %d: got %+v, %v, want %s", n+1, reports, err, want)
		}
	}
}

// TestForgottenWork deletes the work of a Unit once the Server has closed its record, and not before.
func TestForgottenWork(t *testing.T) {
	p := newPlace(t)
	const unit = "cloud-00000001"
	task := p.bench().Task("owner", "cloud", unit)
	if _, err := p.open(t).Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	journal := p.journal(t, task, unit)
	p.kill(t, unit)
	tidy := lostTask(p.bench(), unit)
	if _, err := p.open(t).List(t.Context(), tidy); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(journal); err != nil {
		t.Fatalf("while the server knows the unit: got %v, want its journal", err)
	}
	tidy.Known, tidy.Lost = nil, nil
	if _, err := p.open(t).List(t.Context(), tidy); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(journal); !os.IsNotExist(err) {
		t.Fatalf("after the server closed its record: got %v, want no journal", err)
	}
}

// TestResumeStartsNothingElse leaves alone what runs, what reported everything, and what was never there.
func TestResumeStartsNothingElse(t *testing.T) {
	p := newPlace(t)
	task := p.bench().Task("owner", "cloud", "cloud-00000001", "cloud-00000002")
	if _, err := p.open(t).Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	p.kill(t, "cloud-00000002")
	lost := p.bench().Task("owner", "cloud")
	for _, name := range []string{"cloud-00000001", "cloud-00000002", "cloud-00000003"} {
		lost.Lost = append(lost.Lost, work.Unit{Name: name})
	}
	reports, err := p.open(t).Resume(t.Context(), lost)
	if err != nil || len(reports) != 2 || reports[0].State != work.UnitRunning || reports[1].State != work.UnitStopped {
		t.Fatalf("got %+v, %v, want the first running and the second stopped", reports, err)
	}
	if found := p.processes(t); len(found) != 1 {
		t.Fatalf("processes: got %v, want that of the first unit", found)
	}
}
