package hosting

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// step is a Step that the Server itself performs, as it stands.
type step struct {
	h      *Hosting
	tx     *store.Tx
	do     Changes
	job    *work.Job
	index  int
	task   *store.TaskSnapshot
	runner catalog.Runner
	state  store.HostingState
	busy   bool // of drain: another Job of the Runner is under way
}

// own looks at a Step of the Server's own: it says what happened since, and ends the Step when it is done.
func (h *Hosting) own(ctx context.Context, org string, seen *work.Job) error {
	return h.host.Update(ctx, func(tx *store.Tx, do Changes) error {
		j, err := tx.JobForUpdate(org, seen.ID)
		if err != nil {
			return err
		}
		i := j.Current()
		if j.Status != work.Running && j.Status != work.Claimed || i == len(j.Steps) || !j.Steps[i].Kind.Own() || j.Steps[i].Status != work.StepRunning {
			return nil
		}
		s, err := tx.JobSnapshot(org, j.ID)
		if err != nil || s.Task == nil {
			return err
		}
		p := &step{h: h, tx: tx, do: do, job: j, index: i, task: s.Task}
		if p.runner, err = tx.Runner(org, s.Task.RunnerID); err != nil {
			return p.finish(&work.Failure{Code: "runner_gone", Message: fmt.Sprintf("the runner %s is not there any more", s.Task.Runner)})
		}
		if j.Steps[i].Kind == work.StepDrain {
			if err := p.others(); err != nil {
				return err
			}
		}
		if p.state, err = tx.Hosting(org, p.runner.ID); err != nil {
			return err
		}
		switch j.Steps[i].Kind {
		case work.StepOnline:
			return p.online()
		case work.StepRoll:
			return p.roll()
		default:
			return p.drain()
		}
	})
}

// finish ends the Step.
func (p *step) finish(f *work.Failure) error {
	r := work.StepResult{Status: work.StepSucceeded, StartedAt: p.job.Steps[p.index].StartedAt, FinishedAt: p.tx.Now(), Failure: f}
	if f != nil {
		r.Status, r.ExitCode = work.StepFailed, 1
	}
	_, err := p.do.Move(p.job, work.StepFinished{Attempt: p.job.Attempt, Step: p.index, Result: r})
	return err
}

func (p *step) put() error {
	return p.tx.PutHosting(p.runner.OrganizationID, p.runner.ID, p.state)
}

// online waits until every Instance that the Job started is online, or was given up.
func (p *step) online() error {
	all, err := p.tx.LaunchesOf(p.job.OrganizationID, p.job.ID)
	if err != nil {
		return err
	}
	if len(all) == 0 && p.job.Action == work.Deploy {
		return p.onlineAlready()
	}
	if err := p.do.Say(p.job, p.index, events(all, func(store.Launch) bool { return true }, time.Time{})); err != nil {
		return err
	}
	var failed []store.Launch
	for _, l := range all {
		switch l.State {
		case store.LaunchStarting:
			return nil
		case store.LaunchGivenUp:
			failed = append(failed, l)
		}
	}
	if len(failed) > 0 {
		return p.finish(&work.Failure{Code: "launch_failed", Message: fmt.Sprintf("%s of %d did not come online: %s: %s", count(len(failed), "instance"), len(all), failed[0].Name, failed[0].EndedWhy),
			Hint: "look at the process where it was started: its log says whether it could not reach the Server, or was refused"})
	}
	return p.deployed()
}

// deployed ends the Step, of a deploy or of a launch.
func (p *step) deployed() error {
	if p.job.Action == work.Deploy {
		p.state.DeployedAt = p.tx.Now()
		p.state.Failures, p.state.Failure = 0, ""
		if err := p.put(); err != nil {
			return err
		}
	}
	return p.finish(nil)
}

// onlineAlready waits until one of the Instances is online that were there when the Runner was deployed, which had as many as it may have.
func (p *step) onlineAlready() error {
	open, err := p.tx.OpenLaunches(p.runner.OrganizationID, p.runner.ID)
	if err != nil {
		return err
	}
	starting := false
	for _, l := range open {
		if l.State == store.LaunchOnline {
			return p.deployed()
		}
		starting = starting || l.State == store.LaunchStarting
	}
	if starting {
		return nil
	}
	return p.finish(&work.Failure{Code: "launch_failed", Message: fmt.Sprintf("runner %s had as many instances as it may have, and none of them is online any more", p.runner.Name),
		Hint: fmt.Sprintf("run it again: legwork runner deploy %s", p.runner.Name)})
}

