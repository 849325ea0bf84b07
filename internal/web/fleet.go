package web

import (
	"net/url"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

// runnerView is a Runner with its Instances, as pages show it.
type runnerView struct {
	control.RunnerView
	used, capacity int // places of the Instances that are there

	versions control.RunnerVersion
	demand   *control.Demand // of a hosted Runner, where it was asked for
}

// fleet gives the Runners by name, with how they are.
func (v *visit) fleet() ([]runnerView, error) {
	runners, err := v.Control.RunnerViews(v.ctx, v.actor)
	if err != nil {
		return nil, err
	}
	versions, err := v.Control.RunnerVersions(v.ctx, v.actor)
	views := make([]runnerView, len(runners))
	for i, r := range runners {
		views[i] = viewOf(r)
		views[i].versions = versions[r.ID]
	}
	return views, err
}

// fillDemand asks what is wanted of the hosted ones among some Runners.
func (v *visit) fillDemand(runners []runnerView) error {
	for i, r := range runners {
		if r.Hosting == nil {
			continue
		}
		d, err := v.Control.DemandOf(v.ctx, v.actor, r.ID)
		if err != nil {
			return err
		}
		runners[i].demand = &d
	}
	return nil
}

func viewOf(r control.RunnerView) runnerView {
	view := runnerView{RunnerView: r}
	for _, i := range r.Instances {
		if there(i) {
			view.used += i.Active
			view.capacity += i.Capacity
		}
	}
	return view
}

func there(i control.InstanceView) bool {
	return i.State == work.InstanceOnline || i.State == work.InstanceDraining
}

// online counts the Instances that are there.
func (r runnerView) online() int {
	n := 0
	for _, i := range r.Instances {
		if there(i) {
			n++
		}
	}
	return n
}

// version says which program the Instances are that are there: "1.4.0", or "1.3.2, 1.4.0"; without one, what was known last.
func (r runnerView) version() string {
	var all []string
	for _, i := range r.Instances {
		if there(i) && i.Version != "" && !slices.Contains(all, i.Version) {
			all = append(all, i.Version)
		}
	}
	if len(all) == 0 {
		return r.versions.Version
	}
	slices.Sort(all)
	if len(all) > 2 {
		return counted(len(all), "version")
	}
	return strings.Join(all, ", ")
}

// matches tells whether a search means the Runner: by its name, or by a label.
func (r runnerView) matches(search string) bool {
	search = strings.ToLower(search)
	if strings.Contains(strings.ToLower(r.Name), search) {
		return true
	}
	for name, value := range r.Labels {
		if strings.Contains(strings.ToLower(name+"="+value), search) {
			return true
		}
	}
	return false
}

// otherVersion tells whether an Instance that is there is of another version than the Server.
func (r runnerView) otherVersion(server string) bool {
	return slices.ContainsFunc(r.Instances, func(i control.InstanceView) bool { return there(i) && i.Version != "" && i.Version != server })
}

// reserved are the names below /runners that are no Runners: one that is named so is addressed by its id.
var reserved = []string{"new", "tokens", "update"}

// runnerPath gives the address of a Runner's page, or of something below it.
func runnerPath(r catalog.Runner, below ...string) string {
	name := r.Name
	if slices.Contains(reserved, name) {
		name = r.ID
	}
	path := "/runners/" + url.PathEscape(name)
	for _, b := range below {
		path += "/" + url.PathEscape(b)
	}
	return path
}

// resumable tells whether there is something to resume: the Runner drains, or each Instance that is there does.
func (r runnerView) resumable() bool {
	return r.Draining || r.Status == work.StatusDraining && !r.IsDisabled
}

// kind says whose machines the Runner's are.
func (r runnerView) kind() string {
	if r.Hosting != nil {
		return "hosted, " + launcherWord(r.Hosting.Launcher)
	}
	if r.Lifetime == catalog.Ephemeral {
		return "self-hosted, ephemeral"
	}
	return "self-hosted"
}

// region says where a Runner's Instances are, as far as it is known: as it is hosted, else by its label.
func (r runnerView) region() string {
	if r.Hosting != nil && r.Hosting.Region != "" {
		return r.Hosting.Region
	}
	return r.Labels["region"]
}

// link gives the address of a page when there is such a page, else "". What the pattern has in braces is replaced in order.
func (v *visit) link(pattern string, values ...string) string {
	if !v.paths[pattern] {
		return ""
	}
	for _, value := range values {
		begin, end := strings.IndexByte(pattern, '{'), strings.IndexByte(pattern, '}')
		if begin < 0 || end < begin {
			break
		}
		pattern = pattern[:begin] + url.PathEscape(value) + pattern[end+1:]
	}
	return pattern
}

// instanceText says of an Instance what its state does not.
func instanceText(i control.InstanceView) string {
	switch {
	case i.State == work.InstanceDraining && i.Leaving:
		return "Its process ends when its Jobs are over."
	case i.State == work.InstanceOnline && i.UnavailableReason != "":
		return "Takes no new jobs: " + i.UnavailableReason + "."
	}
	return ""
}

// connectionLost reports whether the connection of an instance that still counts as present was lost.
func connectionLost(i control.InstanceView) bool {
	return !i.Connected && !i.DisconnectedAt.IsZero() && (i.State == work.InstanceOnline || i.State == work.InstanceDraining)
}

// loadText says of a load what its bar does not.
func loadText(l work.InstanceLoad) string {
	if l == work.LoadStalled {
		return "stalled: a Job prints nothing"
	}
	return ""
}

// otherVersions names some Runners with their versions.
func otherVersions(runners []runnerView) string {
	var names []string
	for _, r := range first(runners, mostVersions) {
		names = append(names, r.Name+" ("+r.version()+")")
	}
	if more := len(runners) - mostVersions; more > 0 {
		names = append(names, number(more)+" more")
	}
	return strings.Join(names, ", ")
}
