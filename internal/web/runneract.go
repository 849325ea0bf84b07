package web

import (
	"fmt"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// ofRunner makes a sheet about one Runner, at an address below that of its page.
func ofRunner(path string, body func(v *visit, r runnerView, f form) (sheetContent, error), act func(v *visit, r runnerView, f form) (outcome, error)) sheet {
	return sheet{path: "/runners/{runner}/" + path, nav: "/runners", need: catalog.Administer,
		show: func(v *visit, f form) (sheetContent, error) {
			r, err := v.runner(v.request.PathValue("runner"))
			if err != nil {
				return sheetContent{}, err
			}
			return body(v, r, f)
		},
		act: func(v *visit, f form) (outcome, error) {
			r, err := v.runner(v.request.PathValue("runner"))
			if err != nil {
				return outcome{}, err
			}
			return act(v, r, f)
		},
	}
}

// confirmation asks before something is done to a Runner, and says what happens.
type confirmation struct {
	title, button, tone string
	says                []string
	instance            string // id, when it is about the Jobs of one alone
	jobs                string // what happens to the Jobs under way, when there are some
	choice              *input // a box to tick
	field               *input // to fill in

	underWay []*work.Job
}

const (
	mostNamed = 5   // Jobs under way that a confirmation names
	mostBound = 200 // that it counts
)

// confirm looks up which Jobs are under way, and asks.
func (v *visit) confirm(r runnerView, f form, c confirmation) (sheetContent, error) {
	bound, err := v.Control.Jobs(v.ctx, v.actor, control.JobFilter{RunnerID: r.ID, Statuses: underWay, Limit: mostBound})
	if err != nil {
		return sheetContent{}, err
	}
	for _, j := range bound {
		if c.instance == "" || j.Binding != nil && j.Binding.InstanceID == c.instance {
			c.underWay = append(c.underWay, j)
		}
	}
	return sheetContent{c.title, confirmForm(v, c, f)}, nil
}

// count says how many Jobs are under way.
func (c confirmation) count() string {
	switch n := len(c.underWay); n {
	case 0:
		return "No Job is under way there now."
	case 1:
		return "1 Job is under way there now. " + c.jobs
	case mostBound:
		return fmt.Sprintf("%d Jobs or more are under way there now. %s", n, c.jobs)
	default:
		return fmt.Sprintf("%d Jobs are under way there now. %s", n, c.jobs)
	}
}

// asking makes a sheet that asks and then does something that leads back to where it was.
func asking(path string, ask func(r runnerView) confirmation, note string, do func(v *visit, r runnerView, f form) error) sheet {
	return ofRunner(path,
		func(v *visit, r runnerView, f form) (sheetContent, error) { return v.confirm(r, f, ask(r)) },
		func(v *visit, r runnerView, f form) (outcome, error) {
			return outcome{next: v.backTo(r), note: strings.ReplaceAll(note, "NAME", r.Name)}, do(v, r, f)
		})
}

// backTo gives the page that an action came from: the list of Runners, or the Runner's own.
func (v *visit) backTo(r runnerView) string {
	if from := v.request.Header.Get("HX-Current-URL"); from != "" {
		if u, err := v.url.Parse(from); err == nil && u.Path == "/runners" {
			return safeNext(u.RequestURI())
		}
	}
	return runnerPath(r.Runner)
}

func drainRunnerSheet() sheet {
	return asking("drain", func(r runnerView) confirmation {
		return confirmation{title: "Drain " + r.Name + "?", button: "Drain the Runner", tone: "primary",
			says: []string{"No instance accepts new jobs until you resume it.", "Jobs that only this runner can take stay queued."},
			jobs: "They finish there."}
	}, "NAME drains: it takes no further Job.", func(v *visit, r runnerView, _ form) error {
		return v.Control.SetRunnerDraining(v.ctx, v.actor, r.ID, true)
	})
}

func resumeRunnerSheet() sheet {
	return asking("resume", func(r runnerView) confirmation {
		return confirmation{title: "Resume " + r.Name + "?", button: "Resume the Runner", tone: "primary",
			says: []string{"All of its Instances take Jobs again, those too that were drained one by one."}, jobs: "They go on."}
	}, "NAME takes Jobs again.", func(v *visit, r runnerView, _ form) error {
		return v.Control.SetRunnerDraining(v.ctx, v.actor, r.ID, false)
	})
}

func disableRunnerSheet() sheet {
	return asking("disable", func(r runnerView) confirmation {
		return confirmation{title: "Disable " + r.Name + "?", button: "Disable the Runner", tone: "primary",
			says: []string{"It gets no Job until it is enabled again. Its processes stay connected, its credentials hold."}, jobs: "They finish there."}
	}, "NAME is disabled.", func(v *visit, r runnerView, _ form) error { return v.setDisabled(r, true) })
}

func enableRunnerSheet() sheet {
	return asking("enable", func(r runnerView) confirmation {
		return confirmation{title: "Enable " + r.Name + "?", button: "Enable the Runner", tone: "primary",
			says: []string{"It gets Jobs again, unless it drains."}, jobs: "They go on."}
	}, "NAME is enabled.", func(v *visit, r runnerView, _ form) error { return v.setDisabled(r, false) })
}

func (v *visit) setDisabled(r runnerView, disabled bool) error {
	spec := r.RunnerSpec
	spec.IsDisabled = disabled
	_, err := v.Control.UpdateRunner(v.ctx, v.actor, r.ID, spec)
	return err
}

func removeRunnerSheet() sheet {
	return ofRunner("remove",
		func(v *visit, r runnerView, f form) (sheetContent, error) {
			if r.Hosting != nil {
				return v.confirm(r, f, confirmation{title: "Remove " + r.Name + "?", button: "Remove the Runner", tone: "danger",
					says: []string{"A Job drains it, ends its Instances, deletes what was made for it where they ran, and then its record. What it did stays in the history of Jobs.",
						"It is refused while a Module names the Runner."},
					jobs: "They finish there first."})
			}
			return v.confirm(r, f, confirmation{title: "Remove " + r.Name + "?", button: "Remove the Runner", tone: "danger",
				says: []string{"Its record goes, with its credentials, Assignments and Instances, and its processes can no longer connect. What they did stays in the history of Jobs.",
					"It is refused while a Module names the Runner or a Job is under way there."},
				jobs: "It has to be over first: drain the Runner and wait, or cancel it."})
		},
		func(v *visit, r runnerView, _ form) (outcome, error) {
			if r.Hosting != nil {
				j, err := v.Control.RemoveRunner(v.ctx, v.actor, r.ID)
				if err != nil {
					return outcome{}, err
				}
				return v.afterJobs(r, []*work.Job{j}, "The removal of "+r.Name), nil
			}
			err := v.Control.DeleteRunner(v.ctx, v.actor, r.ID)
			return outcome{next: "/runners", note: r.Name + " is removed."}, err
		})
}

// rotateCredentialSheet gives a Runner a new secret in place of all that it has.
func rotateCredentialSheet() sheet {
	return ofRunner("credential",
		func(v *visit, r runnerView, f form) (sheetContent, error) {
			return v.confirm(r, f, confirmation{title: "Rotate the credential of " + r.Name + "?", button: "Rotate secret", tone: "danger",
				says: []string{"Every client secret that it has ends at once, and a new one is shown, this once. Its processes need that one at their next login.",
					"To rotate without an outage, add a credential on its page, distribute it, and delete the old one."},
				jobs:   "They go on: a Session that is open lasts, and what runs outlives it.",
				choice: &input{name: "disconnect", label: "Disconnect active sessions", help: "Its processes must log in with the new secret. Running jobs continue, and report when the processes are back."}})
		},
		func(v *visit, r runnerView, f form) (outcome, error) {
			made, err := v.Control.RotateRunnerCredential(v.ctx, v.actor, r.ID)
			if err != nil {
				return outcome{}, err
			}
			if f.get("disconnect") != "" {
				err = v.Control.DisconnectRunner(v.ctx, v.actor, r.ID)
			}
			return shownSecret(v, "The new secret of "+r.Name, made, err), nil
		})
}

// instanceOf finds the Instance that a sheet is about.
func (v *visit) instanceOf(r runnerView) (control.InstanceView, error) {
	for _, i := range r.Instances {
		if i.ID == v.request.PathValue("instance") {
			return i, nil
		}
	}
	return control.InstanceView{}, gone("Instance")
}

func gone(what string) error {
	return fault.New(fault.NotFound, "gone", "there is no such %s any more", what).WithHint("look at the page of its Runner")
}

// askingInstance makes a sheet that asks and then does something with one Instance.
func askingInstance(path string, ask func(i control.InstanceView) confirmation, note string, do func(v *visit, i control.InstanceView) error) sheet {
	return ofRunner("instances/{instance}/"+path,
		func(v *visit, r runnerView, f form) (sheetContent, error) {
			i, err := v.instanceOf(r)
			if err != nil {
				return sheetContent{}, err
			}
			c := ask(i)
			c.instance = i.ID
			return v.confirm(r, f, c)
		},
		func(v *visit, r runnerView, _ form) (outcome, error) {
			i, err := v.instanceOf(r)
			if err == nil {
				err = do(v, i)
			}
			return outcome{next: v.backTo(r), note: strings.ReplaceAll(note, "NAME", "Instance "+i.Name)}, err
		})
}

func drainInstanceSheet() sheet {
	return askingInstance("drain", func(i control.InstanceView) confirmation {
		return confirmation{title: "Drain Instance " + i.Name + "?", button: "Drain the Instance", tone: "primary",
			says: []string{"It takes no further Job until it is resumed, also after its process is started again."}, jobs: "They finish there."}
	}, "NAME drains.", func(v *visit, i control.InstanceView) error { return v.Control.SetDraining(v.ctx, v.actor, i.ID, true) })
}

func resumeInstanceSheet() sheet {
	return askingInstance("resume", func(i control.InstanceView) confirmation {
		return confirmation{title: "Resume Instance " + i.Name + "?", button: "Resume the Instance", tone: "primary",
			says: []string{"It takes Jobs again."}, jobs: "They go on."}
	}, "NAME takes Jobs again.", func(v *visit, i control.InstanceView) error {
		return v.Control.SetDraining(v.ctx, v.actor, i.ID, false)
	})
}

func removeInstanceSheet() sheet {
	return askingInstance("remove", func(i control.InstanceView) confirmation {
		return confirmation{title: "Remove Instance " + i.Name + "?", button: "Remove the Instance", tone: "danger",
			says: []string{"It is forgotten, and not missed any more. If its process comes back, it is a new Instance.",
				"It is refused while the Instance is connected or a Job is bound to it."},
			jobs: "Wait until they are recovered or given up, or cancel them."}
	}, "NAME is forgotten.", func(v *visit, i control.InstanceView) error { return v.Control.RemoveInstance(v.ctx, v.actor, i.ID) })
}
