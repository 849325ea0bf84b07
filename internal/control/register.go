package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

const (
	registeredName         = "registered"   // of the Credential that registration makes
	maxRunners             = 10_000         // of an Organization, beyond which none registers itself
	earlierKept            = 3              // Credentials that the next one is to replace
	earlierTime            = 24 * time.Hour // that these go on at most, and that a request is known when it is repeated
	maxInstanceCredentials = 2_000          // of a Service principal; those of Instances that are gone disappear
)

// Proof is the Credential that a process holds already when it registers, checked by the one who took the request. Empty: none.
type Proof struct{ PrincipalID, CredentialID string }

// enrolment is a Registration on its way, with the Credential that the process proves to hold, as it is now.
type enrolment struct {
	catalog.Registration
	by  catalog.Registrar
	own store.Credential // empty: none
}

// proven finds the Credential that a process showed, once more: it may have ended since it was checked.
func proven(tx *store.Tx, org string, proof Proof) (store.Credential, error) {
	if proof.CredentialID == "" {
		return store.Credential{}, nil
	}
	own, _, err := tx.Credential(org, proof.PrincipalID, proof.CredentialID)
	if own, err = existing(own, err); err != nil || !own.ExpiresAt.IsZero() && !tx.Now().Before(own.ExpiresAt) {
		return store.Credential{}, err
	}
	return own, nil
}

// RegisterRunner makes the Runner that a process says it is, or overwrites it, or has a further Instance join it, and gives
// it a credential. It counts one use of the registration token, in the same transaction. The record is assigned to nothing.
//
// For a Runner that is there a process gets a credential only when it holds one of its Credentials, or when the same token
// made it: that replaces the earlier Credential. One of several Instances has a Credential for each, and only that Instance's own is
// replaced. The record changes only when the same token made it, for one process, which has no Credential to show.
//
// A repeated nonce is the same request, whose answer was lost: it costs no use, and ends only the Credential that it made before.
// Any other earlier one goes on until the new one is used, for a day at most.
func (c *Control) RegisterRunner(ctx context.Context, by catalog.Registrar, r catalog.Registration, proof Proof) (made NewRunner, err error) {
	if r.Lifetime == catalog.Ephemeral {
		r.AllowMultipleInstances = true
	}
	secret, hash := c.newSecret()
	actor := catalog.Actor{OrganizationID: by.OrganizationID, Name: "registration token " + by.Name, Address: by.Address}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "runner.register")
		if err := tx.LockCatalog(by.OrganizationID); err != nil {
			return err
		}
		made = NewRunner{OrganizationID: by.OrganizationID, ClientSecret: secret}
		action, err := c.registerIn(tx, enrolment{Registration: r, by: by}, proof, hash, &made)
		if err != nil {
			return err
		}
		if by.Launch != "" { // the record is as it was
			return c.publish(tx, by.OrganizationID, "runner.instance_registered", made.Runner.ID, InstanceEvent{Runner: made.Runner.Name, Instance: r.Instance})
		}
		return c.noteDeclared(tx, actor, action, catalog.KindRunner, made.Runner.Name, made.Runner.ID)
	})
	switch {
	case err != nil:
		c.noteForeignLocal(ctx, actor, by, err)
		return NewRunner{}, err
	case by.Launch != "":
		c.signal(by.OrganizationID)
	default:
		c.redeclared(by.OrganizationID)
	}
	return made, nil
}

// registerIn is RegisterRunner in its transaction, and tells what it did to the record.
func (c *Control) registerIn(tx *store.Tx, e enrolment, proof Proof, hash []byte, made *NewRunner) (action string, err error) {
	if e.by.Launch != "" {
		return "update", c.registerLaunched(tx, e, hash, made)
	}
	before, err := repeated(tx, e, &made.Runner)
	if err != nil {
		return "", err
	}
	if before.ID != "" {
		made.ClientID, err = remake(tx, made.Runner, before, hash)
		return "update", err
	}
	if err := use(tx, e.by); err != nil {
		return "", err
	}
	if e.Labels, err = e.by.LabelsFor(e.Labels); err != nil {
		return "", err
	}
	if err := e.Validate(); err != nil {
		return "", err
	}
	if e.own, err = proven(tx, e.by.OrganizationID, proof); err != nil {
		return "", err
	}
	if action, err = c.enroll(tx, e, &made.Runner); err != nil {
		return "", err
	}
	made.ClientID, err = replaceSecret(tx, made.Runner, e, hash)
	return action, err
}

