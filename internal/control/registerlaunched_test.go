package control

import (
	"context"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// TestRegisterLaunched: a bootstrap token is good for one process of one name, once, in time; its request may be made again.
func TestRegisterLaunched(t *testing.T) {
	w := newWorld(t)
	s := &server{world: w, c: w.still()} // or a launch that no Job begins would be given up
	r := s.runner(s.owner(), catalog.RunnerSpec{Name: "edge", AllowMultipleInstances: true, Lifetime: catalog.Ephemeral,
		Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess}})
	s.runner(s.owner(), catalog.RunnerSpec{Name: "other", AllowMultipleInstances: true})
	launch := func(name string, state store.LaunchState, lasts time.Duration) catalog.Registrar {
		l := store.Launch{OrganizationID: s.org, RunnerID: r.ID, Name: name, State: state, EndedWhy: "it is over"}
		s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
			l.TokenExpires = tx.Now().Add(lasts)
			return tx.InsertLaunch(&l)
		}))
		return catalog.Registrar{OrganizationID: s.org, ID: "launch:" + l.ID, Name: name, Stored: true, Launch: l.ID}
	}
	register := func(by catalog.Registrar, runner, instance, nonce string) (NewRunner, error) {
		return s.c.RegisterRunner(context.Background(), by, catalog.Registration{Name: runner, Instance: instance, Lifetime: catalog.Ephemeral, Nonce: nonce}, Proof{})
	}
	const nonce = "0123456789abcdef"
	by := launch("edge-1", store.LaunchStarting, time.Hour)
	for what, wrong := range map[string][2]string{"another runner": {"other", "edge-1"}, "another instance": {"edge", "edge-2"}, "no instance": {"edge", ""}} {
		if _, err := register(by, wrong[0], wrong[1], nonce); fault.Code(err) != "bootstrap_token_other" {
			t.Errorf("%s: %v", what, err)
		}
	}
	first, err := register(by, "edge", "edge-1", nonce)
	s.must(err)
	second, err := register(by, "edge", "edge-1", nonce)
	s.must(err)
	if first.Runner.ID != r.ID || first.ClientID == "" || second.ClientID != first.ClientID || second.ClientSecret == first.ClientSecret {
		t.Errorf("it got %+v and then %+v", first, second)
	}
	var credentials []store.Credential
	s.must(s.store.View(context.Background(), func(tx *store.Tx) (err error) {
		all, err := tx.Credentials(s.org, first.Runner.ServicePrincipalID)
		for _, c := range all {
			if c.Instance == "edge-1" {
				credentials = append(credentials, c)
			}
		}
		return err
	}))
	if len(credentials) != 1 {
		t.Errorf("a request that was repeated made %d credentials", len(credentials))
	}
	late, over := launch("edge-3", store.LaunchStarting, -time.Second), launch("edge-4", store.LaunchGivenUp, time.Hour)
	for code, again := range map[string]func() (NewRunner, error){
		"bootstrap_token_used": func() (NewRunner, error) { return register(by, "edge", "edge-1", "another nonce 01") },
		"bootstrap_token_expired": func() (NewRunner, error) {
			if made, err := register(over, "edge", "edge-4", nonce); fault.Code(err) != "bootstrap_token_expired" {
				return made, err
			}
			return register(late, "edge", "edge-3", nonce)
		},
	} {
		if _, err := again(); fault.Code(err) != code || !fault.Is(err, fault.Unauthenticated) || fault.Of(err).Hint == "" {
			t.Errorf("%s: %v", code, err)
		}
	}
}