// roll waits until one of the release is online and none of another one takes Jobs any more.
func (p *step) roll() error {
	if p.state.RollJob != p.job.ID {
		return p.beginRoll()
	}
	all, err := p.ledger(p.state.RollSince)
	if err != nil {
		return err
	}
	stands, err := p.tx.RunnerState(p.runner.OrganizationID, p.runner.ID)
	if err != nil {
		return err
	}
	concerned := func(l store.Launch) bool {
		return l.Version != p.state.Version || !l.CreatedAt.Before(p.state.RollSince)
	}
	if err := p.do.Say(p.job, p.index, events(all, concerned, p.state.RollSince)); err != nil {
		return err
	}
	proven, left := false, 0
	for _, l := range all {
		switch {
		case l.Version == p.state.Version && !l.CreatedAt.Before(p.state.RollSince) && !l.OnlineAt.IsZero():
			proven = true
		case l.Version != p.state.Version && (l.State == store.LaunchStarting || l.State == store.LaunchOnline):
			left++
		}
	}
	switch {
	case proven && left == 0:
		p.state.RollJob, p.state.RollSince = "", time.Time{}
		if err := p.put(); err != nil {
			return err
		}
		return p.finish(nil)
	case p.runner.IsDisabled:
		return p.rollEnds(proven, "disabled")
	case stands.Draining:
		return p.rollEnds(proven, "drained")
	case !proven && p.state.Failures >= rollTries:
		return p.rollBack()
	}
	return nil
}

// beginRoll makes the release the one that the Runner should run.
func (p *step) beginRoll() error {
	if p.state.Version != p.task.Version {
		p.state.VersionBefore = p.state.Version
	}
	p.state.Version, p.state.RollJob, p.state.RollSince = p.task.Version, p.job.ID, p.tx.Now()
	p.state.Failures, p.state.Failure, p.state.FailedAt = 0, "", time.Time{}
	p.h.wake()
	return p.put()
}

// rollEnds ends a roll of a Runner for which nothing is launched any more. Once the release has shown that it works, the Runner keeps it.
func (p *step) rollEnds(proven bool, became string) error {
	version := p.state.Version
	kept := "it keeps that release: what it launches later is of it"
	if p.state.RollJob, p.state.RollSince = "", (time.Time{}); !proven {
		goBack(&p.state)
		kept = "it goes on with the release before"
	}
	if err := p.put(); err != nil {
		return err
	}
	return p.finish(&work.Failure{Code: "roll_stopped", Message: fmt.Sprintf("runner %s was %s while it was taken to release %s; %s", p.runner.Name, became, version, kept),
		Hint: fmt.Sprintf("when it works again, run: legwork runner update %s", p.runner.Name)})
}

// rollBack goes back to the release before.
func (p *step) rollBack() error {
	version, why := p.state.Version, p.state.Failure
	goBack(&p.state)
	if err := p.put(); err != nil {
		return err
	}
	before := "the one before"
	if p.state.Version != "" {
		before = p.state.Version
	}
	return p.finish(&work.Failure{Code: "roll_failed", Message: fmt.Sprintf("no instance of runner %s with release %s came online, so it goes on with %s: %s", p.runner.Name, version, before, why),
		Hint: "look at the processes that were started with it; withdraw the release if it is broken"})
}

// others cancels the Jobs of the Runner that wait and looks whether one is under way: what it starts would be left by the teardown.
func (p *step) others() error {
	open, err := Tasks(p.tx, p.runner)
	if err != nil {
		return err
	}
	for _, j := range open {
		if j.ID == p.job.ID {
			continue
		}
		p.busy = true                                         // or the next look says otherwise
		if j.Status != work.Queued || j.Action == work.Tidy { // it finds out whether the Jobs can still end
			continue
		}
		if j, err = p.tx.JobForUpdate(j.OrganizationID, j.ID); err != nil {
			return err
		}
		if j.Status != work.Queued {
			continue
		}
		if _, err := p.do.Move(j, work.CancelRequested{Mode: work.Graceful, By: by, Reason: "the runner is removed"}); err != nil {
			return err
		}
	}
	return nil
}

// Tasks gives the Jobs about a Runner that are queued or under way.
func Tasks(tx *store.Tx, r catalog.Runner) ([]*work.Job, error) {
	all, err := tx.OpenTasks(r.OrganizationID)
	if err != nil {
		return nil, err
	}
	var own []*work.Job
	for _, j := range all {
		s, err := tx.JobSnapshot(j.OrganizationID, j.ID)
		if err != nil {
			return nil, err
		}
		if s.Task != nil && s.Task.RunnerID == r.ID {
			own = append(own, j)
		}
	}
	return own, nil
}

