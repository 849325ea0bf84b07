package work

import "testing"

func TestStateExpectationCheck(t *testing.T) {
	known := &StateReport{Backend: "local", Local: true, Exists: true, Lineage: "a", Serial: 5}
	local := func(lineage string, serial int64) StateReport {
		return StateReport{Backend: "local", Local: true, Exists: lineage != "", Lineage: lineage, Serial: serial}
	}
	for name, c := range map[string]struct {
		expected StateExpectation
		action   Action
		found    StateReport
		want     string
	}{
		"nothing known, nothing found": {StateExpectation{}, Apply, local("", 0), ""},
		"the same":                     {StateExpectation{Known: known}, Apply, local("a", 5), ""},
		"newer, after a lost apply":    {StateExpectation{Known: known}, Apply, local("a", 6), ""},
		"outdated":                     {StateExpectation{Known: known}, Apply, local("a", 4), "state_outdated"},
		"another":                      {StateExpectation{Known: known}, Apply, local("b", 9), "state_mismatch"},
		"missing":                      {StateExpectation{Known: known}, Destroy, local("", 0), "state_missing"},
		"missing for a plan":           {StateExpectation{Known: known}, Plan, local("", 0), "state_missing"},
		"without a lineage":            {StateExpectation{Known: &StateReport{Local: true, Exists: true}}, Apply, local("x", 1), ""},
		"ephemeral apply":              {StateExpectation{Ephemeral: true}, Apply, local("", 0), "state_on_ephemeral_instance"},
		"ephemeral destroy":            {StateExpectation{Ephemeral: true}, Destroy, local("", 0), "state_on_ephemeral_instance"},
		"ephemeral plan":               {StateExpectation{Ephemeral: true}, Plan, local("", 0), ""},
		"ephemeral with a backend":     {StateExpectation{Ephemeral: true, Known: known}, Apply, StateReport{Backend: "s3"}, ""},
		"moved into a backend":         {StateExpectation{Known: known}, Apply, StateReport{Backend: "http"}, ""},
		"backend taken out": {StateExpectation{Known: &StateReport{Backend: "s3", Exists: true}}, Apply,
			local("", 0), "state_missing"},
	} {
		got := ""
		if f := c.expected.Check("s/n/m", c.action, c.found); f != nil {
			got = f.Code
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestEligibleKeepsToTheHolderOfTheState(t *testing.T) {
	need := Need{Runner: "edge", Engine: "opentofu", Holder: StateHolder{RunnerID: "r", Runner: "edge", Instance: "a"}}
	candidate := func(instance string, online bool) Candidate {
		return Candidate{RunnerID: "r", Runner: "edge", Instance: instance, Online: online, Free: 1, Engines: map[string]string{"opentofu": "1"}}
	}
	for name, c := range map[string]struct {
		candidates []Candidate
		want       WaitCode
	}{
		"nobody":     {nil, WaitStateInstance},
		"another":    {[]Candidate{candidate("b", true)}, WaitStateInstance},
		"offline":    {[]Candidate{candidate("a", false)}, WaitStateInstance},
		"the holder": {[]Candidate{candidate("a", true), candidate("b", true)}, WaitNone},
	} {
		eligible, wait := Eligible(need, c.candidates)
		if wait.Code != c.want {
			t.Errorf("%s: got %+v, want %q", name, wait, c.want)
		}
		for _, e := range eligible {
			if e.Instance != "a" {
				t.Errorf("%s: got instance %s, want a", name, e.Instance)
			}
		}
	}
}