// request names a Registration that may be repeated, by the same registration token alone; "" when it may not.
func (e enrolment) request() string {
	if e.Nonce == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(e.by.ID + "\x00" + e.Nonce))
	return hex.EncodeToString(sum[:])
}

// repeated finds the Credential that the same request made not long ago, and its Runner.
func repeated(tx *store.Tx, e enrolment, runner *catalog.Runner) (none store.Credential, err error) {
	request := e.request()
	if request == "" {
		return none, nil
	}
	r, err := existing(tx.Runner(e.by.OrganizationID, e.Name))
	if err != nil || r.ID == "" || r.Name != e.Name {
		return none, err
	}
	all, err := tx.Credentials(r.OrganizationID, r.ServicePrincipalID)
	if err != nil {
		return none, err
	}
	for _, c := range all {
		if c.Request == request && (c.Instance == "" || c.Instance == e.Instance) && tx.Now().Before(c.CreatedAt.Add(earlierTime)) {
			*runner = r
			return c, nil
		}
	}
	return none, nil
}

// remake puts a Credential in the place of one that nobody got to know.
func remake(tx *store.Tx, r catalog.Runner, before store.Credential, hash []byte) (clientID string, err error) {
	p, err := tx.Principal(r.OrganizationID, r.ServicePrincipalID)
	if err != nil {
		return "", err
	}
	next := before
	next.ID, next.Hash, next.LastUsedAt = "", hash, time.Time{}
	if err := tx.PutCredential(&next); err != nil {
		return "", err
	}
	if err := tx.PassReplaced(p.OrganizationID, p.ID, before.ID, next.ID); err != nil {
		return "", err
	}
	return p.ClientID, tx.DeleteCredential(p.OrganizationID, p.ID, before.ID)
}

// use takes one of the uses of a token. It was looked up before, and may be over since.
func use(tx *store.Tx, by catalog.Registrar) error {
	if !by.Stored {
		return nil
	}
	ok, err := tx.UseRegistrationToken(by.OrganizationID, by.ID)
	if err == nil && !ok {
		err = catalog.RegistrationRefused()
	}
	return err
}

// enroll finds or makes the record and tells what it did. One that an owner made, that the process proves to be, or that
// further Instances share stays as it is: what holds for all of them is not for one process to say.
func (c *Control) enroll(tx *store.Tx, e enrolment, runner *catalog.Runner) (action string, err error) {
	found, err := existing(tx.Runner(e.by.OrganizationID, e.Name))
	if err != nil {
		return "", err
	}
	if found.ID != "" && found.Name != e.Name { // a name that is the id of another
		found = catalog.Runner{}
	}
	*runner = found
	if found.ID == "" {
		return "create", c.enrollNew(tx, e, runner)
	}
	maker, err := tx.RegisteredBy(found.OrganizationID, found.ID)
	if err != nil {
		return "", err
	}
	proven := e.own.ID != "" && e.own.PrincipalID == found.ServicePrincipalID
	switch {
	case !proven && maker != e.by.ID:
		return "", fault.New(fault.Conflict, "runner_exists", "there is already a runner named %q, which this registration token did not make", e.Name).
			WithHint("set another Runner.Name, or ask an owner: legwork runner credential %s gives its process a secret, legwork runner delete %s makes room", e.Name, e.Name)
	case found.RunnerSpec.ServicePrincipalID != "":
		return "", fault.New(fault.Conflict, "principal_shared", "the runner %q logs in as a Service principal that an owner made", e.Name).
			WithHint("have an owner make a credential: legwork principal credential create %s", found.ServicePrincipalID)
	case found.AllowMultipleInstances && e.Instance == "":
		return "", fault.New(fault.Invalid, "instance_missing", "the runner %q has several Instances, and this one has no name", e.Name).WithHint("set Runner.Instance")
	case proven || found.AllowMultipleInstances:
		return "update", nil
	}
	return "update", c.putRegistered(tx, e, runner)
}

