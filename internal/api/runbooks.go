package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// maxRunBody bounds a request to run something: files may be among the values of Options.
const maxRunBody = 16 << 20

// RunRequest says how a Runbook is to be run.
type RunRequest struct {
	Options   map[string]any `json:"options,omitempty" doc:"Values by the names of the Runbook's Options: of their types, or texts as on a command line. Those of secret ones are sealed, and never shown."`
	Nodes     string         `json:"nodes,omitempty" maxLength:"4096" doc:"A Node filter in place of the Runbook's."`
	NodeNames []string       `json:"node_names,omitempty" maxItems:"10000" doc:"Of the Nodes that match, these alone."`
	FailedOf  string         `json:"failed_of,omitempty" maxLength:"100" doc:"Id or number of an earlier Job of this Runbook: only on the Nodes that did not come through it, with its Options where none are given."`
	Check     bool           `json:"check,omitempty" doc:"Playbooks say what they would change, and change nothing."`
	Priority  work.Priority  `json:"priority,omitempty" enum:"low,normal,high" default:"normal"`
}

// RunbookProblems is what is wrong with a Runbook.
type RunbookProblems struct {
	Valid    bool            `json:"valid"`
	Problems []fault.Problem `json:"problems" nullable:"false"`
}

func (s *Server) registerRunbooks(h huma.API) {
	handle(s, h, operation("list-runbooks", http.MethodGet, "/runbooks", "Runbooks", "Every Runbook, or those of a Stack"),
		func(ctx context.Context, actor catalog.Actor, in *inStackIn) (*body[listOf[catalog.Runbook]], error) {
			key := func(one catalog.Runbook) sortKey { return sortKey{one.Stack, one.Name} }
			return listPage(in, key, func(p control.Page) ([]catalog.Runbook, error) {
				return s.Control.Runbooks(ctx, actor, in.Stack, p)
			})
		})
	handle(s, h, operation("get-runbook", http.MethodGet, "/runbooks/{stack}/{name}", "Runbooks", "One Runbook, with the next times of its Schedules"),
		func(ctx context.Context, actor catalog.Actor, in *ByStack) (*body[control.RunbookView], error) {
			return answer(s.Control.Runbook(ctx, actor, in.nodePath()))
		})
	put := operation("put-runbook", http.MethodPut, "/runbooks/{stack}/{name}", "Runbooks", "Create or change a Runbook")
	put.Description = replacesAll
	put.MaxBodyBytes = catalog.MaxManifestFile
	handle(s, h, put, s.putRunbook)
	validate := operation("validate-runbook", http.MethodPost, "/runbooks/validate", "Runbooks", "What would be wrong with a Runbook, without declaring it")
	validate.MaxBodyBytes = catalog.MaxManifestFile
	handle(s, h, validate, s.validateRunbook)
	handle(s, h, operation("delete-runbook", http.MethodDelete, "/runbooks/{stack}/{name}", "Runbooks", "Delete a Runbook to which no other refers"),
		func(ctx context.Context, actor catalog.Actor, in *ByStack) (*none, error) {
			return nil, s.Control.DeleteRunbook(ctx, actor, in.nodePath())
		})
	handle(s, h, operation("list-next-runs", http.MethodGet, "/runbooks/{stack}/{name}/next", "Runbooks", "When the Schedules of a Runbook run it next"),
		func(ctx context.Context, actor catalog.Actor, in *nextIn) (*body[listOf[control.ScheduleView]], error) {
			key := func(one control.ScheduleView) sortKey { return sortKey{one.Name} }
			return listPage(in, key, inOrder(key, func() ([]control.ScheduleView, error) {
				return s.Control.NextRuns(ctx, actor, in.nodePath(), in.Count)
			}))
		})
	values := operation("list-option-values", http.MethodGet, "/runbooks/{stack}/{name}/options/{option}/values", "Runbooks", "The values that an Option offers")
	values.Description = "Of an Option with values_from the Server asks the URL now: within 5 s, for at most 1 MiB, without following redirects."
	handle(s, h, values, s.optionValues)
	run := operation("run-runbook", http.MethodPost, "/runbooks/{stack}/{name}/run", "Runbooks", "Queue a Job of a Runbook")
	run.DefaultStatus = http.StatusCreated
	run.MaxBodyBytes = maxRunBody
	handle(s, h, run, s.runRunbook)
}

