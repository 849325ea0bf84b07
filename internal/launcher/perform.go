package launcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

const (
	defaultPatience = 5 * time.Minute // for what passes by itself, of Steps without a time of their own
	firstPause      = time.Second     // between two tries; doubled each time
	longestPause    = 30 * time.Second

	checkPatience = 10 * time.Second // of a check with what does not answer at all: somebody looks on
	tidyPatience  = time.Minute      // of a tidy, which comes again
	takeDownWait  = time.Minute      // of a teardown with what does not answer at all
	settleTime    = 2 * time.Second  // that is looked on how processes begin
)

// codeUnreachable is that of an engine, a cluster or a cloud that does not answer.
const codeUnreachable = "launcher_unreachable"

// performer performs one Step with a launcher.
type performer struct {
	launcher Launcher
	task     *work.RunnerTask
	say      func(string)
	until    time.Time // no try begins later
	removing bool      // the Step is of a Job that takes everything down
	settle   time.Duration

	unreached time.Time // no try begins later after one that nothing answered; zero: until
}

// perform does a Step and gives the processes that it knows of.
func (p *performer) perform(ctx context.Context, step work.StepKind) ([]work.UnitReport, error) {
	if (step == work.StepCheck && !p.removing || step == work.StepLaunch) && p.task.ServerURL == "" {
		return nil, fault.New(fault.Invalid, "launcher_task", "the Server does not say under which URL an Instance reaches it").
			WithHint("set its public_url")
	}
	switch step {
	case work.StepCheck:
		if p.removing {
			p.survey(ctx)
			return nil, nil
		}
		p.unreached = time.Now().Add(checkPatience)
		return nil, p.check(ctx)
	case work.StepPrepare:
		return nil, p.prepare(ctx)
	case work.StepLaunch:
		return p.launch(ctx)
	case work.StepTeardown:
		p.unreached = time.Now().Add(takeDownWait)
		reports, err := p.teardown(ctx)
		return reports, orDelete(err, p.task.Runner)
	case work.StepTidy:
		if soon := time.Now().Add(tidyPatience); soon.Before(p.until) {
			p.until = soon
		}
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

// survey says what a remove will take down. What it cannot see is no failure: the teardown finds it, or says why not.
func (p *performer) survey(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	found, err := p.launcher.List(ctx, p.task)
	if err != nil {
		p.say("what there is of " + p.task.Runner + " cannot be told: " + failure(err, strings.Clone).Message)
		return
	}
	line := "to be taken down: what the Instances of " + p.task.Runner + " share"
	if living := liveNames(found); len(living) > 0 {
		line += fmt.Sprintf(", and %s: %s", count(len(living), "process", "processes"), strings.Join(living, ", "))
	}
	p.say(line)
}

// orDelete has a teardown that cannot be done say what is left to somebody for whom the launcher never worked.
func orDelete(err error, runner string) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Retryable() && f.Code != codeUnreachable {
		return err
	}
	hint := fmt.Sprintf("where nothing was ever launched, delete the record alone: legwork runner delete %s", runner)
	if f.Hint != "" {
		hint = f.Hint + "; " + hint
	}
	return f.WithHint("%s", hint)
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
	reports = p.begun(reports)
	p.tell(reports)
	if err == nil {
		reports = p.watch(ctx, reports)
	}
	return reports, err
}

// begun gives those reports that are of the Units of the task.
func (p *performer) begun(reports []work.UnitReport) []work.UnitReport {
	names := unitNames(p.task.Units)
	return slices.DeleteFunc(reports, func(r work.UnitReport) bool { return !slices.Contains(names, r.Name) })
}

// watch looks for a while whether processes that were just started go on. One that ended so soon is told with what its launcher knows of
// it: whoever waits for it to be online need not wait any longer. Launchers of containers and tasks look by themselves in Ensure.
func (p *performer) watch(ctx context.Context, reports []work.UnitReport) []work.UnitReport {
	looks := 0
	switch p.task.Hosting.Launcher {
	case catalog.LaunchProcess:
		looks = 4
	case catalog.LaunchExec: // each look may cost a call of a cloud
		looks = 1
	}
	for n := range looks {
		if p.settle == 0 || len(liveNames(reports)) == 0 {
			break
		}
		timer := time.NewTimer(p.settle / time.Duration(looks))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return reports
		}
		found, err := p.launcher.List(ctx, p.task)
		if err != nil {
			if n == looks-1 {
				p.say("how they go on cannot be told: " + failure(err, strings.Clone).Message)
			}
			continue
		}
		for _, r := range p.begun(found) {
			i := slices.IndexFunc(reports, func(was work.UnitReport) bool { return was.Name == r.Name })
			if i < 0 || reports[i].State == work.UnitStopped || r.State != work.UnitStopped {
				continue
			}
			reports[i] = r
			p.tell([]work.UnitReport{r})
		}
	}
	return reports
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

// resume restarts lost processes whose folders survive. A failure is only logged, because the following list reports
// their state.
func (p *performer) resume(ctx context.Context) {
	r, ok := p.launcher.(Resumer)
	if !ok || len(p.task.Lost) == 0 {
		return
	}
	p.say("looking for what was lost: " + strings.Join(unitNames(p.task.Lost), ", "))
	reports, err := r.Resume(ctx, p.task)
	p.tell(reports)
	if err != nil {
		p.say("not every lost process could be restarted: " + failure(err, strings.Clone).Message)
	}
}

// tidy resumes lost processes, and then ends orphans and the Units of the task.
func (p *performer) tidy(ctx context.Context) ([]work.UnitReport, error) {
	p.resume(ctx)
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
		case slices.Contains(p.task.Known, name):
			continue
		case newer(p.task, name):
			p.say(name + " was launched after this was asked for, and is left alone")
			continue
		default:
			why[name] = "it is not in the launch history"
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
	hinted := ""
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := do()
		var f *fault.Fault
		if err == nil || !errors.As(err, &f) || !f.Retryable() {
			return err
		}
		wait, until := pause+rand.N(pause/2+1), p.until
		if f.Code == codeUnreachable && !p.unreached.IsZero() && p.unreached.Before(until) {
			until = p.unreached
		}
		if time.Now().Add(wait).After(until) {
			return err
		}
		p.say(fmt.Sprintf("%s; trying again in %s", f.Message, wait.Round(100*time.Millisecond)))
		if f.Hint != "" && f.Hint != hinted {
			p.say(f.Hint)
			hinted = f.Hint
		}
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
