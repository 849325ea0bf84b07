package api

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

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

	Priority work.Priority `json:"priority,omitempty" enum:"low,normal,high" default:"normal" doc:"Which of those that wait goes first: high has a head start of 10 minutes over normal, normal over low."`
	Force    bool          `json:"force,omitempty" doc:"Destroy the module although applied modules use its outputs."`
}

// CancelRequest asks to end a Job.
type CancelRequest struct {
	Mode   work.CancelMode `json:"mode,omitempty" enum:"after-current,graceful,kill" default:"graceful"`
	Reason string          `json:"reason,omitempty" maxLength:"1000"`
}

// Decline is the No to a plan that waits for approval.
type Decline struct {
	Reason string `json:"reason" pattern:"\\S" maxLength:"1000" doc:"Why the plan is declined: at least one character that is not a space. It is shown on the job."`
}

// Approve is the Yes to a plan that waits for approval.
type Approve struct {
	Reason   string `json:"reason,omitempty" maxLength:"1000"`
	PlanHash string `json:"plan_hash,omitempty" maxLength:"64" doc:"Hash of the plan that was looked at, required for a Job that has a plan. If the Job has another plan by now, the approval is refused."`
}

// JobPage is one page of Jobs, newest first.
type JobPage struct {
	Items []*work.Job `json:"items" nullable:"false"`
	Next  string      `json:"next,omitempty" doc:"Position of the next page, for before. Missing on the last page. A page of a search may hold few jobs, or none, and still have a next page."`
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
	handle(s, h, operation("approve-job", http.MethodPost, "/jobs/{id}/approve", "Jobs", "Approve the plan that a Job waits with"),
		func(ctx context.Context, actor catalog.Actor, in *decideIn[Approve]) (*body[*work.Job], error) {
			what := in.said()
			return answer(s.Control.ApproveJob(ctx, actor, in.ID, what.Reason, what.PlanHash))
		})
	handle(s, h, operation("decline-job", http.MethodPost, "/jobs/{id}/decline", "Jobs", "Decline the plan that a Job waits with, with a reason"),
		func(ctx context.Context, actor catalog.Actor, in *declineIn) (*body[*work.Job], error) {
			return answer(s.Control.DeclineJob(ctx, actor, in.ID, in.Body.Reason))
		})
	retry := operation("retry-job", http.MethodPost, "/jobs/{id}/retry", "Jobs", "Queue what a Job did anew, as its Module or Runbook is declared now")
	retry.DefaultStatus = http.StatusCreated
	retry.MaxBodyBytes = maxRunBody
	handle(s, h, retry, func(ctx context.Context, actor catalog.Actor, in *decideIn[RetryRequest]) (*jobOut, error) {
		if how := in.said(); how.FailedOnly || len(how.Options) > 0 {
			return s.retryFailed(ctx, actor, in.ID, how)
		}
		return created(s.Control.RetryJob(ctx, actor, in.ID))
	})
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
	return created(s.Control.Submit(ctx, actor, control.SubmitRequest{
		Module: in.Body.Module, Action: in.Body.Action, Priority: in.Body.Priority, Force: in.Body.Force,
	}))
}

// created answers with a Job that was queued just now.
func created(job *work.Job, err error) (*jobOut, error) {
	if err != nil {
		return nil, err
	}
	return &jobOut{Location: prefix + "/jobs/" + job.ID, Body: job}, nil
}

type jobsIn struct {
	Status string `query:"status" maxLength:"200" doc:"States, separated by commas."`
	Module string `query:"module" maxLength:"300" doc:"Path or id of a Module."`
	Runner string `query:"runner" maxLength:"100" doc:"Name or id of a Runner."`
	Action string `query:"action" enum:"plan,apply,destroy,run,deploy,update,remove,launch,tidy" doc:"The last five are of Jobs of kind runner."`
	Kind   string `query:"kind" enum:"module,runbook,command,discovery,secrets,runner"`
	All    bool   `query:"all" doc:"Also what the Server has done again and again by itself: discoveries of Nodes, and launches and tidies of hosted Runners. They are listed, too, when their kind, action or number is asked for."`

	Since  time.Time `query:"since" doc:"Created at or after."`
	Until  time.Time `query:"until" doc:"Created before."`
	Search string    `query:"search" maxLength:"200" doc:"Part of a Module's path or of the name of who created the Job, or the Job's number."`

	Before int64 `query:"before" minimum:"0" doc:"Only jobs with a smaller number: next of the previous page. Default: the newest jobs."`
	Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Largest number of items to return."`
}

func (s *Server) jobs(ctx context.Context, actor catalog.Actor, in *jobsIn) (*body[JobPage], error) {
	filter := control.JobFilter{Action: work.Action(in.Action), Since: in.Since, Until: in.Until, Search: strings.TrimSpace(in.Search),
		Kind: work.Kind(in.Kind), BeforeNumber: in.Before, Limit: in.Limit}
	filter.WithoutChores = !in.All && !asksForChores(filter)
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
	found, err := s.Control.JobPage(ctx, actor, filter)
	page := JobPage{Items: found.Jobs, Next: nextNumber(found.Next)}
	if page.Items == nil {
		page.Items = []*work.Job{}
	}
	return answer(page, err)
}

// asksForChores tells whether somebody looks for what lists leave out.
func asksForChores(f control.JobFilter) bool {
	_, notNumber := strconv.ParseInt(strings.TrimPrefix(f.Search, "#"), 10, 64)
	return f.Kind != "" || f.Action == work.Launch || f.Action == work.Tidy || notNumber == nil
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

type declineIn struct {
	ByID
	Body Decline
}

type decideIn[T any] struct {
	ByID
	Body *T
}

// said is the body, which may be left out.
func (in *decideIn[T]) said() (said T) {
	if in.Body != nil {
		said = *in.Body
	}
	return said
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
