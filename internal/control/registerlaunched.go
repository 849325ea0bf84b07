package control

import (
	"legwork/internal/fault"
	"legwork/internal/store"
)

// registerLaunched gives a process that a launcher started a Credential of its own, for the bootstrap token that it shows. The record of its
// Runner stays as it is, whoever made it. A repeated nonce is the same request, whose answer was lost.
func (c *Control) registerLaunched(tx *store.Tx, e enrolment, hash []byte, made *NewRunner) error {
	l, err := tx.Launch(e.by.OrganizationID, e.by.Launch)
	if err != nil {
		return err
	}
	r, err := tx.Runner(l.OrganizationID, l.RunnerID)
	if err != nil {
		return err
	}
	if e.Name != r.Name || e.Instance != l.Name {
		return fault.New(fault.Unauthenticated, "bootstrap_token_other", "this bootstrap token is for the Instance %s of the runner %s alone", l.Name, r.Name).
			WithHint("start the process with the settings that its launcher gives it")
	}
	made.Runner = r
	before, err := repeated(tx, e, &made.Runner)
	if err != nil {
		return err
	}
	if before.ID != "" {
		made.ClientID, err = remake(tx, made.Runner, before, hash)
		return err
	}
	if err := goodToken(tx, l); err != nil {
		return err
	}
	if err := e.Validate(); err != nil {
		return err
	}
	l.TokenUsedAt = tx.Now()
	if err := tx.SaveLaunch(l); err != nil {
		return err
	}
	p, err := tx.Principal(r.OrganizationID, r.ServicePrincipalID)
	if err != nil {
		return err
	}
	made.ClientID = p.ClientID
	return tx.PutCredential(&store.Credential{PrincipalID: p.ID, Name: registeredName + " instance " + l.Name, Kind: "secret", Hash: hash,
		Request: e.request(), Instance: l.Name})
}

// goodToken refuses a bootstrap token that was used, or that came too late.
func goodToken(tx *store.Tx, l store.Launch) error {
	switch {
	case !l.TokenUsedAt.IsZero():
		return fault.New(fault.Unauthenticated, "bootstrap_token_used", "the bootstrap token of the Instance %s was used already", l.Name).
			WithHint("it is good for one process, once: if that was not yours, remove the Runner's launches and look who reads their environment")
	case !l.State.Open():
		return fault.New(fault.Unauthenticated, "bootstrap_token_expired", "the launch of the Instance %s is over: %s", l.Name, l.EndedWhy).
			WithHint("end this process: another one is launched when it is needed")
	case !l.TokenExpires.IsZero() && !tx.Now().Before(l.TokenExpires):
		return fault.New(fault.Unauthenticated, "bootstrap_token_expired", "the bootstrap token of the Instance %s expired", l.Name).
			WithHint("end this process; if launches take that long, raise hosting.launch_timeout")
	}
	return nil
}
