package web

import (
	"testing"

	"legwork/internal/control"
	"legwork/internal/work"
)

func TestOutdatedSays(t *testing.T) {
	held := control.RunnerVersion{Version: "1.0.0", Newest: "1.1.0", Outdated: true, Held: "updates is off"}
	free, under := held, held
	free.To, free.Held = "1.0.1", ""
	under.Updating = &work.Job{Number: 7}
	local := control.RunnerVersion{Version: "1.0.0", Newest: "1.1.0", Held: "instance local is part of another program"}
	for want, versions := range map[string][]control.RunnerVersion{
		"0 Runners are outdated. None of them can be updated from here.":                      {local},
		"1 Runner is outdated. It cannot be updated from here.":                               {held, local},
		"1 Runner is outdated. It can be updated from here.":                                  {free},
		"1 Runner is outdated. It is being updated.":                                          {under, local},
		"3 Runners are outdated. 2 of them can be updated from here.":                         {free, held, free},
		"2 Runners are outdated. None of them can be updated from here.":                      {held, held},
		"2 Runners are outdated. 1 of them can be updated from here; 1 is being updated.":     {free, under},
		"3 Runners are outdated. None of them can be updated from here; 2 are being updated.": {under, held, under},
		"4 Runners are outdated. 1 of them can be updated from here; 1 is being updated.":     {under, held, held, free, local},
	} {
		var fleet []runnerView
		for _, v := range versions {
			fleet = append(fleet, runnerView{versions: v})
		}
		o := outdated(fleet)
		if got := o.text() + " " + o.how(); got != want || o.newest != "1.1.0" {
			t.Errorf("%q, not %q; the newest is %q", got, want, o.newest)
		}
		if left := upgrades(fleet); len(left) != o.all {
			t.Errorf("%q: the sheet lists %d", want, len(left))
		}
	}
}

// TestVersionOfARunner counts the Instances that are there; without one it is what was known last.
func TestVersionOfARunner(t *testing.T) {
	i := func(version string, state work.InstanceState) control.InstanceView {
		v := control.InstanceView{State: state}
		v.Version = version
		return v
	}
	r := runnerView{versions: control.RunnerVersion{Version: "1.0.0"}}
	r.Instances = []control.InstanceView{i("1.0.0", work.InstanceOffline), i("1.0.1", work.InstanceOffline), i("1.0.2", work.InstanceOffline)}
	if got := r.version(); got != "1.0.0" {
		t.Errorf("with none there it is %q", got)
	}
	r.Instances = append(r.Instances, i("1.2.0", work.InstanceOnline))
	if got := r.version(); got != "1.2.0" {
		t.Errorf("with one there it is %q", got)
	}
	r.Instances = append(r.Instances, i("1.1.0", work.InstanceDraining))
	if got := r.version(); got != "1.1.0, 1.2.0" {
		t.Errorf("with two there it is %q", got)
	}
}

func TestSentence(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"no instance is online":                "No instance is online.",
		"pool2-ed089581 is of another release": "pool2-ed089581 is of another release.",
		"pool-eu.west-0123abcd: it ended":      "pool-eu.west-0123abcd: it ended.",
		"pool-edge is of another release":      "Pool-edge is of another release.",
		"iOS is none":                          "iOS is none.",
		"1 job waits":                          "1 job waits.",
	} {
		if got := sentence(text); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}