// putRegistered stores what a process says of its Runner.
func (c *Control) putRegistered(tx *store.Tx, e enrolment, runner *catalog.Runner) error {
	before := runner.Webhook
	if err := c.putRunner(tx, e.by.OrganizationID, runner, e.Over(runner.RunnerSpec)); err != nil {
		return err
	}
	return c.hooks.Set(tx, *runner, before, true)
}

func (c *Control) enrollNew(tx *store.Tx, e enrolment, runner *catalog.Runner) error {
	all, err := tx.Runners(e.by.OrganizationID)
	if err != nil {
		return err
	}
	if len(all) >= maxRunners {
		return fault.New(fault.Conflict, "too_many_runners", "there are %d runners already", len(all)).WithHint("have an owner delete some: legwork runner list")
	}
	runner.ServerOwned = e.by.ID == catalog.ServerRegistrar
	if err := c.putRegistered(tx, e, runner); err != nil {
		return err
	}
	return tx.NoteRegistration(e.by.OrganizationID, runner.ID, e.by.ID)
}

// replaceSecret gives a registered Runner, or one Instance of it, a secret in place of its earlier ones. Those that an
// owner made stay, but for the one that the process shows.
func replaceSecret(tx *store.Tx, r catalog.Runner, e enrolment, hash []byte) (clientID string, err error) {
	next := store.Credential{PrincipalID: r.ServicePrincipalID, Name: registeredName, Kind: "secret", Hash: hash, Request: e.request()}
	if r.AllowMultipleInstances {
		next.Instance, next.Name = e.Instance, fmt.Sprintf("%s instance %s", registeredName, e.Instance)
	}
	maker, err := tx.RegisteredBy(r.OrganizationID, r.ID)
	if err != nil {
		return "", err
	}
	all, err := tx.Credentials(r.OrganizationID, r.ServicePrincipalID)
	if err != nil {
		return "", err
	}
	joined := 0
	var earlier []store.Credential
	for _, old := range all {
		switch {
		case e.replaces(old, next, maker):
			earlier = append(earlier, old)
		case old.Instance != "" && old.ReplacedBy == "":
			joined++
		}
	}
	if joined >= maxInstanceCredentials {
		return "", fault.New(fault.Conflict, "too_many_instances", "%d Instances of the runner %s have registered already", joined, r.Name).
			WithHint("let each keep its token file over a restart; the credentials of Instances that are gone disappear by themselves")
	}
	p, err := tx.Principal(r.OrganizationID, r.ServicePrincipalID)
	if err != nil {
		return "", err
	}
	if err := tx.PutCredential(&next); err != nil {
		return "", err
	}
	return p.ClientID, endLater(tx, r.OrganizationID, earlier, next.ID)
}

