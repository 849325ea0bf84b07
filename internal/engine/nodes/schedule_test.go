package nodes

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		strategy    catalog.Strategy
		concurrency int
		took        time.Duration
		most        int
		begun       string // of the first pairs
	}{
		{catalog.NodeFirst, 1, 6 * time.Second, 1, "web-0 one,web-0 two,web-1 one,web-1 two"},
		{catalog.NodeFirst, 3, 2 * time.Second, 3, ""},
		{catalog.Parallel, 6, time.Second, 6, ""},
		{catalog.Parallel, 2, 3 * time.Second, 2, ""},
	} {
		t.Run(fmt.Sprint(c.strategy, c.concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := file(t, 3, command("one"), command("two"))
				f.Run.Strategy, f.Run.Concurrency = c.strategy, c.concurrency
				began := time.Now()
				d := perform(t, f, newMemory(func(ctx context.Context, _ string, _ Command) (Result, error) {
					return takes(ctx, time.Second, Result{})
				}))
				if took := time.Since(began); took != c.took || d.memory.most != c.most {
					t.Errorf("took %s with %d at once", took, d.memory.most)
				}
				if got := strings.Join(d.memory.begun, ","); !strings.HasPrefix(got, c.begun) {
					t.Errorf("begun %s", got)
				}
				if d.Succeeded != 3 || d.NotRun != 0 || len(d.Bad) != 0 || len(d.memory.begun) != 6 {
					t.Errorf("got %+v", d.RoundResult)
				}
				if e := d.events[pairKey{0, 0}]; len(e) != 2 || e[0].Status != work.NodeRunning || e[1].Status != work.NodeSucceeded || e[1].Tries != 1 {
					t.Errorf("got %+v", e)
				}
			})
		})
	}
}

func TestFailuresStopOrAreBorne(t *testing.T) {
	for _, c := range []struct {
		most      int
		onFailure catalog.OnFailure
		want      work.RoundResult
	}{
		{0, catalog.StopOnFailure, work.RoundResult{Succeeded: 1, Bad: []int{1}, BadAt: []int{0}, NotRun: 4}},
		{1, catalog.StopOnFailure, work.RoundResult{Succeeded: 2, Bad: []int{1, 3}, BadAt: []int{0, 0}, NotRun: 2}},
		{0, catalog.ContinueOnFailure, work.RoundResult{Succeeded: 3, Bad: []int{1, 3, 5}, BadAt: []int{0, 0, 0}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := file(t, 6, command("one"), command("two"))
			f.Run.Concurrency, f.Round.MaxFailures, f.Run.OnFailure = 1, c.most, c.onFailure
			d := perform(t, f, newMemory(func(_ context.Context, at string, _ Command) (Result, error) {
				if at == "web-1" || at == "web-3" || at == "web-5" {
					return Result{Began: true, ExitCode: 3}, nil
				}
				return Result{Began: true}, nil
			}))
			if !reflect.DeepEqual(d.RoundResult, c.want) {
				t.Errorf("got %+v, want %+v", d.RoundResult, c.want)
			}
			if d.status(1, 0) != work.NodeFailed || d.status(1, 1) != work.NodeNotRun || d.events[pairKey{1, 0}][0].ExitCode != 3 {
				t.Errorf("got %v", d.events[pairKey{1, 0}])
			}
			if got := d.text(work.System); !strings.Contains(got, "web-1: one: failed with exit status 3") {
				t.Errorf("the log says %q", got)
			}
			if c.want.NotRun == 4 && d.status(5, 0) != work.NodeNotRun {
				t.Errorf("the last Node is %q", d.status(5, 0))
			}
		})
	}
}

