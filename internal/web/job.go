package web

import (
	"time"

	"legwork/internal/control"
	"legwork/internal/lazyregexp"
	"legwork/internal/work"
)

func jobPage() page {
	return page{path: "/jobs/{job}", nav: "/jobs", kinds: []string{"job."}, every: 5 * time.Second, load: loadJob, feed: jobFeed}
}

// jobView is one Job: what it is, what to do about it, its Steps, its plan, its log.
type jobView struct {
	*visit
	job  *work.Job
	plan *planView   // nil when there is none
	run  *runDetails // of a Runbook Job, else nil
}

func loadJob(v *visit) (content, error) {
	j, err := v.Control.Job(v.ctx, v.actor, v.request.PathValue("job"))
	if err != nil {
		return content{}, err
	}
	p := jobView{visit: v, job: j}
	if p.plan, err = v.planOf(j); err != nil {
		return content{}, err
	}
	soon := time.Duration(0)
	if j.IsRun() {
		if err := p.loadRun(); err != nil {
			return content{}, err
		}
		if !j.Status.Terminal() {
			soon = runEvery
		}
	}
	c := content{
		soon:   soon,
		about:  func(e control.Event) bool { return e.Subject == j.ID },
		status: known(jobMoods, j.Status),
		title:  p.title(), crumbs: []crumb{{"Jobs", "/jobs"}}, body: jobBody(p),
		parts: []part{
			{id: "job-head", body: jobHead(p)},
			{id: "job-notes", body: jobNotes(p)},
			{id: "job-facts", body: jobFacts(p)},
			{id: "plan-part", body: planPart(p)},
			{id: "log-steps", body: jobLogSteps(p)},
		},
	}
	if p.run == nil {
		c.parts = append(c.parts, part{id: "timeline", body: timelinePanel(v, j, timelineOf(j, v.now))})
	} else {
		c.parts = append(c.parts, p.runParts()...)
	}
	return c, nil
}

func (p jobView) title() string {
	title := "#" + number(p.job.Number) + " " + jobWord(p.job)
	if p.job.Kind == work.RunnerJob {
		title += " " + p.job.Runbook
	}
	return title
}

func (p jobView) path(rest string) string { return "/jobs/" + number(p.job.Number) + rest }

// approvePath gives the way to approve the very plan that is shown: with another one it is refused.
func (p jobView) approvePath() string {
	if plan := p.job.Plan(); plan != nil {
		return p.path("/approve?plan=" + plan.Hash)
	}
	return p.path("/approve")
}

// stateText explains the state of a job. It is empty where the badge is enough.
func stateText(j *work.Job) string {
	switch j.Status {
	case work.Queued:
		if j.Wait.Text != "" {
			return "" // the note below has the reason
		}
		return "Waiting for an instance."
	case work.Claimed:
		return "An instance accepted it and is about to start."
	case work.Running:
		if i := j.Current(); i < len(j.Steps) {
			return "Step " + number(i+1) + " of " + number(len(j.Steps)) + " is under way: " + stepWord(j.Steps[i].Kind) + "."
		}
		return "It is under way."
	case work.AwaitingApproval:
		return "Plan ready. Approve to apply."
	case work.Canceling:
		return "It is being ended. What its Step did so far counts."
	case work.Interrupted:
		return "Its Instance was lost while it was changing something. It has until the end of the recovery window to come back."
	case work.Superseded:
		return "A newer Job of the same kind took its place before it started."
	case work.Declined:
		return "Its plan was declined. Nothing was changed."
	case work.Expired:
		return "Nobody approved its plan in time. Nothing was changed."
	}
	return ""
}

// instanceAway tells whether the Instance that a Job is bound to is not connected.
func (p jobView) instanceAway() bool {
	b := p.job.Binding
	if b == nil {
		return false
	}
	r, err := p.runner(b.RunnerID)
	if err != nil {
		return false // a Runner that is gone is told of elsewhere
	}
	for _, i := range r.Instances {
		if i.ID == b.InstanceID {
			return !there(i)
		}
	}
	return true
}

// awayText says what becomes of an approved Job whose Instance does not come back.
const awayText = "Once approved, it goes on when that Instance is back. When it stays away until the lease and the recovery window are over, the Job begins anew with a fresh plan."

