//go:build linux

package process

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
)

// The keeper is killed. Its command is found by its start record, is not started twice, and is ended.
func TestOrphan(t *testing.T) {
	b := newBench(t)
	spec := b.start(shellSpec(b.dir, "orphan", `sleep 100 & echo ready; wait`))
	b.printed(spec, "ready")
	if o, ok, err := FindOrphan(spec.StartFile); err != nil || !ok || !o.Alive || o.ID != spec.ID || len(o.Pids) != 2 {
		t.Fatalf("found %+v, %v, %v", o, ok, err)
	}
	pid, _ := b.client.Keeper()
	_ = unix.Kill(pid, unix.SIGKILL)
	if _, err := b.client.Wait(b.ctx(), spec.ID, spec.ExitFile); !fault.Is(err, fault.NotFound) {
		t.Fatalf("waiting for an orphan: %v", err)
	}
	if next, _ := b.client.Keeper(); next == pid {
		t.Fatal("no new keeper was started")
	}
	if err := b.client.Start(b.ctx(), spec); fault.Code(err) != codeOrphaned {
		t.Fatalf("starting an orphan again: %v", err)
	}
	left, err := EndOrphan(b.ctx(), spec.StartFile, Ladder{Interrupt: short, Terminate: patience}) // the child of a shell heeds no SIGINT
	if err != nil || left != 2 {
		t.Fatalf("ended %d, %v", left, err)
	}
	if o, ok, err := FindOrphan(spec.StartFile); err != nil || !ok || o.Alive {
		t.Fatalf("found %+v, %v, %v", o, ok, err)
	}
	if _, ok, err := FindOrphan(filepath.Join(b.dir, "nothing")); ok || err != nil {
		t.Fatalf("found something, %v", err)
	}
}

// A record of a process whose number belongs to another one now finds nothing.
func TestOrphanIsNotAStranger(t *testing.T) {
	me, err := stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "start")
	right := startRecord{ID: "x", Pid: me.pid, Pgid: me.group, Session: me.session, Birth: me.birth, Boot: bootID()}
	for name, change := range map[string]func(*startRecord){
		"older process": func(r *startRecord) { r.Birth += 1 << 40 },
		"other session": func(r *startRecord) { r.Session++ },
		"other boot":    func(r *startRecord) { r.Boot = "another" },
	} {
		r := right
		change(&r)
		_ = os.Remove(path)
		if err := claimed(path, r); err != nil {
			t.Fatal(err)
		}
		if o, ok, err := FindOrphan(path); err != nil || !ok || o.Alive {
			t.Fatalf("%s: found %+v, %v, %v", name, o, ok, err)
		}
	}
}

// The keeper died before it could write the process number: the environment tells.
func TestOrphanWithoutANumber(t *testing.T) {
	b := newBench(t)
	spec := b.start(shellSpec(b.dir, "marked", `echo ready; exec sleep 100`))
	b.printed(spec, "ready")
	path := filepath.Join(b.dir, "claimed")
	if err := claimed(path, startRecord{ID: "marked", Boot: bootID()}); err != nil {
		t.Fatal(err)
	}
	o, ok, err := FindOrphan(path)
	if err != nil || !ok || !o.Alive || len(o.Pids) != 1 {
		t.Fatalf("found %+v, %v, %v", o, ok, err)
	}
}

// claimed writes a start record that nobody completes.
func claimed(path string, r startRecord) error {
	file, err := claimStart(path, r, (*Spares)(nil).create)
	if err != nil {
		return err
	}
	return file.Close()
}
