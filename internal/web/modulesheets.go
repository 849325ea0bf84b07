package web

import (
	"bytes"
	"maps"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// moduleSheets are what a person may have done with a Module: its actions, each with a form that says what will happen, and to see
// its sensitive outputs.
func moduleSheets() []sheet {
	sheets := []sheet{revealSheet(), releaseStateSheet()}
	for _, a := range []work.Action{work.Plan, work.Apply, work.Destroy, work.Run} {
		sheets = append(sheets, submitSheet(a))
	}
	return sheets
}

var actionWords = map[work.Action]string{work.Plan: "Plan", work.Apply: "Apply", work.Destroy: "Destroy", work.Run: "Run"}

func actionWord(a work.Action) string { return orWord(actionWords[a], string(a)) }

var priorityOptions = []option{
	{string(work.PriorityNormal), "Normal", "In the order in which Jobs come."},
	{string(work.PriorityHigh), "High", "Jumps ahead of jobs queued in the last 10 minutes."},
	{string(work.PriorityLow), "Low", "After normal ones of the next ten minutes."},
}

func submitSheet(a work.Action) sheet {
	return sheet{path: formPath + "/" + string(a), nav: "/modules", need: catalog.Operate,
		show: func(v *visit, f form) (sheetContent, error) {
			m, err := v.module()
			return sheetContent{actionWord(a) + " " + m.Path() + "?", submitForm(m, a, f)}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			m, err := v.module()
			if err != nil {
				return outcome{}, err
			}
			if a == work.Destroy {
				if err := destroyConfirmed(m.Name, f); err != nil {
					return outcome{}, err
				}
			}
			j, err := v.Control.Submit(v.ctx, v.actor, control.SubmitRequest{
				Module: m.ID, Action: a, Priority: work.Priority(f.get("priority")), Force: f.get("force") != "",
			})
			if err != nil {
				return outcome{}, err
			}
			next := v.link("/jobs/{job}", number(j.Number))
			return outcome{next: orWord(next, m.at()), note: "Job #" + number(j.Number) + " is queued."}, nil
		},
	}
}

// destroyConfirmed refuses to destroy what a Module built before its name was typed, however it is asked for.
func destroyConfirmed(name string, f form) error {
	if f.get("confirm") == name {
		return nil
	}
	return fault.New(fault.Invalid, "not_confirmed", "the name is not that of the Module").
		WithDetails(fault.Problem{Field: "confirm", Message: "type " + name + " to destroy what it built"})
}

// revealSheet shows the sensitive outputs to who may see them. That it was done stands in the audit.
func revealSheet() sheet {
	return sheet{path: formPath + "/outputs", nav: "/modules", need: catalog.ReadSensitive,
		show: func(v *visit, f form) (sheetContent, error) {
			m, err := v.module()
			return sheetContent{"Show the sensitive outputs?", revealForm(m, f)}, err
		},
		act: func(v *visit, _ form) (outcome, error) {
			m, err := v.module()
			if err != nil {
				return outcome{}, err
			}
			set, err := v.Control.Outputs(v.ctx, v.actor, m.ID, true)
			if err != nil {
				return outcome{}, err
			}
			maps.DeleteFunc(set.Values, func(_ string, o catalog.OutputValue) bool { return !o.Sensitive })
			return outcome{show: &sheetContent{"Sensitive outputs of " + m.Path(), revealedOutputs(m, set)}}, nil
		},
	}
}

// releaseStateSheet lets jobs start on other instances than the one that holds the local state.
func releaseStateSheet() sheet {
	return sheet{path: formPath + "/release-state", nav: "/modules", need: catalog.Operate,
		show: func(v *visit, f form) (sheetContent, error) {
			m, err := v.module()
			return sheetContent{"Release the state of " + m.Path() + "?", releaseStateForm(m, f)}, err
		},
		act: func(v *visit, f form) (outcome, error) {
			m, err := v.module()
			if err != nil {
				return outcome{}, err
			}
			_, err = v.Control.ReleaseState(v.ctx, v.actor, m.Declared.ID, f.get("start_empty") != "")
			return outcome{next: m.at(), note: "The state of " + m.Path() + " is released."}, err
		},
	}
}

func outputNames(values map[string]catalog.OutputValue) []string {
	return slices.Sorted(maps.Keys(values))
}

// isHidden tells whether a sensitive output was left out.
func isHidden(o catalog.OutputValue) bool { return bytes.Equal(o.Value, []byte(`"(sensitive)"`)) }

// replaced gives the Job that a new one of this action takes the place of, nil for none.
func (m moduleView) replaced(a work.Action) *work.Job {
	for _, j := range m.Waiting {
		if j.Action == a {
			return j
		}
	}
	return nil
}

// willDo says what a Job of this action does.
func (m moduleView) willDo(a work.Action) []string {
	asks := work.NeedsApproval(m.Effective.Approval, a)
	switch a {
	case work.Plan:
		return []string{"It shows what an apply would do now, and changes nothing."}
	case work.Destroy:
		if asks {
			return []string{"It plans to destroy everything that this Module built, and waits then until a person approves."}
		}
		return []string{"It destroys everything that this Module built, without asking again. That cannot be undone."}
	case work.Run:
		if asks {
			return []string{"It waits until a person approves, and runs the script then."}
		}
		return []string{"It runs the script."}
	}
	if asks {
		return []string{"It plans, and waits then until a person approves what it would do."}
	}
	return []string{"Plans and auto-applies."}
}
