package web

import (
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control"
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
		if r.versions.Outdated {
			all = append(all, upgrade{runnerView: r, from: r.versions.Version, to: r.versions.To, left: r.held(), under: r.versions.Updating})
		}
	}
	return all
}

// held says why a Runner cannot be updated from here, "" when it can.
func (r runnerView) held() string {
	if r.versions.To != "" {
		return ""
	}
	if r.Hosting != nil {
		return "there is no newer stable release"
	}
	return orWord(r.versions.Held, "there is no newer release")
}

// updatable tells whether an update can be begun from here.
func (r runnerView) updatable() bool {
	return r.versions.Outdated && r.versions.Updating == nil && r.versions.To != ""
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

// outdatedRunners counts Runners of older releases than the newest, and names that.
type outdatedRunners struct {
	all, updatable, updating int
	newest                   string // release, "" while none is published
}

func outdated(fleet []runnerView) (o outdatedRunners) {
	for _, r := range fleet {
		o.newest = orWord(o.newest, r.versions.Newest)
		switch {
		case !r.versions.Outdated:
			continue
		case r.versions.Updating != nil:
			o.updating++
		case r.updatable():
			o.updatable++
		}
		o.all++
	}
	return o
}

// text says how many Runners are of an older release than the newest.
func (o outdatedRunners) text() string {
	if o.all == 1 {
		return "1 Runner is outdated."
	}
	return number(o.all) + " Runners are outdated."
}

// how says how many of them can be updated from here.
func (o outdatedRunners) how() string {
	text := number(o.updatable) + " of them can be updated from here"
	switch {
	case o.all == 1 && o.updating == 1:
		return "It is being updated."
	case o.all == 1 && o.updatable == 1:
		return "It can be updated from here."
	case o.all == 1:
		return "It cannot be updated from here."
	case o.updatable == 0:
		text = "None of them can be updated from here"
	}
	if o.updating > 0 {
		text += "; " + number(o.updating) + " are being updated"
		if o.updating == 1 {
			text = strings.TrimSuffix(text, "are being updated") + "is being updated"
		}
	}
	return text + "."
}

const mostListed = 20 // Runners that the sheet of all updates names

// stops says why a Runner does not go to the newest release.
func (r runnerView) stops() string {
	if r.Hosting != nil {
		return "hosted Runners go to stable ones"
	}
	return "its owner allows updates: " + string(r.versions.Consent)
}

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
		switch {
		case r.versions.Newest == "":
			c.says = append(c.says, "No release is published here: there is nothing to go to yet.")
		case r.versions.To != "":
			c.says = append(c.says, "It goes from "+orWord(r.versions.Version, "an unknown version")+" to "+r.versions.To+", unless you name another release.")
		default:
			c.says = append(c.says, "Current version: "+orWord(r.versions.Version, "unknown")+".")
		}
		if to := r.versions.To; to != "" && to != r.versions.Newest {
			c.says = append(c.says, "The newest release is "+r.versions.Newest+", and "+r.stops()+".")
		}
		if r.Hosting != nil {
			c.says = append(c.says, "New Instances start with the release; those of the one before take no further Job and end when theirs are over.")
			c.jobs = "They finish where they are."
		} else {
			c.says = append(c.says, "Each Instance installs it in its own place, one after the other, and goes back by itself when the new one does not come online.")
			if r.versions.To == "" && r.versions.Held != "" {
				c.says = append(c.says, sentence("Can't update: "+r.versions.Held))
			}
			c.jobs = "They go on while the program is replaced."
		}
		c.field = &input{name: "version", label: "Release", complete: "off", help: "Empty: the newest that it may go to"}
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

// consentText says what the owner of an Instance's host lets a Server do to its program. That of a hosted Runner is nobody's to ask.
func consentText(r runnerView, i control.InstanceView) string {
	if r.Hosting != nil || i.Updates == "" {
		return ""
	}
	return "updates: " + string(i.Updates)
}
