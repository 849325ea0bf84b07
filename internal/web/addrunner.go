package web

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// addRunnerSheet registers a Runner, shows what it logs in with this once, and waits until it is there.
func addRunnerSheet() sheet {
	return sheet{path: "/runners/new", nav: "/runners", need: catalog.Administer,
		show: func(_ *visit, f form) (sheetContent, error) {
			return sheetContent{"Add a Runner", addRunnerForm(f)}, nil
		},
		act: func(v *visit, f form) (outcome, error) {
			spec, err := runnerSpecOf(f, catalog.RunnerSpec{})
			if err != nil {
				return outcome{}, err
			}
			made, err := v.Control.CreateRunner(v.ctx, v.actor, spec)
			if err != nil {
				return outcome{}, atField(noStack(err), "runner_exists", "name")
			}
			return shownSecret(v, "Start "+made.Runner.Name, made, nil), nil
		},
	}
}

// atField puts an error with a code to the field that it is about.
func atField(err error, code, field string) error {
	if found := fault.Of(err); err != nil && found.Code == code {
		return found.WithDetails(fault.Problem{Field: field, Message: strings.TrimSuffix(found.Message+"; "+found.Hint, "; ")})
	}
	return err
}

// arrival is a Runner that is waited for.
type arrival struct {
	*visit
	runnerView
	stream string       // address
	failed *fault.Fault // what went wrong after there was a secret to show
}

// arrivalPage shows whether a Runner is there: the sheet that was left by the one who starts it follows it.
func arrivalPage() page {
	return page{path: "/runners/{runner}/arrival", nav: "/runners", kinds: []string{"runner."}, every: 5 * time.Second, load: func(v *visit) (content, error) {
		a, err := v.arrivalOf(v.request.PathValue("runner"))
		if err != nil {
			return content{}, err
		}
		return content{title: "Start " + a.Name, crumbs: []crumb{{"Runners", "/runners"}}, body: arrivalBody(a), parts: []part{{id: "arrival", body: arrivalState(a)}}}, nil
	}}
}

func (v *visit) arrivalOf(runner string) (arrival, error) {
	r, err := v.runner(runner)
	return v.arrivalAt(r), err
}

func (v *visit) arrivalAt(r runnerView) arrival {
	at := *v.url
	at.Path, at.RawQuery = runnerPath(r.Runner, "arrival"), ""
	return arrival{visit: v, runnerView: r, stream: streamPath(&at, "")}
}

// isThere tells whether an Instance is.
func (a arrival) isThere() bool {
	return a.Status != work.StatusOffline && a.Status != work.StatusScaledToZero
}

// runnerSpecOf reads the form of a Runner's settings over what they are, and says which of its lines cannot be read.
func runnerSpecOf(f form, spec catalog.RunnerSpec) (catalog.RunnerSpec, error) {
	var problems []fault.Problem
	spec.Name = f.get("name")
	spec.Description = f.get("description")
	spec.OS, spec.Selection, spec.Lifetime = catalog.OS(f.get("os")), catalog.Selection(f.get("selection")), catalog.Lifetime(f.get("lifetime"))
	spec.AllowMultipleInstances = f.get("allow_multiple_instances") != ""
	spec.IsAssignedToAllModules = f.get("is_assigned_to_all_modules") != ""
	spec.Webhook = f.get("webhook")
	labels, err := labelsOf(f.get("labels"))
	if err != nil {
		problems = append(problems, fault.Problem{Field: "labels", Message: err.Error()})
	}
	spec.Labels = labels
	if spec.NodeFilters, err = nodeFiltersOf(f.get("node_filters")); err != nil {
		problems = append(problems, fault.Problem{Field: "node_filters", Message: err.Error()})
	}
	spec.MaxParallelJobs, spec.NodePriority = 0, 0
	for _, field := range []struct {
		name, wants string
		into        *int
	}{{"max_parallel_jobs", "wants a number, 0 for the limit of each instance", &spec.MaxParallelJobs}, {"node_priority", "wants a number", &spec.NodePriority}} {
		if text := f.get(field.name); text != "" {
			if _, err := fmt.Sscanf(text+"\n", "%d\n", field.into); err != nil {
				problems = append(problems, fault.Problem{Field: field.name, Message: field.wants})
			}
		}
	}
	return spec, problemsOf(spec, problems)
}

// problemsOf joins what could not be read with what the record itself finds wrong, so that all of it is said at once.
func problemsOf(spec catalog.RunnerSpec, problems []fault.Problem) error {
	if err := spec.Validate(); err != nil {
		for _, p := range fault.Of(err).Details {
			if strings.HasPrefix(p.Field, "labels[") {
				p.Field, p.Message = "labels", strings.TrimPrefix(p.Field, "labels")+" "+p.Message
			}
			if strings.HasPrefix(p.Field, "node_filters[") {
				p.Field, p.Message = "node_filters", strings.TrimPrefix(p.Field, "node_filters")+" "+p.Message
			}
			problems = append(problems, p)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "runner_invalid", "%s", problems[0]).WithDetails(problems...)
}

// labelsOf reads labels as people write them: a line or a comma for each, "region=eu".
func labelsOf(text string) (map[string]string, error) {
	labels := map[string]string{}
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if _, twice := labels[key]; !ok || key == "" || twice {
			return nil, fmt.Errorf("%q: each label is name=value, and has a name of its own", pair)
		}
		labels[key] = value
	}
	if len(labels) == 0 {
		return nil, nil
	}
	return labels, nil
}

// nodeFiltersOf reads Node filters, a line for each Stack: "prod: tags: web".
func nodeFiltersOf(text string) (map[string]string, error) {
	filters := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		stack, filter, ok := strings.Cut(line, ":")
		stack, filter = strings.TrimSpace(stack), strings.TrimSpace(filter)
		if _, twice := filters[stack]; !ok || stack == "" || filter == "" || twice {
			return nil, fmt.Errorf("%q: each line is STACK: FILTER, and has a Stack of its own", line)
		}
		filters[stack] = filter
	}
	if len(filters) == 0 {
		return nil, nil
	}
	return filters, nil
}

// nodeFiltersText writes Node filters as nodeFiltersOf reads them.
func nodeFiltersText(filters map[string]string) string {
	var lines []string
	for _, stack := range sortedKeys(filters) {
		lines = append(lines, stack+": "+filters[stack])
	}
	return strings.Join(lines, "\n")
}

// labelsText writes labels as labelsOf reads them.
func labelsText(labels map[string]string) string {
	var pairs []string
	for _, name := range sortedKeys(labels) {
		pairs = append(pairs, name+"="+labels[name])
	}
	return strings.Join(pairs, ", ")
}

// shownSecret is what a Runner logs in with, shown this once: whatever went wrong after it was made is said beside it.
func shownSecret(v *visit, title string, made control.NewRunner, later error) outcome {
	a, err := v.arrivalOf(made.Runner.ID)
	if err != nil {
		a = v.arrivalAt(viewOf(control.RunnerView{Runner: made.Runner}))
	}
	if later = cmp.Or(later, err); later != nil {
		a.failed = fault.Of(later)
		v.Log.Warn("a secret is shown, what was to follow failed", "runner", made.Runner.Name, "error", later)
	}
	return outcome{show: &sheetContent{title, startBody(a, v.startValuesOf(made))}}
}
