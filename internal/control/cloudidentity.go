package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// CloudIdentities lists the cloud identities, by name. SecretAccessKey is empty, unless it is a reference.
func (c *Control) CloudIdentities(ctx context.Context, actor catalog.Actor,
	pages ...store.Page) ([]catalog.CloudIdentity, error) {
	return read(ctx, c, actor, func(tx *store.Tx) ([]catalog.CloudIdentity, error) {
		return tx.CloudIdentities(actor.OrganizationID, pages...)
	})
}

// PutCloudIdentity makes or overwrites a cloud identity. An empty SecretAccessKey leaves the one that is kept, of the same access key.
// A text that is no reference is sealed, and in nothing that is given out any more.
func (c *Control) PutCloudIdentity(ctx context.Context, actor catalog.Actor, spec catalog.CloudIdentitySpec) (i catalog.CloudIdentity, err error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return i, err
	}
	if err := spec.Validate(); err != nil {
		return i, err
	}
	err = c.store.Update(ctx, func(tx *store.Tx) error {
		tx.Sign(actor, "cloud_identity.set")
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		action := catalog.Update
		if i, err = existing(tx.CloudIdentity(actor.OrganizationID, spec.Name)); err != nil {
			return err
		}
		if i.ID == "" {
			action = catalog.Create
		}
		if err := c.writeCloudIdentity(tx, actor.OrganizationID, &i, spec); err != nil {
			return err
		}
		return c.noteDeclared(tx, actor, string(action), catalog.KindCloudIdentity, i.Name, i.ID)
	})
	if err != nil {
		return catalog.CloudIdentity{}, err
	}
	c.redeclared(actor.OrganizationID)
	return i, nil
}

// writeCloudIdentity stores a cloud identity over what there is of it, which is empty for a new one, and seals its secret.
func (c *Control) writeCloudIdentity(tx *store.Tx, org string, i *catalog.CloudIdentity, spec catalog.CloudIdentitySpec) error {
	kept, ok := spec.Keep(i.CloudIdentitySpec)
	if !ok {
		return fault.New(fault.Invalid, "cloud_identity_secret", "the secret of the access key %s is missing", spec.AccessKeyID).
			WithHint("legwork cloud-identity set %s with the secret on standard input, or give a reference such as ${file:/run/aws-key}", spec.Name).
			WithDetails(fault.Problem{Field: "secret_access_key", Message: "is missing"})
	}
	if err := mostCloudIdentities(tx, org, i); err != nil {
		return err
	}
	i.OrganizationID, i.CloudIdentitySpec = org, kept.WithoutSecrets()
	if err := tx.PutCloudIdentity(i); err != nil {
		return err
	}
	switch secret := spec.SecretAccessKey; {
	case secret != "" && !spec.HasReference():
		sealed, err := c.safe.SealIdentity(i.ID, secret)
		if err != nil {
			return fmt.Errorf("keep the secret of a cloud identity: %w", err)
		}
		return tx.SealCloudIdentity(org, i.ID, sealed)
	case i.AccessKeyID == "" || i.SecretAccessKey != "":
		return tx.SealCloudIdentity(org, i.ID, nil)
	}
	return nil
}

func mostCloudIdentities(tx *store.Tx, org string, i *catalog.CloudIdentity) error {
	if i.ID != "" {
		return nil
	}
	all, err := tx.CloudIdentities(org)
	if err == nil && len(all) >= catalog.MaxCloudIdentities {
		err = fault.New(fault.Conflict, "too_many_cloud_identities", "there are %d cloud identities, and more than that are not kept", len(all)).
			WithHint("delete some: legwork cloud-identity list")
	}
	return err
}

// DeleteCloudIdentity deletes a cloud identity that no Runner names.
func (c *Control) DeleteCloudIdentity(ctx context.Context, actor catalog.Actor, name string) error {
	return c.remove(ctx, actor, catalog.Administer, catalog.KindCloudIdentity, func(tx *store.Tx) (string, string, error) {
		i, err := tx.CloudIdentity(actor.OrganizationID, name)
		if err != nil {
			return "", "", err
		}
		if err := identityUnused(tx, i); err != nil {
			return "", "", err
		}
		return i.ID, i.Name, tx.DeleteCloudIdentity(actor.OrganizationID, i.ID)
	})
}

