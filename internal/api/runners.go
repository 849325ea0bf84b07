package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

// Instance is one Runner process that is or was connected.
type Instance struct {
	ID        string `json:"id"`
	RunnerID  string `json:"runner_id"`
	Name      string `json:"name"`
	State     string `json:"state" enum:"new,online,draining,offline" doc:"offline: it left, or nothing was heard of it for over 60 seconds."`
	Load      string `json:"load" enum:"idle,busy,saturated,stalled" doc:"stalled: a Job there has printed nothing for half of its stall time."`
	Connected bool   `json:"connected" doc:"There is a Session with it. An Instance whose connection was lost stays online for a while."`
	Leaving   bool   `json:"leaving,omitempty" doc:"Its process ends when its Jobs are over; that cannot be undone."`
	// UnavailableReason is empty while the instance takes jobs.
	UnavailableReason string            `json:"unavailable_reason,omitempty" doc:"Why it takes no new jobs for now, such as too little free disk space. Missing while it takes jobs."`
	Active            int               `json:"active" doc:"Jobs that take a place there now."`
	Version           string            `json:"version" doc:"Of the program."`
	Capability        int               `json:"capability" doc:"Of the messages it speaks."`
	OS                string            `json:"os"`
	Arch              string            `json:"arch"`
	Capacity          int               `json:"capacity" doc:"Jobs at once."`
	Engines           map[string]string `json:"engines" doc:"Version by engine."`
	Labels            map[string]string `json:"labels,omitempty"`
	LastSeen          time.Time         `json:"last_seen"`
	// DisconnectedAt is missing while it is connected.
	DisconnectedAt time.Time `json:"disconnected_at,omitzero" doc:"When its last connection ended. Missing while it is connected."`
	CreatedAt      time.Time `json:"created_at"`
}

func instanceOf(i control.InstanceView) Instance {
	return Instance{
		ID: i.ID, RunnerID: i.RunnerID, Name: i.Name, State: string(i.State), Load: string(i.Load), Active: i.Active,
		Connected: i.Connected, Leaving: i.Leaving, UnavailableReason: i.UnavailableReason, Version: i.Version,
		Capability: i.Capability, OS: i.OS, Arch: i.Arch, Capacity: i.Capacity, Engines: i.Engines, Labels: i.Labels,
		LastSeen: i.LastSeen, DisconnectedAt: i.DisconnectedAt, CreatedAt: i.CreatedAt,
	}
}

// RunnerView is a Runner with how it is now.
type RunnerView struct {
	catalog.Runner
	Health   string   `json:"health" enum:"healthy,degraded,offline" doc:"degraded: a persistent Instance is missing."`
	Status   string   `json:"status" enum:"ONLINE,DRAINING,OFFLINE,SCALED_TO_ZERO" doc:"ONLINE: it takes Jobs. DRAINING: it is there and takes no new Jobs. SCALED_TO_ZERO: it is hosted and has no Instance, because no Job needs one."`
	Reason   string   `json:"reason" doc:"A sentence for health and status."`
	Warnings []string `json:"warnings" nullable:"false" doc:"Sentences, such as why an instance takes no new jobs for now."`
	Draining bool     `json:"draining" doc:"Instances that connect from now on drain, too, until the Runner is resumed."`
	HostOS   string   `json:"host_os,omitempty" doc:"That its Instances must have: declared, else of the first one."`
	Present  int      `json:"instances_present" doc:"Instances that are online or draining."`

	Type    string        `json:"type" enum:"hosted,self-hosted" doc:"hosted: Legwork starts and stops its processes, as hosting says."`
	Region  string        `json:"region,omitempty" doc:"Of a hosted one: that of hosting, else of its Cloud identity."`
	Version RunnerVersion `json:"version"`
}

func runnerOf(v control.RunnerView, facts runnerFacts) RunnerView {
	r := RunnerView{Runner: v.Runner, Health: string(v.Health), Status: string(v.Status), Reason: v.Reason, Warnings: v.Warnings,
		Draining: v.Draining, HostOS: string(v.HostOS)}
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	for _, i := range v.Instances {
		if i.State == work.InstanceOnline || i.State == work.InstanceDraining {
			r.Present++
		}
	}
	facts.host(&r)
	return r
}

