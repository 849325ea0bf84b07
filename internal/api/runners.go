package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// Instance is one Runner process that is or was connected.
type Instance struct {
	ID         string            `json:"id"`
	RunnerID   string            `json:"runner_id"`
	Name       string            `json:"name"`
	State      string            `json:"state" enum:"new,online,draining,offline"`
	Active     int               `json:"active" doc:"Jobs that take a place there now."`
	Version    string            `json:"version" doc:"Of the program."`
	Capability int               `json:"capability" doc:"Of the messages it speaks."`
	OS         string            `json:"os"`
	Arch       string            `json:"arch"`
	Capacity   int               `json:"capacity" doc:"Jobs at once."`
	Engines    map[string]string `json:"engines" doc:"Version by engine."`
	Labels     map[string]string `json:"labels,omitempty"`
	LastSeen   time.Time         `json:"last_seen"`
	CreatedAt  time.Time         `json:"created_at"`
}

// Connected tells whether there is a Session with the Instance.
func (i Instance) Connected() bool {
	return i.State == string(control.InstanceOnline) || i.State == string(control.InstanceDraining)
}

func instanceOf(i control.InstanceView) Instance {
	return Instance{
		ID: i.ID, RunnerID: i.RunnerID, Name: i.Name, State: string(i.State), Active: i.Active, Version: i.Version,
		Capability: i.Capability, OS: i.OS, Arch: i.Arch, Capacity: i.Capacity, Engines: i.Engines, Labels: i.Labels,
		LastSeen: i.LastSeen, CreatedAt: i.CreatedAt,
	}
}

// CreatedRunner is a new Runner with its credentials. The secret is in no other answer.
type CreatedRunner struct {
	catalog.Runner
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret" doc:"Shown this once."`
}

func (s *Server) registerRunners(h huma.API) {
	handle(s, h, operation("list-runners", http.MethodGet, "/runners", "Runners", "Every Runner"),
		func(ctx context.Context, actor catalog.Actor, _ *none) (*body[listOf[catalog.Runner]], error) {
			return answerList(s.Control.Runners(ctx, actor))
		})
	handle(s, h, operation("get-runner", http.MethodGet, "/runners/{id}", "Runners", "One Runner"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[catalog.Runner], error) {
			return answer(s.Control.Runner(ctx, actor, in.ID))
		})
	create := operation("create-runner", http.MethodPost, "/runners", "Runners", "Create a Runner with credentials")
	create.DefaultStatus = http.StatusCreated
	handle(s, h, create, s.createRunner)
	rotate := operation("rotate-runner-credential", http.MethodPost, "/runners/{id}/credential", "Runners", "Give a Runner a new client secret; earlier ones end")
	rotate.DefaultStatus = http.StatusCreated
	rotate.Description = "Short tokens that were had with earlier ones end within seconds. Sessions that are open go on, unless disconnect is set."
	handle(s, h, rotate, s.rotateCredential)
	handle(s, h, operation("put-runner", http.MethodPut, "/runners/{id}", "Runners", "Change a Runner"), s.putRunner)
	handle(s, h, operation("delete-runner", http.MethodDelete, "/runners/{id}", "Runners", "Delete a Runner with its credentials"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
			return nil, s.Control.DeleteRunner(ctx, actor, in.ID)
		})

	handle(s, h, operation("list-assignments", http.MethodGet, "/assignments", "Assignments", "Every Assignment, or those of a Runner"), s.assignments)
	assign := operation("create-assignment", http.MethodPost, "/assignments", "Assignments", "Give a Stack, Namespace or Module the right to use a Runner")
	assign.DefaultStatus = http.StatusCreated
	handle(s, h, assign, s.createAssignment)
	handle(s, h, operation("delete-assignment", http.MethodDelete, "/assignments/{id}", "Assignments", "Take that right back"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
			return nil, s.Control.DeleteAssignment(ctx, actor, in.ID)
		})

	handle(s, h, operation("list-instances", http.MethodGet, "/instances", "Instances", "Every Instance, or those of a Runner"), s.instances)
	handle(s, h, operation("set-draining", http.MethodPut, "/instances/{id}/draining", "Instances", "Let an Instance take no further Job, or take Jobs again"), s.setDraining)
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
	return answer(s.Control.UpdateRunner(ctx, actor, in.ID, in.Body))
}

type ofRunner struct {
	Runner string `query:"runner" maxLength:"100" doc:"Id or name of a Runner."`
}

func (s *Server) assignments(ctx context.Context, actor catalog.Actor, in *ofRunner) (*body[listOf[catalog.Assignment]], error) {
	return answerList(s.Control.Assignments(ctx, actor, in.Runner))
}

type assignmentIn struct{ Body catalog.AssignmentSpec }

func (s *Server) createAssignment(ctx context.Context, actor catalog.Actor, in *assignmentIn) (*body[catalog.Assignment], error) {
	return answer(s.Control.CreateAssignment(ctx, actor, in.Body))
}

func (s *Server) instances(ctx context.Context, actor catalog.Actor, in *ofRunner) (*body[listOf[Instance]], error) {
	found, err := s.Control.Instances(ctx, actor, in.Runner)
	instances := make([]Instance, len(found))
	for i := range found {
		instances[i] = instanceOf(found[i])
	}
	return answerList(instances, err)
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