// headText is stateText, and does not say that a Step is under way that was not begun.
func (p jobView) headText() string {
	if p.run != nil {
		return p.runText()
	}
	i := p.job.Current()
	if p.job.Status == work.Running && i < len(p.job.Steps) && p.job.Steps[i].Status == work.StepSent && p.instanceAway() {
		return "Step " + number(i+1) + " of " + number(len(p.job.Steps)) + ", " + stepWord(p.job.Steps[i].Kind) + ", was given to its Instance, which is not connected."
	}
	return stateText(p.job)
}

// byOf says who wanted a Job, and why.
func byOf(j *work.Job) string {
	if j.Cause != "" {
		return j.CreatedBy + ", " + j.Cause
	}
	return j.CreatedBy
}

func priorityText(p work.Priority) string {
	if p == "" {
		return string(work.PriorityNormal)
	}
	return string(p)
}

// advice says what to do about a Job that waits.
type advice struct{ text, command, link, linkTitle string }

func (p jobView) advice() advice {
	j := p.job
	runners := advice{link: p.link("/runners"), linkTitle: "See the Runners"}
	with := func(text, command string) advice {
		a := runners
		a.text, a.command = text, command
		return a
	}
	switch j.Wait.Code {
	case work.WaitNoAssignment:
		return with("Let a Runner work for this Module, for its Namespace or for its Stack.", "legwork assignment create RUNNER "+j.Module)
	case work.WaitRunnerDisabled:
		return with("Enable the Runner, or let another one work for this Module.", "legwork runner enable RUNNER")
	case work.WaitNoInstance:
		return with("Start the Runner's process, or look at why it is offline. The Job begins as soon as one is there.", "legwork runner start")
	case work.WaitPinnedOffline:
		return with("The Module is bound to one Instance. Start that one, or let the Module go to any.", "")
	case work.WaitBusy, work.WaitRunnerFull:
		return with("It begins when a place is free. More Instances, or a greater capacity, make it sooner.", "")
	case work.WaitDraining:
		return with("The Instances take nothing new. Resume one, or wait for others.", "legwork runner resume RUNNER")
	case work.WaitUnavailable:
		return with("Free some disk space on the runner's host. The job begins as soon as there is enough.", "")
	case work.WaitEngineMissing:
		return with("Install the engine on a Runner's host and restart the Runner.", "")
	case work.WaitModuleBusy:
		return advice{text: "A Module has one Job at a time. This one begins when that one is over.", link: holderPath(j), linkTitle: "See that Job"}
	case work.WaitForModule:
		return advice{text: "It needs outputs that another Module's apply is about to make.", link: "/jobs?state=running", linkTitle: "Running jobs"}
	case work.WaitMaintenance:
		return advice{text: "No Job begins while there is maintenance.", command: "legwork maintenance off"}
	case work.WaitOnHold:
		return advice{text: "The Server runs on a restored or copied database. Check what waits before you resume.", command: "legwork server resume"}
	case work.WaitStarting:
		return advice{text: "It begins as soon as that Instance is online.", link: p.startingPath(), linkTitle: "See what is started"}
	case work.WaitRefused:
		return with("The Runner decides last what it executes: look at its own settings.", "")
	}
	return advice{}
}

var jobNumber = lazyregexp.New(`#(\d{1,18})`)

// holderPath gives the way to the Job that a Job waits for: to itself when the sentence names it.
func holderPath(j *work.Job) string {
	if found := jobNumber.FindStringSubmatch(j.Wait.Text); found != nil {
		return "/jobs/" + found[1]
	}
	return "/jobs?module=" + j.Module
}

// startingPath gives the way to the Job that starts the Instance which a Job waits for, else to the Runners.
func (p jobView) startingPath() string {
	if found := jobNumber.FindStringSubmatch(p.job.Wait.Text); found != nil {
		return "/jobs/" + found[1]
	}
	return "/runners"
}

// tookWord says what the time of a Job is that is shown.
func tookWord(j *work.Job) string {
	switch {
	case j.Status == work.Queued:
		return "Queued for"
	case j.Status.Terminal():
		return "Duration"
	}
	if j.IsRun() {
		return "Elapsed"
	}
	return "Elapsed"
}

// awayText explains an interrupted job.
func (p jobView) awayText() string {
	if p.job.Wait.Text == "" {
		return "The instance is away."
	}
	return sentence(p.job.Wait.Text)
}

// mayCancel tells whether there is something to end, or to end harder.
func (p jobView) mayCancel() bool { return p.can(operate) && !p.job.Status.Terminal() }

func (p jobView) mayRetry() bool { return p.can(operate) && p.job.Status.Terminal() }

func (p jobView) mayDecide() bool { return p.can(operate) && p.job.Status == work.AwaitingApproval }