// CreatedRunner is a new Runner with its credentials. The secret is in no other answer.
type CreatedRunner struct {
	catalog.Runner
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret,omitempty" doc:"Shown this once. Missing where the Runner logs in with the credentials of the Service principal that it names."`
}

func (s *Server) registerRunners(h huma.API) {
	handle(s, h, operation("list-runners", http.MethodGet, "/runners", "Runners", "Every Runner"),
		func(ctx context.Context, actor catalog.Actor, in *Page) (*body[listOf[RunnerView]], error) {
			key := func(one RunnerView) sortKey { return sortKey{one.Name} }
			return listPage(in, key, func(p control.Page) ([]RunnerView, error) { return s.runnerViews(ctx, actor, p) })
		})
	handle(s, h, operation("get-runner", http.MethodGet, "/runners/{id}", "Runners", "One Runner"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[RunnerView], error) {
			found, err := s.Control.RunnerView(ctx, actor, in.ID)
			if err != nil {
				return nil, err
			}
			facts, err := s.runnerFacts(ctx, actor, found)
			return answer(runnerOf(found, facts), err)
		})
	create := operation("create-runner", http.MethodPost, "/runners", "Runners", "Create a Runner with credentials")
	create.DefaultStatus = http.StatusCreated
	handle(s, h, create, s.createRunner)
	rotate := operation("rotate-runner-credential", http.MethodPost, "/runners/{id}/credential", "Runners", "Give a Runner a new client secret; earlier ones end")
	rotate.DefaultStatus = http.StatusCreated
	rotate.Description = "Short tokens that were had with earlier ones end within seconds. Sessions that are open go on, unless disconnect is set."
	handle(s, h, rotate, s.rotateCredential)
	put := operation("put-runner", http.MethodPut, "/runners/{id}", "Runners", "Change a Runner")
	put.Description = replacesAll + " Without service_principal_id it logs in as before."
	handle(s, h, put, s.putRunner)
	handle(s, h, operation("delete-runner", http.MethodDelete, "/runners/{id}", "Runners", "Delete a Runner with its credentials"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
			return nil, s.Control.DeleteRunner(ctx, actor, in.ID)
		})

	handle(s, h, operation("list-assignments", http.MethodGet, "/assignments", "Assignments", "Every Assignment, or those of a Runner"), s.assignments)
	handle(s, h, operation("get-assignment", http.MethodGet, "/assignments/{id}", "Assignments", "One Assignment"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[catalog.Assignment], error) {
			found, err := s.Control.Assignments(ctx, actor, "")
			return answerOne("assignment", in.ID, found, err, itself)
		})
	assign := operation("create-assignment", http.MethodPost, "/assignments", "Assignments", "Give a Stack, Namespace or Module the right to use a Runner")
	assign.DefaultStatus = http.StatusCreated
	handle(s, h, assign, s.createAssignment)
	handle(s, h, operation("delete-assignment", http.MethodDelete, "/assignments/{id}", "Assignments", "Delete an assignment"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
			return nil, s.Control.DeleteAssignment(ctx, actor, in.ID)
		})

	handle(s, h, operation("list-instances", http.MethodGet, "/instances", "Instances", "Every Instance, or those of a Runner"), s.instances)
	handle(s, h, operation("set-draining", http.MethodPut, "/instances/{id}/draining", "Instances", "Let an Instance take no further Job, or take Jobs again"), s.setDraining)
	drain := operation("set-runner-draining", http.MethodPut, "/runners/{id}/draining", "Runners", "Let all Instances of a Runner take no further Job, or take Jobs again")
	drain.Description = "Instances that connect while it lasts drain, too. When it answers, no Job that waits will be bound to a draining Instance; Jobs that are bound go on."
	handle(s, h, drain, s.setRunnerDraining)
	remove := operation("remove-instance", http.MethodDelete, "/instances/{id}", "Instances", "Forget an Instance that will not come back")
	remove.Description = "Refused while it is connected and while a Job is bound to it."
	handle(s, h, remove, func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
		return nil, s.Control.RemoveInstance(ctx, actor, in.ID)
	})
}