func TestTriesAndHandlers(t *testing.T) {
	failing := func(step catalog.RunbookStep) runbook.Item {
		step.Name, step.Each, step.Command = "one", catalog.EachNode, "false"
		return runbook.Item{Name: "one", Kind: runbook.CommandItem, Step: step}
	}
	handler := func(recover bool) *catalog.ErrorHandler {
		return &catalog.ErrorHandler{Command: "handle", Recover: recover} // reads the variables
	}
	for _, c := range []struct {
		name    string
		step    catalog.RunbookStep
		well    int // the try that succeeds
		lost    bool
		handled int // exit code of the handler
		want    work.NodeStatus
		runs    int
		took    time.Duration
		says    string // in the log
	}{
		{name: "the third try", step: catalog.RunbookStep{Retries: 3, RetryDelay: catalog.Duration(time.Minute)}, well: 3, want: work.NodeSucceeded, runs: 3, took: 2 * time.Minute},
		{name: "no try left", step: catalog.RunbookStep{Retries: 1}, want: work.NodeFailed, runs: 2},
		{name: "recovered", step: catalog.RunbookStep{Retries: 1, OnError: handler(true)}, want: work.NodeRecovered, runs: 3},
		{name: "handled", step: catalog.RunbookStep{OnError: handler(false)}, want: work.NodeFailed, runs: 2},
		{name: "the handler fails", step: catalog.RunbookStep{OnError: handler(true)}, handled: 1, want: work.NodeFailed, runs: 2},
		{name: "cut off", step: catalog.RunbookStep{Retries: 3}, lost: true, want: work.NodeUnknown, runs: 1},
		{name: "cut off, repeatable, without retries", step: catalog.RunbookStep{Repeatable: true}, lost: true, want: work.NodeFailed, runs: 1,
			says: "with `retries` the step is tried again"},
		{name: "cut off, repeatable", step: catalog.RunbookStep{Retries: 3, Repeatable: true}, lost: true, well: 2, want: work.NodeSucceeded, runs: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := file(t, 1, failing(c.step), command("two"))
				runs, began := 0, time.Now()
				d := perform(t, f, newMemory(func(_ context.Context, _ string, cmd Command) (Result, error) {
					if cmd.Env["LEGWORK_STEP"] == "two" {
						return Result{Began: true}, nil
					}
					runs++
					switch {
					case strings.Contains(string(cmd.Script), "handle"):
						if code := cmd.Env["STEP_one_exit_code"]; code != "1" {
							t.Errorf("the handler is told the exit status %q", code)
						}
						if got, want := cmd.Env["STEP_one_status"], "failed"; got != want {
							t.Errorf("STEP_one_status: got %q, want %q", got, want)
						}
						return Result{Began: true, ExitCode: c.handled}, nil
					case runs == c.well:
						return Result{Began: true}, nil
					case c.lost:
						return Result{Began: true}, fault.New(fault.Unavailable, "connection_lost", "the connection to web-0 was lost")
					}
					return Result{Began: true, ExitCode: 1}, nil
				}))
				if d.status(0, 0) != c.want || runs != c.runs || time.Since(began) != c.took {
					t.Errorf("got %s after %d runs and %s; log %q", d.status(0, 0), runs, time.Since(began), d.text(work.System))
				}
				if got := d.text(work.System); !strings.Contains(got, c.says) {
					t.Errorf("the log: got %q, want %q in it", got, c.says)
				}
				if goesOn := d.status(0, 1) == work.NodeSucceeded; goesOn == c.want.Bad() {
					t.Errorf("the Node goes on: %v", goesOn)
				}
			})
		})
	}
}

func TestConditionsValuesAndTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		build, use, prod, broken, slow := command("build"), command("use"), command("prod"), command("broken"), command("slow")
		use.Step.Command, use.Step.When = `echo ${step.build.version} '${option.word}'`, `step.build.version == "1.2" && node.name == "web-1"`
		prod.Step.When = `option.word == "nothing"`
		slow.Step.Timeout = catalog.Duration(time.Minute)
		broken.Step.When = "step.nothing.here"
		f := file(t, 2, build, use, prod, slow, broken)
		f.Run.Scopes[0].Values["word"], f.Run.OnFailure = "it's $(rm -rf /)", catalog.ContinueOnFailure
		d := perform(t, f, newMemory(func(ctx context.Context, at string, c Command) (Result, error) {
			switch c.Env["LEGWORK_STEP"] {
			case "build":
				return Result{Began: true, Output: map[string]string{"version": map[string]string{"web-0": "1.1", "web-1": "1.2"}[at]}}, nil
			case "use":
				if c.Env["STEP_build_version"] != "1.2" || c.Env["OPTION_word"] != "it's $(rm -rf /)" || strings.Contains(string(c.Script), "rm") {
					t.Errorf("got %q in %v", c.Script, c.Env)
				}
			case "slow":
				if at == "web-1" {
					return takes(ctx, time.Hour, Result{})
				}
			}
			return Result{Began: true}, nil
		}))
		if d.status(0, 1) != work.NodeSkipped || d.status(1, 1) != work.NodeSucceeded || d.status(1, 2) != work.NodeSkipped {
			t.Errorf("got %v", d.events)
		}
		if e := d.events[pairKey{1, 3}]; e[len(e)-1].Failure == nil || e[len(e)-1].Failure.Code != "step_timeout" {
			t.Errorf("got %+v", e)
		}
		if e := d.events[pairKey{0, 4}]; len(e) != 1 || e[0].Status != work.NodeFailed || e[0].Failure.Code != "condition" {
			t.Errorf("got %+v", e)
		}
	})
}

func TestOncePerRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := command("one")
		one.Step.Each = catalog.EachRunner
		f := file(t, 0, one)
		d := perform(t, f, newMemory(func(context.Context, string, Command) (Result, error) {
			return Result{Began: true, Output: map[string]string{"id": "42"}}, nil
		}))
		if d.Values["one.id"] != "42" || d.Failed || d.status(once, 0) != work.NodeSucceeded || d.memory.begun[0] != "here one" {
			t.Errorf("got %+v", d.RoundResult)
		}
		d = perform(t, f, newMemory(func(context.Context, string, Command) (Result, error) { return Result{Began: true, ExitCode: 1}, nil }))
		if !d.Failed {
			t.Errorf("got %+v", d.RoundResult)
		}
	})
}

func TestCancelAndStop(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := file(t, 4, command("one"), command("two"))
			f.Run.Concurrency = 2
			path := filepath.Join(t.TempDir(), "round")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				time.Sleep(90 * time.Second) // the first two are in their second Item
				if graceful {
					cancel()
				} else if err := os.WriteFile(StopPath(path), nil, 0o600); err != nil {
					t.Error(err)
				}
			}()
			d := performIn(t, ctx, path, f, newMemory(func(ctx context.Context, _ string, _ Command) (Result, error) {
				return takes(ctx, time.Minute, Result{})
			}), nil)
			want := work.RoundResult{Succeeded: 2, NotRun: 2}
			last := work.NodeSucceeded
			if graceful {
				want, last = work.RoundResult{Bad: []int{0, 1}, BadAt: []int{1, 1}, NotRun: 2}, work.NodeCanceled
			}
			if !reflect.DeepEqual(d.RoundResult, want) || d.status(0, 1) != last || d.status(3, 0) != work.NodeNotRun {
				t.Errorf("got %+v, last %s", d.RoundResult, d.status(0, 1))
			}
		})
	}
}

func TestWhatIsSettledIsNotDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := command("two")
		again.Step.Repeatable = true
		f := file(t, 5, command("one"), again)
		f.Run.OnFailure = catalog.ContinueOnFailure
		f.Run.Settled = []work.NodeEvent{
			{Node: 0, Item: 0, Status: work.NodeSucceeded}, {Node: 1, Item: 0, Status: work.NodeFailed}, {Node: 2, Item: 0, Status: work.NodeRunning},
			{Node: 3, Item: 0, Status: work.NodeSucceeded}, {Node: 3, Item: 1, Status: work.NodeRunning}, {Node: 4, Item: 0, Status: work.NodeNotRun},
		}
		d := perform(t, f, newMemory(nil))
		slices.Sort(d.memory.begun)
		if got := strings.Join(d.memory.begun, ","); got != "web-0 two,web-3 two,web-4 one,web-4 two" {
			t.Errorf("begun %s", got)
		}
		if !reflect.DeepEqual(d.Bad, []int{1, 2}) || d.status(2, 0) != work.NodeUnknown || d.Succeeded != 3 {
			t.Errorf("got %+v", d.RoundResult)
		}
	})
}