type nextIn struct {
	ByStack
	Page
	Count int `query:"count" minimum:"1" maximum:"100" default:"5" doc:"Times of each Schedule."`
}

type putRunbookIn struct {
	ByStack
	Body catalog.RunbookSpec
}

func (s *Server) putRunbook(ctx context.Context, actor catalog.Actor, in *putRunbookIn) (*body[control.RunbookView], error) {
	in.fill(&in.Body.Stack, &in.Body.Name)
	if err := samePath(in.nodePath(), in.Body.Path()); err != nil {
		return nil, err
	}
	if _, err := s.Control.ApplyManifest(ctx, actor, oneRunbook(in.Body), false); err != nil {
		return nil, err
	}
	return answer(s.Control.Runbook(ctx, actor, in.nodePath()))
}

func oneRunbook(spec catalog.RunbookSpec) catalog.Manifest {
	return catalog.Manifest{Runbooks: []catalog.Declared[catalog.RunbookSpec]{{Spec: spec}}}
}

type validateRunbookIn struct{ Body catalog.RunbookSpec }

// validateRunbook answers with the problems that would refuse the Runbook; any other error is one of the request.
func (s *Server) validateRunbook(ctx context.Context, actor catalog.Actor, in *validateRunbookIn) (*body[RunbookProblems], error) {
	_, err := s.Control.ApplyManifest(ctx, actor, oneRunbook(in.Body), true)
	switch {
	case err == nil:
		return answer(RunbookProblems{Valid: true, Problems: []fault.Problem{}}, nil)
	case !fault.Is(err, fault.Invalid):
		return nil, err
	}
	found := RunbookProblems{Problems: fault.Of(err).Details}
	if len(found.Problems) == 0 {
		found.Problems = []fault.Problem{{Message: fault.Of(err).Message}}
	}
	return answer(found, nil)
}

type optionValuesIn struct {
	ByStack
	Page
	Option string   `path:"option" maxLength:"100"`
	Given  []string `query:"given,explode" maxItems:"100" doc:"name=value of an Option that stands before it."`
}

func (s *Server) optionValues(ctx context.Context, actor catalog.Actor, in *optionValuesIn) (*body[listOf[control.OfferedValue]], error) {
	given := map[string]any{}
	for _, pair := range in.Given {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fault.New(fault.Invalid, "given_option", "a value is given as name=value").WithDetails(fault.Problem{Field: "given", Message: "write name=value"})
		}
		given[name] = value
	}
	key := func(one control.OfferedValue) sortKey { return sortKey{one.Value} }
	return listPage(in, key, inOrder(key, func() ([]control.OfferedValue, error) {
		return s.Control.OptionValues(ctx, actor, in.nodePath(), in.Option, given)
	}))
}

type runRunbookIn struct {
	ByStack
	Body *RunRequest
}

func (s *Server) runRunbook(ctx context.Context, actor catalog.Actor, in *runRunbookIn) (*jobOut, error) {
	var r RunRequest
	if in.Body != nil {
		r = *in.Body
	}
	request := control.RunRequest{Runbook: in.nodePath(), Options: r.Options, Nodes: r.Nodes, NodeNames: r.NodeNames, Priority: r.Priority, Check: r.Check}
	if r.FailedOf != "" {
		if err := s.isOf(ctx, actor, r.FailedOf, in.nodePath()); err != nil {
			return nil, err
		}
		request.Runbook, request.RetryOf = "", r.FailedOf
	}
	return created(s.Control.SubmitRun(ctx, actor, request))
}

// isOf refuses an earlier Job that is not of the Runbook.
func (s *Server) isOf(ctx context.Context, actor catalog.Actor, job, runbook string) error {
	if err := actor.Need(catalog.Operate); err != nil {
		return err
	}
	b, err := s.Control.Runbook(ctx, actor, runbook)
	if err != nil {
		return err
	}
	j, err := s.Control.Job(ctx, actor, job)
	if err == nil && j.RunbookID != b.ID {
		err = fault.New(fault.Invalid, "other_runbook", "job #%d is not of the runbook %s", j.Number, b.Path()).WithHint("see: legwork job list")
	}
	return err
}
