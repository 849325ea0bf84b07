package launcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"legwork/internal/fault"
	"legwork/internal/work"
)

const (
	defaultPatience = 5 * time.Minute // for what passes by itself, of Steps without a time of their own
	firstPause      = time.Second     // between two tries; doubled each time
	longestPause    = 30 * time.Second
)

// performer performs one Step with a launcher.
type performer struct {
	launcher Launcher
	task     *work.RunnerTask
	say      func(string)
	until    time.Time // no try begins later
}

// perform does a Step and gives the processes that it knows of.
func (p *performer) perform(ctx context.Context, step work.StepKind) ([]work.UnitReport, error) {
	if (step == work.StepCheck || step == work.StepLaunch) && p.task.ServerURL == "" {
		return nil, fault.New(fault.Invalid, "launcher_task", "the Server does not say under which URL an Instance reaches it").
			WithHint("set its public_url")
	}
	switch step {
	case work.StepCheck:
		return nil, p.check(ctx)
	case work.StepPrepare:
		return nil, p.prepare(ctx)
	case work.StepLaunch:
		return p.launch(ctx)
	case work.StepTeardown:
		return p.teardown(ctx)
	case work.StepTidy:
		return p.tidy(ctx)
	}
	return nil, fault.New(fault.Invalid, "step_unknown", "a launcher has no step %.40s", step)
}

func (p *performer) check(ctx context.Context) error {
	return p.patiently(ctx, func() error {
		said, err := p.launcher.Describe(ctx, p.task)
		for _, line := range said {
			p.say(line)
		}
		return err
	})
}

// prepare makes what the processes share, and none of them.
func (p *performer) prepare(ctx context.Context) error {
	shared := *p.task
	shared.Units = nil
	err := p.patiently(ctx, func() error {
		_, err := p.launcher.Ensure(ctx, &shared)
		return err
	})
	if err == nil {
		p.say("all that the Instances of " + p.task.Runner + " share is there")
	}
	return err
}

func (p *performer) launch(ctx context.Context) ([]work.UnitReport, error) {
	names := unitNames(p.task.Units)
	p.say(fmt.Sprintf("starting %s: %s", count(len(names), "process", "processes"), strings.Join(names, ", ")))
	var reports []work.UnitReport
	err := p.patiently(ctx, func() (err error) {
		reports, err = p.launcher.Ensure(ctx, p.task)
		return err
	})
	reports = slices.DeleteFunc(reports, func(r work.UnitReport) bool { return !slices.Contains(names, r.Name) })
	p.tell(reports)
	return reports, err
}

// teardown ends all processes and deletes everything that was made for them.
func (p *performer) teardown(ctx context.Context) ([]work.UnitReport, error) {
	var reports []work.UnitReport
	err := p.patiently(ctx, func() error {
		found, err := p.launcher.List(ctx, p.task)
		if err != nil {
			return err
		}
		reports = merge(reports, found)
		living := liveNames(found)
		if len(living) > 0 {
			p.say(fmt.Sprintf("ending %s: %s", count(len(living), "process", "processes"), strings.Join(living, ", ")))
			if err := p.launcher.Stop(ctx, p.task, living); err != nil {
				return err
			}
		}
		return p.launcher.Remove(ctx, p.task)
	})
	if err != nil {
		return reports, err
	}
	for i := range reports {
		reports[i].State = work.UnitStopped
	}
	p.say("nothing of " + p.task.Runner + " is left here")
	return reports, nil
}

// tidy ends the processes that nobody knows of, and those that it is told to.
func (p *performer) tidy(ctx context.Context) ([]work.UnitReport, error) {
	var reports []work.UnitReport
	err := p.patiently(ctx, func() error {
		found, err := p.launcher.List(ctx, p.task)
		if err != nil {
			return err
		}
		reports = merge(reports, found)
		ending, why := p.orphans(found)
		if len(ending) == 0 {
			p.say(count(len(liveNames(found)), "process", "processes") + " of " + p.task.Runner + ", all of them known")
			return nil
		}
		for _, name := range ending {
			p.say(fmt.Sprintf("ending %s: %s", name, why[name]))
		}
		if err := p.launcher.Stop(ctx, p.task, ending); err != nil {
			return err
		}
		for i, r := range reports {
			if why[r.Name] != "" {
				reports[i].State, reports[i].Note = work.UnitStopped, why[r.Name]
			}
		}
		return nil
	})
	return reports, err
}

// orphans gives the processes that a tidy ends, each with the reason.
func (p *performer) orphans(found []work.UnitReport) (names []string, why map[string]string) {
	why = map[string]string{}
	told := unitNames(p.task.Units)
	for _, name := range liveNames(found) {
		switch {
		case slices.Contains(told, name):
			why[name] = "its time is over"
		case !slices.Contains(p.task.Known, name):
			why[name] = "nobody knows of it"
		default:
			continue
		}
		names = append(names, name)
	}
	return names, why
}

// tell says how each process is.
func (p *performer) tell(reports []work.UnitReport) {
	for _, r := range reports {
		line := fmt.Sprintf("%s is %s", r.Name, r.State)
		if r.ID != "" {
			line += " (" + r.ID + ")"
		}
		if r.Note != "" {
			line += ": " + r.Note
		}
		p.say(line)
	}
}

// patiently does something again, after pauses that grow, while it fails in a way that passes by itself.
func (p *performer) patiently(ctx context.Context, do func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := do()
		var f *fault.Fault
		if err == nil || !errors.As(err, &f) || !f.Retryable() {
			return err
		}
		wait := pause + rand.N(pause/2+1)
		if time.Now().Add(wait).After(p.until) {
			return err
		}
		p.say(fmt.Sprintf("%s; trying again in %s", f.Message, wait.Round(100*time.Millisecond)))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// merge adds later reports to earlier ones: of each process the latest holds.
func merge(earlier, later []work.UnitReport) []work.UnitReport {
	for _, r := range later {
		if i := slices.IndexFunc(earlier, func(e work.UnitReport) bool { return e.Name == r.Name && e.ID == r.ID }); i >= 0 {
			earlier[i] = r
		} else {
			earlier = append(earlier, r)
		}
	}
	return earlier
}

// liveNames gives the names of those that start or run, each once.
func liveNames(reports []work.UnitReport) []string {
	var names []string
	for _, r := range reports {
		if r.State != work.UnitStopped && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

func unitNames(units []work.Unit) []string {
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.Name
	}
	return names
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