func (s *Server) runnerViews(ctx context.Context, actor catalog.Actor, p control.Page) ([]RunnerView, error) {
	found, err := s.Control.RunnerViews(ctx, actor, p)
	if err != nil {
		return nil, err
	}
	facts, err := s.runnerFacts(ctx, actor, found...)
	return each(found, err, func(v control.RunnerView) RunnerView { return runnerOf(v, facts) })
}

type runnerIn struct{ Body catalog.RunnerSpec }

func (s *Server) createRunner(ctx context.Context, actor catalog.Actor, in *runnerIn) (*body[CreatedRunner], error) {
	made, err := s.Control.CreateRunner(ctx, actor, in.Body)
	if err != nil {
		return nil, err
	}
	return &body[CreatedRunner]{createdRunner(made)}, nil
}

func createdRunner(made control.NewRunner) CreatedRunner {
	return CreatedRunner{Runner: made.Runner, ClientID: made.ClientID, ClientSecret: made.ClientSecret}
}

type rotateIn struct {
	ByID
	Disconnect bool `query:"disconnect" doc:"End the Sessions of the Runner, too: its processes have to log in again."`
}

func (s *Server) rotateCredential(ctx context.Context, actor catalog.Actor, in *rotateIn) (*body[CreatedRunner], error) {
	made, err := s.Control.RotateRunnerCredential(ctx, actor, in.ID)
	if err != nil {
		return nil, err
	}
	s.Access.Forget()
	if in.Disconnect {
		if err := s.Control.DisconnectRunner(ctx, actor, made.Runner.ID); err != nil {
			s.Log.Warn("sessions of a runner not ended", "runner_id", made.Runner.ID, "error", err) // the secret is shown only now
		}
	}
	return answer(createdRunner(made), nil)
}

type putRunnerIn struct {
	ByID
	Body catalog.RunnerSpec
}

func (s *Server) putRunner(ctx context.Context, actor catalog.Actor, in *putRunnerIn) (*body[catalog.Runner], error) {
	if in.Body.Name == "" {
		runner, err := s.Control.Runner(ctx, actor, in.ID)
		if err != nil {
			return nil, err
		}
		in.Body.Name = runner.Name
	}
	return answer(s.Control.UpdateRunner(ctx, actor, in.ID, in.Body))
}

type ofRunner struct {
	Page
	Runner string `query:"runner" maxLength:"100" doc:"Id or name of a Runner."`
}

func (s *Server) assignments(ctx context.Context, actor catalog.Actor, in *ofRunner) (*body[listOf[catalog.Assignment]], error) {
	return listPage(in, assignmentKey, func(p control.Page) ([]catalog.Assignment, error) {
		return s.Control.Assignments(ctx, actor, in.Runner, p)
	})
}

func assignmentKey(a catalog.Assignment) sortKey {
	scope, _ := catalog.ParseScope(a.Scope) // the store wrote it
	return sortKey{a.Runner, scope.Stack, scope.Namespace, scope.Module}
}

type assignmentIn struct{ Body catalog.AssignmentSpec }

func (s *Server) createAssignment(ctx context.Context, actor catalog.Actor, in *assignmentIn) (*body[catalog.Assignment], error) {
	return answer(s.Control.CreateAssignment(ctx, actor, in.Body))
}

func (s *Server) instances(ctx context.Context, actor catalog.Actor, in *ofRunner) (*body[listOf[Instance]], error) {
	key := func(one Instance) sortKey { return sortKey{one.Name, one.ID} }
	return listPage(in, key, func(p control.Page) ([]Instance, error) {
		found, err := s.Control.Instances(ctx, actor, in.Runner, p)
		return each(found, err, instanceOf)
	})
}

type drainingIn struct {
	ByID
	Body struct {
		Draining bool `json:"draining"`
	}
}

func (s *Server) setDraining(ctx context.Context, actor catalog.Actor, in *drainingIn) (*none, error) {
	return nil, s.Control.SetDraining(ctx, actor, in.ID, in.Body.Draining)
}

func (s *Server) setRunnerDraining(ctx context.Context, actor catalog.Actor, in *drainingIn) (*none, error) {
	return nil, s.Control.SetRunnerDraining(ctx, actor, in.ID, in.Body.Draining)
}
