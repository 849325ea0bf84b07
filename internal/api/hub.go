package api

import (
	"net/http"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/wire"
)

const (
	hubPath           = wire.HubPath
	maxInstanceLength = 128
)

// runnerHub is the door for Runners. Who asks is known, and belongs to the Runner record that it names, before
// the connection becomes a Session.
func (s *Server) runnerHub(w http.ResponseWriter, r *http.Request) {
	who, err := s.runnerAtDoor(r)
	if err != nil {
		s.writeProblem(w, r, err)
		return
	}
	if s.Draining() {
		s.writeProblem(w, r, fault.New(fault.Unavailable, "server_stopping", "the Server is stopping").WithHint("connect again in a moment"))
		return
	}
	conn, err := wire.Upgrade(w, r)
	if err != nil {
		s.Log.Debug("session not accepted", "runner_id", who.RunnerID, "error", err)
		return
	}
	if err := s.Control.ServeRunner(r.Context(), conn, who); err != nil {
		s.Log.Info("session ended", "runner_id", who.RunnerID, "instance", who.Instance, "error", err)
	}
}

// runnerAtDoor checks the token and what the query says against it.
func (s *Server) runnerAtDoor(r *http.Request) (control.RunnerIdentity, error) {
	var none control.RunnerIdentity
	actor, err := s.Access.Authenticate(r.Context(), bearer(r))
	if err != nil {
		return none, err
	}
	if err := actor.Need(catalog.Connect); err != nil {
		return none, fault.New(fault.Forbidden, "not_a_runner", "this token is not that of a Runner").
			WithHint("log in at /connect/token with the client id and secret of the Runner")
	}
	query := r.URL.Query()
	who := control.RunnerIdentity{
		OrganizationID: query.Get("organization_id"), RunnerID: query.Get("runner_id"), Instance: query.Get("runner_instance"),
	}
	switch {
	case who.RunnerID == "" || who.OrganizationID == "":
		return none, fault.New(fault.Invalid, "query_incomplete", "organization_id and runner_id must be in the query").WithHint("set Runner.Id and Runner.OrganizationId")
	case who.Instance == "" || len(who.Instance) > maxInstanceLength:
		return none, fault.New(fault.Invalid, "instance_invalid", "runner_instance must have 1 to %d characters", maxInstanceLength).WithHint("set Runner.Instance")
	case who.OrganizationID != actor.OrganizationID:
		return none, fault.New(fault.Forbidden, "wrong_organization", "the Runner that logged in is not of the Organization that it names").
			WithHint("set Runner.OrganizationId to the organization_id that was shown when the Runner was created")
	}
	return who, s.ownRunner(r, actor, who)
}

// ownRunner checks that the Runner record is the one that logged in.
func (s *Server) ownRunner(r *http.Request, actor catalog.Actor, who control.RunnerIdentity) error {
	var runner catalog.Runner
	err := s.Store.View(r.Context(), func(tx *store.Tx) (err error) {
		runner, err = tx.Runner(actor.OrganizationID, who.RunnerID)
		return err
	})
	switch {
	case fault.Is(err, fault.NotFound) || (err == nil && runner.ID != who.RunnerID):
		return fault.New(fault.NotFound, "no_such_runner", "the Server knows no Runner with the id %s", who.RunnerID).
			WithHint("set Runner.Id to the id that was shown when the Runner was created")
	case err != nil:
		return err
	case runner.ServicePrincipalID != actor.ID:
		return fault.New(fault.Forbidden, "other_runner", "the credentials belong to another Runner than the one named").
			WithHint("set Runner.Id and Runner.Credentials from the same `legwork runner create`")
	}
	return nil
}