// TestThePastOfAnotherInstance: a Part that was begun elsewhere goes on with what its earlier steps came to there.
func TestThePastOfAnotherInstance(t *testing.T) {
	build, use, gone := command("build"), command("use"), command("gone")
	use.Step.Command, use.Step.When = "echo ${step.build.version}", `step.build.exit_code == 3 && step.build.status == "recovered"`
	gone.Step.When = `!has(step.use.exit_code)`
	f := file(t, 3, build, use, gone)
	f.Round = work.Round{Index: 1, First: 1, End: 3, Nodes: []int{0, 1}}
	f.Run.Past = []work.PastResult{
		{Item: 0, Nodes: []int{0, 2}, Status: work.NodeRecovered, ExitCode: 3, Values: map[string]string{"version": "1.2"}},
		{Item: 0, Nodes: []int{1}, Status: work.NodeSucceeded},
		{Item: 2, Nodes: []int{0}, Status: work.NodeSucceeded}, // of the Round itself: not settled
	}
	path := filepath.Join(t.TempDir(), "round")
	d := performIn(t, context.Background(), path, f, newMemory(func(_ context.Context, at string, c Command) (Result, error) {
		if c.Env["LEGWORK_STEP"] == "use" && (at != "web-0" || c.Env["STEP_build_version"] != "1.2") {
			t.Errorf("%s: %v", at, c.Env)
		}
		return Result{Began: true}, nil
	}), nil)
	if d.status(0, 1) != work.NodeSucceeded || d.status(1, 1) != work.NodeSkipped || d.status(0, 2) != work.NodeSkipped || len(d.events[pairKey{0, 0}]) > 0 {
		t.Errorf("got %v", d.events)
	}
}