func identityUnused(tx *store.Tx, i catalog.CloudIdentity) error {
	runners, err := tx.Runners(i.OrganizationID)
	if err != nil {
		return err
	}
	var users []string
	for _, r := range runners {
		if r.Hosting != nil && r.Hosting.CloudIdentity == i.Name {
			users = append(users, r.Name)
		}
	}
	if len(users) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "cloud_identity_used", "the cloud identity %s is that of Runners: %s", i.Name, strings.Join(users, ", ")).
		WithHint("give them another one, or remove them: legwork runner remove %s", users[0])
}

// identityFor gives as whom the launcher of a Runner works: the identity without its secret, nil for the launcher's own, and its keys as
// sensitive environment of the launcher, which the cloud's own libraries read.
func (c *Control) identityFor(tx *store.Tx, org string, hosting *catalog.Hosting) (*catalog.CloudIdentitySpec, []work.InputValue, error) {
	if hosting == nil || hosting.CloudIdentity == "" {
		return nil, nil, nil
	}
	i, err := tx.CloudIdentity(org, hosting.CloudIdentity)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil, fault.New(fault.Conflict, "cloud_identity_missing", "there is no cloud identity %q", hosting.CloudIdentity).
			WithHint("make it: legwork cloud-identity set %s", hosting.CloudIdentity).WithCause(err)
	case err != nil:
		return nil, nil, err
	}
	spec := i.CloudIdentitySpec
	spec.SecretAccessKey = ""
	if i.AccessKeyID == "" {
		return &spec, nil, nil
	}
	secret := i.SecretAccessKey
	if secret == "" {
		if secret, err = c.openIdentity(tx, i); err != nil {
			return nil, nil, err
		}
	}
	keys := []work.InputValue{
		{Name: "AWS_ACCESS_KEY_ID", Kind: catalog.Env, Sensitive: true},
		{Name: "AWS_SECRET_ACCESS_KEY", Kind: catalog.Env, Sensitive: true, Reference: i.HasReference()},
		{Name: "AWS_SESSION_TOKEN", Kind: catalog.Env}, // one of the host belongs to keys of the host
	}
	for n, text := range []string{i.AccessKeyID, secret, ""} {
		if keys[n].Value, err = json.Marshal(text); err != nil {
			return nil, nil, err
		}
	}
	return &spec, keys, nil
}

func (c *Control) openIdentity(tx *store.Tx, i catalog.CloudIdentity) (string, error) {
	sealed, err := tx.SealedCloudIdentity(i.OrganizationID, i.ID)
	if err != nil {
		return "", err
	}
	secret, err := c.safe.OpenIdentity(i.ID, sealed)
	if err != nil {
		return "", fault.New(fault.Failed, "cloud_identity_broken", "the secret of the cloud identity %s cannot be opened: it was sealed with another master key, or is damaged", i.Name).
			WithHint("give the Server its master key back, or set the identity anew").WithCause(err)
	}
	return secret, nil
}

// addCloudIdentities reads those of an Organization into what it declares.
func addCloudIdentities(tx *store.Tx, org string, s *catalog.Snapshot) error {
	all, err := tx.CloudIdentities(org)
	for _, v := range all {
		s.CloudIdentities = append(s.CloudIdentities, v.CloudIdentitySpec)
	}
	return err
}

// identityKnown refuses a hosted Runner whose cloud identity is not there.
func identityKnown(tx *store.Tx, org string, spec catalog.RunnerSpec) error {
	if spec.Hosting == nil || spec.Hosting.CloudIdentity == "" {
		return nil
	}
	_, err := tx.CloudIdentity(org, spec.Hosting.CloudIdentity)
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	return fault.New(fault.Invalid, "cloud_identity_missing", "there is no cloud identity %q", spec.Hosting.CloudIdentity).
		WithHint("make it: legwork cloud-identity set %s", spec.Hosting.CloudIdentity).
		WithDetails(fault.Problem{Field: "hosting.cloud_identity", Message: "is not there"})
}