// drain waits until no Job of the Runner is under way, and none about it.
func (p *step) drain() error {
	if p.state.RemoveJob != p.job.ID {
		p.state.RemoveJob = p.job.ID
		p.h.wake()
		return p.put()
	}
	all, err := p.ledger(p.job.Steps[p.index].StartedAt)
	if err != nil {
		return err
	}
	if err := p.do.Say(p.job, p.index, events(all, func(store.Launch) bool { return true }, p.job.Steps[p.index].StartedAt)); err != nil {
		return err
	}
	if p.busy || slices.ContainsFunc(all, func(l store.Launch) bool { return l.State == store.LaunchStarting }) {
		return nil
	}
	instances, err := p.tx.Instances(p.runner.OrganizationID, p.runner.ID)
	if err != nil {
		return err
	}
	for _, i := range instances {
		if i.Connected && !i.Draining {
			return nil // it could take one
		}
		jobs, err := p.tx.BoundJobs(p.runner.OrganizationID, i.ID)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(jobs, underWay) {
			return nil
		}
	}
	return p.finish(nil)
}

// ledger gives all launches that may be there, all that were made since a time, and others that may have ended since then, oldest first.
func (p *step) ledger(since time.Time) ([]store.Launch, error) {
	all, err := p.tx.LaunchesSince(p.runner.OrganizationID, p.runner.ID, since)
	if err != nil {
		return nil, err
	}
	late, err := p.tx.Launches(p.runner.OrganizationID, p.runner.ID, store.Page{Limit: 1000})
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool, len(all))
	for _, l := range all {
		known[l.ID] = true
	}
	for _, l := range late {
		if !known[l.ID] {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b store.Launch) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// events tells what happened to launches since a time, in the order in which it did: what is added later stands behind.
func events(all []store.Launch, concerned func(store.Launch) bool, since time.Time) []string {
	type event struct {
		at   time.Time
		text string
	}
	var happened []event
	add := func(at time.Time, format string, args ...any) {
		if !at.IsZero() && at.After(since) {
			happened = append(happened, event{at, fmt.Sprintf(format, args...)})
		}
	}
	for _, l := range all {
		if !concerned(l) {
			continue
		}
		if !l.OnlineAt.IsZero() {
			add(l.OnlineAt, "%s is online after %.1f s", l.Name, l.OnlineAt.Sub(l.Began()).Seconds())
		}
		add(l.DrainingAt, "%s takes no further jobs: %s", l.Name, l.EndedWhy)
		switch l.State {
		case store.LaunchGivenUp:
			add(l.EndedAt, "%s was given up: %s", l.Name, l.EndedWhy)
		case store.LaunchEnded:
			add(l.EndedAt, "%s has ended", l.Name)
		}
	}
	slices.SortStableFunc(happened, func(a, b event) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	lines := make([]string, len(happened))
	for i, e := range happened {
		lines[i] = e.text
	}
	return lines
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// rolled ends a roll whose Job is over without having ended it: it was canceled, or failed before. The Runner goes on as it was.
func (l *look) rolled(f *fleet) error {
	if f.state.RollJob == "" {
		return nil
	}
	over, _, err := l.jobOver(f.state.RollJob)
	if over && err == nil {
		goBack(&f.state)
	}
	return err
}

// removed deletes a Runner that was torn down, or lets one go on whose removal ended otherwise.
func (l *look) removed(f *fleet) error {
	if f.state.RemoveJob == "" {
		return nil
	}
	over, status, err := l.jobOver(f.state.RemoveJob)
	if err != nil || !over {
		return err
	}
	switch {
	case status == work.Succeeded && l.h.host.Deletable(l.tx, f.runner) == nil:
		return l.finishRemoval(f)
	case status != work.Canceled:
		f.state.DeployedAt, f.state.Torn = time.Time{}, true // part of what it needs may be gone
	}
	f.state.RemoveJob = ""
	return nil
}

// finishRemoval deletes a runner that was removed from all of its hosts. Otherwise the removal goes on at the next
// host.
func (l *look) finishRemoval(f *fleet) error {
	present, away, err := launchHosts(l.tx, f.runner, f.state.Hosts)
	switch {
	case err != nil:
	case len(present) > 0:
		f.removeNext = true
	case len(away) > 0: // they lost their connection after the teardown
		f.state.DeployedAt, f.state.Torn, f.state.RemoveJob = time.Time{}, true, ""
	default:
		l.gone = append(l.gone, f.runner)
	}
	return err
}

// jobOver tells whether a Job is over, and how; one that is not there any more is.
func (l *look) jobOver(id string) (over bool, status work.Status, err error) {
	j, err := l.tx.Job(l.org, id)
	if fault.Is(err, fault.NotFound) {
		return true, work.Failed, nil
	}
	if err != nil {
		return false, "", err
	}
	return j.Status.Terminal(), j.Status, nil
}

// goBack makes the release before the one that the Runner should run.
func goBack(s *store.HostingState) {
	s.Version, s.VersionBefore, s.RollJob, s.RollSince = s.VersionBefore, "", "", time.Time{}
	s.Failures, s.Failure, s.FailedAt = 0, "", time.Time{}
}