// endLater has Credentials end once the next one is used: until then its answer may have been lost. Of many, those that were
// used last are kept.
func endLater(tx *store.Tx, org string, earlier []store.Credential, next string) error {
	slices.SortStableFunc(earlier, func(a, b store.Credential) int { return b.LastUsedAt.Compare(a.LastUsedAt) })
	for i, c := range earlier {
		if err := tx.PassReplaced(org, c.PrincipalID, c.ID, next); err != nil {
			return err
		}
		err := tx.ReplaceCredential(org, c.PrincipalID, c.ID, next, tx.Now().Add(earlierTime))
		if i >= earlierKept {
			err = tx.DeleteCredential(org, c.PrincipalID, c.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replaces tells whether a Credential ends because there is the next one: the one that the process showed, and any other
// that the same Instance, or the Runner of one alone, got by registering. Those of siblings are ended by nobody else; who
// only proves to be one Instance does not end those of the name that it gives itself.
func (e enrolment) replaces(old, next store.Credential, maker string) bool {
	if old.ID == e.own.ID {
		return true
	}
	mayName := maker == e.by.ID || old.Instance == e.own.Instance
	return old.Instance == next.Instance && mayName && (old.Instance != "" || old.Name == registeredName)
}

// Unregistered says what became of a Runner that unregistered.
type Unregistered struct {
	Runner  string
	Deleted bool // the record; else only the Instance and its Credential, and others go on
}

// UnregisterRunner deletes the Runner that an Actor logged in as, by id, unless it is named or at work. Where further
// Instances have registered, only the one goes whose Credential the Actor showed, or that Credential alone when it is of none.
func (c *Control) UnregisterRunner(ctx context.Context, actor catalog.Actor, runnerID string) (done Unregistered, err error) {
	if err := actor.Need(catalog.Connect); err != nil {
		return done, err
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "runner.unregister")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		r, err := tx.Runner(actor.OrganizationID, runnerID)
		if fault.Is(err, fault.NotFound) || err == nil && (r.ID != runnerID || r.ServicePrincipalID != actor.ID) {
			return fault.New(fault.NotFound, "no_such_runner", "these credentials belong to no Runner with the id %s", runnerID).
				WithHint("it may be deleted already: legwork runner unregister --local removes the file that is here")
		}
		if err != nil {
			return err
		}
		done.Runner = r.Name
		if r.RunnerSpec.ServicePrincipalID != "" {
			return fault.New(fault.Conflict, "principal_shared", "the runner %s logs in as a Service principal that an owner made", r.Name).
				WithHint("have an owner delete it: legwork runner delete %s", r.Name)
		}
		own, err := ownCredential(tx, actor)
		if err != nil {
			return err
		}
		others, err := leaveOthers(tx, r, own)
		if err != nil {
			return err
		}
		action := "update"
		if !others {
			done.Deleted, action = true, "delete"
			err = deleteRunner(tx, r)
		}
		if err != nil {
			return err
		}
		return c.noteDeclared(tx, actor, action, catalog.KindRunner, r.Name, r.ID)
	})
	if err != nil {
		return Unregistered{}, err
	}
	c.redeclared(actor.OrganizationID)
	return done, nil
}

// ownCredential finds the Credential that an Actor showed, which may have ended since.
func ownCredential(tx *store.Tx, actor catalog.Actor) (store.Credential, error) {
	own, _, err := tx.Credential(actor.OrganizationID, actor.ID, actor.CredentialID)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.Unauthenticated, "credential_gone", "the credential that this request was made with is not there any more").
			WithHint("if the Runner is deleted there, remove the file with: legwork runner unregister --local")
	}
	return own, err
}

// leaveOthers takes a Credential, and the Instance that it is of, out of a Runner in which further ones have registered. It
// gives false when there are none.
func leaveOthers(tx *store.Tx, r catalog.Runner, own store.Credential) (bool, error) {
	all, err := tx.Credentials(r.OrganizationID, r.ServicePrincipalID)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(all, func(c store.Credential) bool { return c.Instance != "" && c.Instance != own.Instance }) {
		return false, nil
	}
	if own.Instance != "" {
		if err := leaveInstance(tx, r, own.Instance); err != nil {
			return true, err
		}
	}
	for _, c := range all {
		if c.ID != own.ID && (own.Instance == "" || c.Instance != own.Instance) {
			continue
		}
		if err := tx.DeleteCredential(r.OrganizationID, r.ServicePrincipalID, c.ID); err != nil {
			return true, err
		}
	}
	return true, nil
}

// leaveInstance deletes an Instance, if it is there, unless it is at work.
func leaveInstance(tx *store.Tx, r catalog.Runner, name string) error {
	i, err := existing(tx.InstanceByName(r.OrganizationID, r.ID, name))
	if err != nil || i.ID == "" {
		return err
	}
	jobs, err := tx.BoundJobs(r.OrganizationID, i.ID)
	if err != nil {
		return err
	}
	if len(jobs) > 0 {
		return busy(jobs[0].Number, r.Name)
	}
	return tx.DeleteInstance(r.OrganizationID, i.ID)
}
