package work

import "testing"

// Every Step of a Runner Job is the Server's own, a launcher's, or the Instance's own, and no two of them.
func TestWhoPerformsAStep(t *testing.T) {
	kinds := map[StepKind]bool{}
	for _, action := range []Action{Deploy, Update, Remove, Launch, Tidy} {
		for _, hosted := range []bool{true, false} {
			for _, s := range StepsOfRunner(action, hosted) {
				kinds[s.Kind] = true
			}
		}
	}
	if len(kinds) < 9 {
		t.Fatalf("the Steps are %v", kinds)
	}
	for kind := range kinds {
		one := 0
		for _, is := range []bool{kind.Own(), kind.ByLauncher(), kind == StepInstall} {
			if is {
				one++
			}
		}
		if one != 1 {
			t.Errorf("%s: the Server's own %v, a launcher's %v", kind, kind.Own(), kind.ByLauncher())
		}
	}
	if StepPlan.ByLauncher() || StepApply.ByLauncher() {
		t.Error("a launcher plans or applies")
	}
}
