package web

import (
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/work"
)

// upgrade is what would become of an outdated Runner when all are updated.
type upgrade struct {
	runnerView
	from, to string
	left     string // why it is left out, "" when it is not
	under    *work.Job
}

// upgrades lists the outdated Runners by name, with what an update would do. It says beforehand what control decides in the end.
func upgrades(fleet []runnerView) (all []upgrade) {
	for _, r := range fleet {
		if !r.versions.Outdated {
			continue
		}
		u := upgrade{runnerView: r, from: r.versions.Version, to: r.versions.Newest, under: r.versions.Updating}
		u.left = r.leftOut()
		all = append(all, u)
	}
	return all
}

// leftOut says why a Runner is not updated with the others.
func (r runnerView) leftOut() string {
	if r.Hosting != nil {
		return ""
	}
	if !slices.ContainsFunc(r.Instances, func(i control.InstanceView) bool { return i.State == work.InstanceOnline }) {
		return "none of its Instances is online"
	}
	if err := r.consent().Allows(r.versions.Version, r.versions.Newest); err != nil {
		return fault.Of(err).Message
	}
	return ""
}

func (r runnerView) consent() release.Consent {
	if r.versions.Consent == "" {
		return release.Notify
	}
	return r.versions.Consent
}

// kept counts those that are left out.
func kept(all []upgrade) (n int) {
	for _, u := range all {
		if u.left != "" {
			n++
		}
	}
	return n
}

// outdated counts the Runners of older releases than the newest, and names that.
func outdated(fleet []runnerView) (n int, newest string) {
	for _, r := range fleet {
		newest = orWord(newest, r.versions.Newest)
		if r.versions.Outdated {
			n++
		}
	}
	return n, newest
}

const mostListed = 20 // Runners that the sheet of all updates names

// updateAllSheet asks before it takes all outdated Runners to the newest release.
func updateAllSheet() sheet {
	return sheet{path: "/runners/update", nav: "/runners", need: catalog.Operate,
		show: func(v *visit, f form) (sheetContent, error) {
			fleet, err := v.fleet()
			if err != nil {
				return sheetContent{}, err
			}
			return sheetContent{"Update all Runners?", updateAllForm(v, upgrades(fleet), f)}, nil
		},
		act: func(v *visit, _ form) (outcome, error) {
			jobs, skipped, err := v.Control.UpgradeRunners(v.ctx, v.actor)
			if err != nil {
				return outcome{}, err
			}
			if len(skipped) == 0 {
				return outcome{next: "/runners", note: counted(len(jobs), "update Job") + " queued."}, nil
			}
			return outcome{show: &sheetContent{"Updates", updatedAll(v, jobs, skipped)}}, nil
		},
	}
}

// updateRunnerSheet takes one Runner to a release.
func updateRunnerSheet() sheet {
	s := asking("update", func(r runnerView) confirmation {
		c := confirmation{title: "Update " + r.Name + "?", button: "Update the Runner", tone: "primary"}
		if r.versions.Newest == "" {
			c.says = append(c.says, "No release is published here: there is nothing to go to yet.")
		} else {
			c.says = append(c.says, "It goes from "+orWord(r.versions.Version, "an unknown version")+" to "+r.versions.Newest+", unless you name another release.")
		}
		if r.Hosting != nil {
			c.says = append(c.says, "New Instances start with the release; those of the one before take no further Job and end when theirs are over.")
			c.jobs = "They finish where they are."
		} else {
			c.says = append(c.says, "Each Instance installs it in its own place, one after the other, and goes back by itself when the new one does not come online.")
			if why := r.leftOut(); why != "" {
				c.says = append(c.says, sentence("It will be refused now: "+why))
			}
			c.jobs = "They go on while the program is replaced."
		}
		c.field = &input{name: "version", label: "Release", complete: "off", help: "Empty: the newest"}
		return c
	}, "", nil)
	s.need = catalog.Operate
	s.act = func(v *visit, f form) (outcome, error) {
		r, err := v.runner(v.request.PathValue("runner"))
		if err != nil {
			return outcome{}, err
		}
		jobs, err := v.Control.UpgradeRunner(v.ctx, v.actor, r.ID, f.get("version"))
		if err != nil {
			return outcome{}, atField(atField(err, "release_not_found", "version"), "release_version", "version")
		}
		return v.afterJobs(r, jobs, "The update of "+r.Name), nil
	}
	return s
}

// afterJobs leads to the one Job that was queued, else back.
func (v *visit) afterJobs(r runnerView, jobs []*work.Job, what string) outcome {
	switch len(jobs) {
	case 0:
		return outcome{next: v.backTo(r), note: sentence(r.Name + " is up to date")}
	case 1:
		return outcome{next: "/jobs/" + number(jobs[0].Number), note: what + " is Job #" + number(jobs[0].Number) + "."}
	}
	var all []string
	for _, j := range jobs {
		all = append(all, "#"+number(j.Number))
	}
	return outcome{next: v.backTo(r), note: what + " are the Jobs " + strings.Join(all, ", ") + "."}
}

// outdatedText says how many Runners are of an older release than the newest.
func outdatedText(n int) string {
	if n == 1 {
		return "1 Runner is outdated."
	}
	return number(n) + " Runners are outdated."
}

// consentText says what the owner of an Instance's host lets a Server do to its program. That of a hosted Runner is nobody's to ask.
func consentText(r runnerView, i control.InstanceView) string {
	if r.Hosting != nil || i.Updates == "" {
		return ""
	}
	return "updates: " + string(i.Updates)
}
