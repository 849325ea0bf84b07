package api

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/wire"
)

const (
	hubPath           = wire.HubPath
	maxInstanceLength = 128
)

// runnerHub is the door for Runners. Who asks is known, and belongs to the Runner record that it names, before
// the connection becomes a Session.
func (s *Server) runnerHub(w http.ResponseWriter, r *http.Request) {
	who, actor, err := s.runnerAtDoor(r)
	if err != nil {
		s.writeProblem(w, r, err)
		return
	}
	if s.Draining() {
		s.writeProblem(w, r, fault.New(fault.Unavailable, "server_stopping", "the Server is stopping").WithHint("connect again in a moment"))
		return
	}
	if s.sessions.Add(1) > int64(s.MaxSessions) {
		s.sessions.Add(-1)
		s.writeProblem(w, r, fault.New(fault.Unavailable, "too_many_sessions", "this Server has as many Sessions as it may: %d", s.MaxSessions).
			WithHint("raise max_sessions, or run another Server; the Runner tries again by itself"))
		return
	}
	conn, err := wire.Upgrade(w, r)
	if err != nil {
		s.sessions.Add(-1)
		s.Log.Debug("session not accepted", "runner_id", who.RunnerID, "error", err)
		return
	}
	go s.serveRunner(context.Background(), conn, who, actor) // not here: the request and its buffers would stay as long
}

// serveRunner serves a Session to its end, which comes when the Actor's Credential is revoked.
func (s *Server) serveRunner(ctx context.Context, conn *wire.Conn, who control.RunnerIdentity, actor catalog.Actor) {
	defer s.sessions.Add(-1)
	defer s.whileGranted(actor, sync.OnceFunc(func() {
		s.Log.Info("session ends: its credential was revoked", "runner_id", who.RunnerID, "instance", who.Instance)
		go conn.Close(wire.CloseUnauthorized, "the credential that this Session was opened with was revoked")
	}))()
	defer func() {
		if cause := recover(); cause != nil {
			s.Log.Error("session panicked", "runner_id", who.RunnerID, "instance", who.Instance, "panic", cause, "stack", string(debug.Stack()))
			conn.Close(wire.CloseUnavailable, "something went wrong inside the Server")
		}
	}()
	if err := s.Control.ServeRunner(ctx, conn, who); err != nil {
		s.Log.Info("session ended", "runner_id", who.RunnerID, "instance", who.Instance, "error", err)
	}
}

// runnerAtDoor checks the token and what the query says against it.
func (s *Server) runnerAtDoor(r *http.Request) (control.RunnerIdentity, catalog.Actor, error) {
	var none control.RunnerIdentity
	actor, err := s.Access.AuthenticateNow(r.Context(), bearer(r))
	if err != nil {
		return none, actor, err
	}
	if err := actor.Need(catalog.Connect); err != nil {
		return none, actor, fault.New(fault.Forbidden, "not_a_runner", "this token is not that of a Runner").
			WithHint("log in at /connect/token with the client id and secret of the Runner")
	}
	query := r.URL.Query()
	who := control.RunnerIdentity{
		OrganizationID: query.Get("organization_id"), RunnerID: query.Get("runner_id"), Instance: query.Get("runner_instance"),
	}
	switch {
	case who.RunnerID == "" || who.OrganizationID == "":
		return none, actor, fault.New(fault.Invalid, "query_incomplete", "organization_id and runner_id must be in the query").WithHint("set Runner.Id and Runner.OrganizationId")
	case who.Instance == "" || len(who.Instance) > maxInstanceLength:
		return none, actor, fault.New(fault.Invalid, "instance_invalid", "runner_instance must have 1 to %d characters", maxInstanceLength).WithHint("set Runner.Instance")
	case who.OrganizationID != actor.OrganizationID:
		return none, actor, fault.New(fault.Forbidden, "wrong_organization", "the Runner that logged in is not of the Organization that it names").
			WithHint("set Runner.OrganizationId to the organization_id that was shown when the Runner was created")
	}
	return who, actor, s.Control.OwnRunner(r.Context(), actor, who)
}
