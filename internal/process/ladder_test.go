//go:build linux

package process

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
	"legwork/internal/work"
)

func TestDeathBySignal(t *testing.T) {
	b := newBench(t)
	_, exit := b.run("signal", `kill -SEGV $$`)
	if exit.Code != -1 || exit.Signal != "SIGSEGV" || exit.Reason != ReasonSignaled {
		t.Fatalf("exit is %+v", exit)
	}
}

// short is for a rung that is climbed in any case.
const short = 10 * time.Millisecond

func TestLadder(t *testing.T) {
	loop := `echo ready; while :; do sleep 0.05; done`
	patient := Ladder{patience, patience}
	tests := []struct {
		name, script string
		grace        Ladder
		mode         StopMode
		code         int
		signal       string
		reason       string
		says         string
	}{
		{"ends on SIGINT", `trap 'echo bye; exit 7' INT; ` + loop, patient, Graceful, 7, "", ReasonCanceled, "bye"},
		{"dies of SIGINT", loop, patient, Graceful, -1, "SIGINT", ReasonCanceled, ""},
		{"ignores SIGINT", `trap '' INT; trap 'echo term; exit 8' TERM; ` + loop, Ladder{short, patience}, Graceful, 8, "", ReasonCanceled, "term"},
		{"ignores both", `trap '' INT TERM; ` + loop, Ladder{short, short}, Graceful, -1, "SIGKILL", ReasonCanceled, ""},
		{"is killed", `trap '' INT TERM; ` + loop, patient, Kill, -1, "SIGKILL", ReasonKilled, ""},
		{"is stopped first", `trap 'exit 9' INT; echo ready; kill -STOP $$; ` + loop, patient, Graceful, 9, "", ReasonCanceled, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			spec := shellSpec(b.dir, "command", test.script)
			spec.Grace = test.grace
			b.start(spec)
			b.printed(spec, "ready")
			for range 3 { // asking again changes nothing
				if err := b.client.Stop(b.ctx(), spec.ID, test.mode); err != nil && !fault.Is(err, fault.NotFound) {
					t.Fatal(err)
				}
			}
			exit := b.wait(spec)
			if exit.Code != test.code || exit.Signal != test.signal || exit.Reason != test.reason {
				t.Fatalf("exit is %+v", exit)
			}
			if !strings.Contains(b.text(spec, work.Stdout), test.says) {
				t.Fatalf("it printed %q", b.text(spec, work.Stdout))
			}
		})
	}
}

func TestKillAfterGraceful(t *testing.T) {
	b := newBench(t)
	spec := shellSpec(b.dir, "patient", `trap '' INT; echo ready; while :; do sleep 0.05; done`)
	spec.Grace = Ladder{Interrupt: time.Hour, Terminate: time.Hour}
	b.start(spec)
	b.printed(spec, "ready")
	if err := b.client.Stop(b.ctx(), spec.ID, Graceful); err != nil {
		t.Fatal(err)
	}
	b.until("its end has begun", func() bool {
		list, err := b.client.List(b.ctx())
		return err == nil && len(list) == 1 && list[0].Ending == ReasonCanceled
	})
	if err := b.client.Stop(b.ctx(), spec.ID, Kill); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(spec); exit.Reason != ReasonKilled || exit.Signal != "SIGKILL" {
		t.Fatalf("exit is %+v", exit)
	}
}

func TestTimeouts(t *testing.T) {
	b := newBench(t)
	tick := `trap 'exit 5' INT; while :; do echo tick; sleep 0.05; done`
	long := shellSpec(b.dir, "long", tick)
	long.Timeout = 6 * time.Second // a machine that stands still for five is no machine
	long.StallTimeout = 5 * time.Second
	silent := shellSpec(b.dir, "silent", `trap 'exit 6' INT; echo once; while :; do sleep 0.05; done`)
	silent.Timeout = time.Hour
	silent.StallTimeout = 3 * time.Second
	b.start(long)
	b.start(silent)
	if exit := b.wait(long); exit.Reason != ReasonTimeout || exit.Code != 5 {
		t.Fatalf("long: %+v", exit)
	}
	if exit := b.wait(silent); exit.Reason != ReasonStalled || exit.Code != 6 {
		t.Fatalf("silent: %+v", exit)
	}
}

func TestChildrenLeftBehind(t *testing.T) {
	tests := []struct {
		name, script string
		left         int
	}{
		{"one", `sleep 100 & echo $!`, 1},
		{"stubborn", `(trap '' TERM; echo $BASHPID; exec sleep 100) & sleep 0.2; true`, 1},
		{"two", `sleep 100 & echo $!; sleep 100 & echo $!`, 2},
		{"ends together", `(while read -r _ _ state _ </proc/$$/stat && [ "$state" != Z ]; do :; done) 2>/dev/null & echo $!`, 0}, // right after the program
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			spec, exit := b.run("parent", test.script)
			if exit.LeftBehind != test.left || exit.Code != 0 || exit.Reason != ReasonExited {
				t.Fatalf("exit is %+v", exit)
			}
			if got := b.text(spec, work.System); (got != "") != (test.left > 0) {
				t.Fatalf("the log says %q", got)
			}
			for _, pid := range strings.Fields(b.text(spec, work.Stdout)) {
				n, err := strconv.Atoi(pid)
				if err != nil {
					t.Fatal(err)
				}
				b.until("the child is gone", func() bool { return !living(n) })
			}
		})
	}
}

func living(pid int) bool {
	m, err := stat(pid)
	return err == nil && !m.dead
}

// A child that handles SIGINT is given the ladder's time although its parent is gone already.
func TestChildThatEndsInOrder(t *testing.T) {
	b := newBench(t)
	spec := shellSpec(b.dir, "parent", `(trap 'sleep 0.6; echo in order; exit' INT; trap 'echo hurried; exit' TERM
		echo ready; while :; do sleep 0.05; done) & trap 'exit 1' INT; while :; do sleep 0.05; done`)
	spec.Grace = Ladder{Interrupt: patience}
	b.start(spec)
	b.printed(spec, "ready")
	if err := b.client.Stop(b.ctx(), spec.ID, Graceful); err != nil {
		t.Fatal(err)
	}
	b.wait(spec)
	if got := b.text(spec, work.Stdout); got != "ready\nin order\n" {
		t.Fatalf("it printed %q", got)
	}
}

// A process that left the group keeps the pipes open for ever; that must not hold up the command.
func TestStrayHoldsThePipe(t *testing.T) {
	b := newBench(t)
	spec, exit := b.run("parent", `setsid sleep 1000 & echo $!`)
	pid, err := strconv.Atoi(strings.TrimSpace(b.text(spec, work.Stdout)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
	if exit.Code != 0 || exit.Finished.Sub(exit.Started) > patience {
		t.Fatalf("exit is %+v", exit)
	}
	if got := b.text(spec, work.System); !strings.Contains(got, "goes on") {
		t.Fatalf("the log says %q", got)
	}
}
