package web

import (
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// addHostedSheet makes the record of a hosted Runner, has it deployed and shows how that goes, until it is online.
func addHostedSheet() sheet {
	return sheet{path: "/runners/new/hosted", nav: "/runners", need: catalog.Administer,
		show: func(v *visit, f form) (sheetContent, error) {
			choices, err := v.hostingChoices()
			return sheetContent{"Add a Runner", addHostedForm(choices, f)}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			spec := catalog.RunnerSpec{Name: f.get("name"), Description: f.get("description"), IsAssignedToAllModules: f.get("is_assigned_to_all_modules") != ""}
			var problems, more []fault.Problem
			var err error
			if spec.Labels, err = labelsOf(f.get("labels")); err != nil {
				problems = append(problems, fault.Problem{Field: "labels", Message: err.Error()})
			}
			spec.Hosting, more = hostingOf(f, nil)
			if err := hostingProblems(spec, append(problems, more...)); err != nil {
				return outcome{}, err
			}
			made, err := v.Control.CreateRunner(v.ctx, v.actor, spec)
			if err != nil {
				return outcome{}, atField(hostingNamed(err), "runner_exists", "name")
			}
			_, err = v.Control.DeployRunner(v.ctx, v.actor, made.Runner.ID)
			return v.shownDeployment(made.Runner, err)
		},
	}
}

// shownDeployment shows how the deployment of a Runner goes. later is what went wrong after its record was made.
func (v *visit) shownDeployment(r catalog.Runner, later error) (outcome, error) {
	d, err := v.deploymentOf(r.ID)
	if err != nil {
		return outcome{}, err
	}
	if later != nil {
		d.failed = fault.Of(later)
	}
	return outcome{show: &sheetContent{"Deploy " + r.Name, deploymentSheet(d)}}, nil
}

// deployment is a hosted Runner that is being deployed.
type deployment struct {
	*visit
	runnerView
	job    *work.Job // the newest that deploys it, nil when there was none
	stream string    // address
	failed *fault.Fault
}

// deploymentPage shows how the newest deploy Job of a Runner goes: the sheet of the one who wanted it follows this page.
func deploymentPage() page {
	return page{path: "/runners/{runner}/deployment", nav: "/runners", kinds: []string{"runner.", "job."}, every: 5 * time.Second, load: func(v *visit) (content, error) {
		d, err := v.deploymentOf(v.request.PathValue("runner"))
		if err != nil {
			return content{}, err
		}
		return content{title: "Deployment", crumbs: []crumb{{"Runners", "/runners"}, {d.Name, runnerPath(d.Runner)}}, body: deploymentBody(d),
			parts: []part{{id: "deployment", body: deploymentState(d)}}}, nil
	}}
}

func (v *visit) deploymentOf(runner string) (deployment, error) {
	r, err := v.runner(runner)
	if err != nil {
		return deployment{}, err
	}
	d := deployment{visit: v, runnerView: r}
	at := *v.url
	at.Path, at.RawQuery = runnerPath(r.Runner, "deployment"), ""
	d.stream = streamPath(&at, "")
	if r.Hosting == nil {
		return d, notHosted(r)
	}
	demand, err := v.Control.DemandOf(v.ctx, v.actor, r.ID)
	if err != nil {
		return d, err
	}
	d.demand = &demand
	jobs, err := v.Control.Jobs(v.ctx, v.actor, control.JobFilter{Kind: work.RunnerJob, Action: work.Deploy, Limit: 200})
	for _, j := range jobs {
		if j.Runbook == r.Name {
			d.job = j
			break
		}
	}
	return d, err
}

// isOver tells whether nothing is to be waited for any more.
func (d deployment) isOver() bool { return d.job != nil && d.job.Status.Terminal() }

// deployRunnerSheet prepares what a hosted Runner needs, again if it was before.
func deployRunnerSheet() sheet {
	s := asking("deploy", func(r runnerView) confirmation {
		return confirmation{title: "Deploy " + r.Name + "?", button: "Deploy the Runner", tone: "primary",
			says: []string{"A Job looks whether " + launcherWord(orNew(r.Hosting).Launcher) + " may be used, prepares what the Instances need, starts one and waits until it is online. What is there already stays."},
			jobs: "They go on."}
	}, "", nil)
	s.need = catalog.Operate
	s.act = func(v *visit, _ form) (outcome, error) {
		r, err := v.runner(v.request.PathValue("runner"))
		if err != nil {
			return outcome{}, err
		}
		if r.Hosting == nil {
			return outcome{}, notHosted(r)
		}
		if _, err := v.Control.DeployRunner(v.ctx, v.actor, r.ID); err != nil {
			return outcome{}, err
		}
		return v.shownDeployment(r.Runner, nil)
	}
	return s
}

// stepSays says what a Step of a Runner Job does.
func stepSays(k work.StepKind) string { return stepSayings[k] }

var stepSayings = map[work.StepKind]string{
	work.StepCheck: "preflight checks", work.StepPrepare: "what the Instances share", work.StepLaunch: "starts Instances", work.StepOnline: "waits until they are connected",
	work.StepRoll: "new Instances before the old ones end", work.StepDrain: "waits for the Jobs under way", work.StepTeardown: "ends and deletes all of it",
	work.StepTidy: "removes orphaned instances", work.StepInstall: "replaces the program in its place",
}

// deploymentText says how the Runner itself is.
func deploymentText(d deployment) string {
	switch {
	case d.Status == work.StatusOnline:
		return sentence(d.Reason)
	case d.isOver() && d.job.Status == work.Succeeded:
		return "It is deployed. It starts when a Job waits for it."
	case d.isOver():
		return "The Job is over. See its log, and deploy again: it goes on where that one ended."
	}
	return "It is online soon."
}