// TestLaterRoundsSeeEarlierOnes performs Rounds in one folder, as an Attempt does: what is the same is written once, and what Items passed on is known later.
func TestLaterRoundsSeeEarlierOnes(t *testing.T) {
	dir := t.TempDir()
	build, use := command("build"), command("use")
	use.Step.Command, use.Step.When = "echo ${step.build.version}", "step.build.exit_code == 0"
	f := file(t, 3, build, use)
	f.Run.Scopes[0].Values["large"] = strings.Repeat("x", 90_000)
	seen := map[string]string{}
	var sizes []int64
	for index, round := range []work.Round{{First: 0, End: 1, Nodes: []int{0, 1, 2}}, {First: 1, End: 2, Nodes: []int{0}}, {First: 1, End: 2, Nodes: []int{1, 2}}} {
		round.Index = index
		f.Round = round
		path := filepath.Join(dir, fmt.Sprintf("%02d-round.json", index))
		d := performIn(t, t.Context(), path, f, newMemory(func(_ context.Context, at string, c Command) (Result, error) {
			if c.Env["LEGWORK_STEP"] == "use" {
				seen[at] = c.Env["STEP_build_version"]
			}
			return Result{Began: true, Output: map[string]string{"version": "of " + at}}, nil
		}), nil)
		if len(d.Bad) > 0 || d.NotRun > 0 {
			t.Errorf("round %d: %+v", index, d.RoundResult)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
		if index == 1 { // a Round cut off while it added to the state
			state, err := os.OpenFile(StatePath(path), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = state.WriteString(`1 {"i":0,"s":"fai`)
			_ = state.Close()
		}
		f.Run.Concurrency = 1 // the map is not for many
	}
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		if seen[name] != "of "+name {
			t.Errorf("%s saw %q", name, seen[name])
		}
	}
	if slices.Max(sizes) > 1000 {
		t.Errorf("the files of the Rounds have %v bytes", sizes)
	}
	state, err := os.ReadFile(filepath.Join(dir, "part.state"))
	if got := strings.Count(string(state), `"s":"succeeded"`); err != nil || got != 6 {
		t.Errorf("the state has %d results: %v\n%s", got, err, state)
	}
}

func TestAnsibleWithoutAPlaybook(t *testing.T) {
	item := runbook.Item{Name: "site", Kind: runbook.AnsibleItem, Step: catalog.RunbookStep{Each: catalog.EachRunner, Ansible: &catalog.AnsibleStep{Playbook: "site.yml"}}}
	d := perform(t, file(t, 2, item), newMemory(nil))
	if e := d.events[pairKey{1, 0}]; len(d.Bad) != 2 || e[len(e)-1].Failure.Code != "ansible_missing" {
		t.Errorf("got %+v %v", d.RoundResult, e)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	one := command("one")
	one.Step.Command = "echo ${secret.token}"
	f := file(t, 1, one)
	d := performIn(t, t.Context(), filepath.Join(t.TempDir(), "round"), f, newMemory(func(_ context.Context, _ string, c Command) (Result, error) {
		for _, piece := range []string{"it is hush", "-hush, you know", " and " + c.Env["SECRET_token"] + "\n"} {
			_, _ = io.WriteString(c.Stdout, piece)
		}
		return Result{Began: true, ExitCode: 1}, nil
	}), []string{"LEGWORK_SECRET_token=hush-hush", "PATH=/bin"})
	if got := d.text(work.Stdout); got != "it is ***, you know and ***\n" {
		t.Errorf("got %q", got)
	}
	if r := d.log[0]; r.Node != 1 || r.Item != 1 {
		t.Errorf("got %+v", r)
	}
}

// TestManyPairs is the measure of the scheduler: 1,000 Nodes by 20 Items.
// TestWhatIsPassedOnIsMasked has steps write a secret to $LEGWORK_OUTPUT, once per Runner and on Nodes: it is in no file of the Round, in no event, and what comes
// after sees what is stored.
func TestWhatIsPassedOnIsMasked(t *testing.T) {
	const secret = "s3cr3t-Kx9qLr7wZ2v8"
	for _, each := range []catalog.Each{catalog.EachRunner, catalog.EachNode} {
		t.Run(string(each), func(t *testing.T) {
			one, two := command("one"), command("two")
			one.Step.Each, two.Step.Each = each, each
			two.Step.Command = "echo ${step.one.leak}"
			f := file(t, 1, one, two)
			var mu sync.Mutex
			var seen []string
			path := filepath.Join(t.TempDir(), "round")
			d := performIn(t, t.Context(), path, f, newMemory(func(_ context.Context, _ string, c Command) (Result, error) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, c.Env["STEP_one_leak"])
				return Result{Began: true, Output: map[string]string{"leak": "it is " + secret, "fine": "yes"}}, nil
			}), []string{SecretPrefix + "token=" + secret})
			if each == catalog.EachRunner && (d.Values["one.leak"] != "it is ***" || d.Values["one.fine"] != "yes") {
				t.Errorf("got %v", d.Values)
			}
			if len(seen) != 2 || seen[1] != "it is ***" {
				t.Errorf("the next step was given %q", seen)
			}
			for _, r := range d.log {
				if strings.Contains(string(r.Data), secret) {
					t.Errorf("the log has %s", r.Data)
				}
			}
			files, err := filepath.Glob(path + "*")
			if err != nil || len(files) < 3 {
				t.Fatal(files, err)
			}
			for _, file := range files {
				if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), secret) {
					t.Errorf("%s has %s %v", file, text, err)
				}
			}
		})
	}
}

func TestManyPairs(t *testing.T) {
	var items []runbook.Item
	for i := range 20 {
		items = append(items, command(fmt.Sprint("step", i)))
	}
	f := file(t, 1000, items...)
	f.Run.Concurrency = 100
	began := time.Now()
	d := perform(t, f, newMemory(nil))
	t.Logf("1,000 Nodes by 20 Items: %s", time.Since(began))
	if d.Succeeded != 1000 || len(d.memory.begun) != 20_000 || len(d.events) != 20_000 {
		t.Errorf("got %+v, %d begun", d.RoundResult, len(d.memory.begun))
	}
}
