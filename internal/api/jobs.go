package api

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// JobRequest asks for a Job.
type JobRequest struct {
	Module string      `json:"module" maxLength:"300" doc:"Path (stack/namespace/module) or id of a Module."`
	Action work.Action `json:"action" enum:"plan,apply,destroy,run"`
}

// CancelRequest asks to end a Job.
type CancelRequest struct {
	Mode   work.CancelMode `json:"mode,omitempty" enum:"after-current,graceful,kill" default:"graceful"`
	Reason string          `json:"reason,omitempty" maxLength:"1000"`
}

// Decision is the word on a plan that waits for approval.
type Decision struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// JobPage is one page of Jobs, newest first.
type JobPage struct {
	Items []*work.Job `json:"items" nullable:"false"`
	Next  int64       `json:"next,omitempty" doc:"Ask for the next page with before=this. Missing on the last page."`
}

func (s *Server) registerJobs(h huma.API) {
	describeLimits(h)
	submit := operation("create-job", http.MethodPost, "/jobs", "Jobs", "Queue a Job of a Module")
	submit.DefaultStatus = http.StatusCreated
	handle(s, h, submit, s.createJob)
	handle(s, h, operation("list-jobs", http.MethodGet, "/jobs", "Jobs", "Jobs, newest first"), s.jobs)
	handle(s, h, operation("get-job", http.MethodGet, "/jobs/{id}", "Jobs", "One Job, by id or number"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[*work.Job], error) {
			return answer(s.Control.Job(ctx, actor, in.ID))
		})
	handle(s, h, operation("get-job-plan", http.MethodGet, "/jobs/{id}/plan", "Jobs", "What the plan of a Job would do, resource by resource"), s.jobPlan)
	handle(s, h, operation("cancel-job", http.MethodPost, "/jobs/{id}/cancel", "Jobs", "End a Job"), s.cancelJob)
	decide := func(approve bool) func(context.Context, catalog.Actor, *decideIn) (*body[*work.Job], error) {
		return func(ctx context.Context, actor catalog.Actor, in *decideIn) (*body[*work.Job], error) {
			return answer(s.Control.DecideJob(ctx, actor, in.ID, approve, in.reason()))
		}
	}
	handle(s, h, operation("approve-job", http.MethodPost, "/jobs/{id}/approve", "Jobs", "Approve the plan that a Job waits with"), decide(true))
	handle(s, h, operation("decline-job", http.MethodPost, "/jobs/{id}/decline", "Jobs", "Decline it"), decide(false))
	handle(s, h, operation("get-outputs", http.MethodGet, "/outputs", "Outputs", "The latest Output set of a Module"), s.outputs)
}

// describeLimits says what the durations of a Job's limits look like: the library sees numbers in their Go type.
func describeLimits(h huma.API) {
	schemas := h.OpenAPI().Components.Schemas
	limits := schemas.SchemaFromRef(schemas.Schema(reflect.TypeFor[work.Limits](), true, "").Ref)
	for name, property := range limits.Properties {
		if name != "max_attempts" {
			limits.Properties[name] = &huma.Schema{Type: huma.TypeString, Description: property.Description, Examples: []any{"1m0s"}}
		}
	}
}

type jobIn struct{ Body JobRequest }

type jobOut struct {
	Location string `header:"Location"`
	Body     *work.Job
}

func (s *Server) createJob(ctx context.Context, actor catalog.Actor, in *jobIn) (*jobOut, error) {
	job, err := s.Control.Submit(ctx, actor, control.SubmitRequest{Module: in.Body.Module, Action: in.Body.Action})
	if err != nil {
		return nil, err
	}
	return &jobOut{Location: prefix + "/jobs/" + job.ID, Body: job}, nil
}

type jobsIn struct {
	Status string `query:"status" maxLength:"200" doc:"States, separated by commas."`
	Module string `query:"module" maxLength:"300" doc:"Path or id of a Module."`
	Runner string `query:"runner" maxLength:"100" doc:"Name or id of a Runner."`
	Before int64  `query:"before" minimum:"0" doc:"Only Jobs with a smaller number."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (s *Server) jobs(ctx context.Context, actor catalog.Actor, in *jobsIn) (*body[JobPage], error) {
	filter := control.JobFilter{BeforeNumber: in.Before, Limit: in.Limit}
	for status := range strings.SplitSeq(in.Status, ",") {
		if status = strings.TrimSpace(status); status != "" {
			known, err := statusNamed(status)
			if err != nil {
				return nil, err
			}
			filter.Statuses = append(filter.Statuses, known)
		}
	}
	if in.Module != "" {
		module, err := s.Control.Module(ctx, actor, in.Module)
		if err != nil {
			return nil, err
		}
		filter.ModuleID = module.ID
	}
	if in.Runner != "" {
		runner, err := s.Control.Runner(ctx, actor, in.Runner)
		if err != nil {
			return nil, err
		}
		filter.RunnerID = runner.ID
	}
	jobs, err := s.Control.Jobs(ctx, actor, filter)
	page := JobPage{Items: jobs}
	if jobs == nil {
		page.Items = []*work.Job{}
	}
	if len(jobs) > 0 && len(jobs) == in.Limit {
		page.Next = jobs[len(jobs)-1].Number
	}
	return answer(page, err)
}

type cancelIn struct {
	ByID
	Body *CancelRequest
}

func (s *Server) cancelJob(ctx context.Context, actor catalog.Actor, in *cancelIn) (*body[*work.Job], error) {
	request := CancelRequest{Mode: work.Graceful}
	if in.Body != nil {
		request = *in.Body
	}
	return answer(s.Control.CancelJob(ctx, actor, in.ID, request.Mode, request.Reason))
}

type decideIn struct {
	ByID
	Body *Decision
}

func (in *decideIn) reason() string {
	if in.Body == nil {
		return ""
	}
	return in.Body.Reason
}

// Plan is what the plan of a Job would do. Whatever is sensitive was replaced on the Runner's host.
type Plan struct {
	Changes []work.ResourceChange `json:"changes" nullable:"false"`
}

func (s *Server) jobPlan(ctx context.Context, actor catalog.Actor, in *ByID) (*body[Plan], error) {
	changes, err := s.Control.JobPlan(ctx, actor, in.ID)
	if changes == nil {
		changes = []work.ResourceChange{}
	}
	return answer(Plan{Changes: changes}, err)
}

type outputsIn struct {
	Module        string `query:"module" required:"true" maxLength:"300" doc:"Path or id of a Module."`
	ShowSensitive bool   `query:"show_sensitive" doc:"With the values of sensitive outputs; needs the permission read_sensitive."`
}

func (s *Server) outputs(ctx context.Context, actor catalog.Actor, in *outputsIn) (*body[catalog.OutputSet], error) {
	return answer(s.Control.Outputs(ctx, actor, in.Module, in.ShowSensitive))
}

func statusNamed(name string) (work.Status, error) {
	if slices.Contains(work.Statuses, work.Status(name)) {
		return work.Status(name), nil
	}
	return "", fault.New(fault.Invalid, "status_unknown", "%q is not a state of a Job", name).WithHint("the states are %v", work.Statuses)
}
