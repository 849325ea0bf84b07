package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

func instances(t *testing.T, w *world) {
	org, runner := w.a.org.ID, w.a.runner.ID
	i := store.Instance{
		OrganizationID: org, RunnerID: runner, Name: "host", KeyHash: []byte{0, 1, 255}, Version: "1", OS: "linux", Arch: "amd64",
		Capability: 1, Capacity: 4, Engines: map[string]string{"opentofu": "1.12.6"}, Labels: map[string]string{"a": "b"}, Draining: true,
		SessionID: "s1", ServerID: "server-1", Connected: true, LastSeen: time.Now().UTC().Truncate(time.Microsecond),
	}
	w.update(func(tx *store.Tx) error { return tx.PutInstance(&i) })
	t.Run("read back", func(t *testing.T) {
		w.view(func(tx *store.Tx) error {
			got, err := tx.InstanceByName(org, runner, "host")
			sameText(t, "by name", got, i)
			byID, idErr := tx.Instance(org, i.ID)
			sameText(t, "by id", byID, i)
			all, listErr := tx.Instances(org, "")
			same(t, "all", len(all), 1)
			other, otherErr := tx.Instances(w.b.org.ID, "")
			same(t, "of the other", len(other), 0)
			return errors.Join(err, idErr, listErr, otherErr)
		})
	})
	t.Run("a name is there once per Runner", func(t *testing.T) {
		twin := i
		twin.ID = ""
		w.fails(fault.Conflict, "a second one", func(tx *store.Tx) error { return tx.PutInstance(&twin) })
		twin.OrganizationID, twin.RunnerID, twin.SessionID = w.b.org.ID, w.b.runner.ID, "s2"
		w.update(func(tx *store.Tx) error { return tx.PutInstance(&twin) })
		w.fails(fault.NotFound, "out of another Organization", func(tx *store.Tx) error {
			_, err := tx.InstanceByName(org, w.b.runner.ID, twin.Name)
			return err
		})
		w.update(func(tx *store.Tx) error { _, err := tx.EndSession("s2", tx.Now(), false); return err })
	})
	get := func() (got store.Instance) {
		w.view(func(tx *store.Tx) (err error) { got, err = tx.Instance(org, i.ID); return err })
		return got
	}
	t.Run("touching many", func(t *testing.T) {
		at := i.LastSeen.Add(time.Minute)
		sessions := []string{"s1"}
		for n := range 1000 {
			sessions = append(sessions, fmt.Sprint("other-", n))
		}
		slices.Reverse(sessions)
		w.update(func(tx *store.Tx) error { return tx.TouchInstances(sessions, at) })
		same(t, "last seen", get().LastSeen, at)
		w.update(func(tx *store.Tx) error { return tx.TouchInstances(nil, at.Add(time.Hour)) })
		same(t, "last seen", get().LastSeen, at)
	})
	t.Run("an older Session ends nothing", func(t *testing.T) {
		w.update(func(tx *store.Tx) error { _, err := tx.EndSession("s0", tx.Now(), false); return err })
		same(t, "connected", get().Connected, true)
		w.update(func(tx *store.Tx) error { _, err := tx.EndSession("s1", tx.Now(), false); return err })
		same(t, "connected", get().Connected, false)
	})
	t.Run("those that another Server holds, or that have labels", func(t *testing.T) {
		plain := store.Instance{OrganizationID: org, RunnerID: runner, Name: "plain", SessionID: "s7", ServerID: "server-7", Connected: true}
		labeled := plain
		labeled.Name, labeled.SessionID, labeled.Labels = "labeled", "s8", map[string]string{"region": "eu"}
		w.update(func(tx *store.Tx) error { return errors.Join(tx.PutInstance(&plain), tx.PutInstance(&labeled)) })
		names := func(org, server string) (names []string) {
			w.view(func(tx *store.Tx) error {
				found, err := tx.InstancesBeyond(org, server)
				for _, i := range found {
					if i.RunnerID != runner || i.Name == "plain" || i.Name == "labeled" {
						names = append(names, i.Name)
					}
				}
				return err
			})
			return names
		}
		twin := labeled
		twin.ID, twin.Name, twin.SessionID = "", "twin", "s9"
		w.update(func(tx *store.Tx) error { return tx.PutInstance(&twin) })
		w.view(func(tx *store.Tx) error {
			of, err := tx.InstanceLabels(org)
			foreign, foreignErr := tx.InstanceLabels(w.b.org.ID)
			same(t, "sets of labels of another's", len(foreign[runner]), 0)
			euOnce := 0
			for _, set := range of[runner] {
				if set["region"] == "eu" {
					euOnce++
				}
			}
			same(t, "sets of labels", euOnce, 1)
			return errors.Join(err, foreignErr)
		})
		w.update(func(tx *store.Tx) error { return tx.DeleteInstance(org, twin.ID) })
		sameText(t, "seen from their Server", names(org, "server-7"), []string{"labeled"})
		sameText(t, "seen from another", names(org, "server-8"), []string{"labeled", "plain"})
		w.update(func(tx *store.Tx) error {
			return errors.Join(tx.DeleteInstance(org, plain.ID), tx.DeleteInstance(org, labeled.ID))
		})
	})
	t.Run("those that drain", func(t *testing.T) {
		plain := store.Instance{OrganizationID: org, RunnerID: runner, Name: "plain", SessionID: "s7", ServerID: "server-7", Connected: true,
			Labels: map[string]string{"draining": "true", "x": `"draining":true`}}
		drains, elsewhere, gone := plain, plain, plain
		drains.Name, drains.SessionID, drains.Draining = "drains", "s8", true
		elsewhere.Name, elsewhere.SessionID, elsewhere.ServerID, elsewhere.Draining = "elsewhere", "s9", "server-9", true
		gone.Name, gone.SessionID, gone.Connected, gone.Draining = "gone", "s10", false, true
		all := []*store.Instance{&plain, &drains, &elsewhere, &gone}
		w.update(func(tx *store.Tx) (err error) {
			for _, i := range all {
				err = errors.Join(err, tx.PutInstance(i))
			}
			return err
		})
		w.view(func(tx *store.Tx) error {
			found, err := tx.DrainingSessions("server-7")
			sameText(t, "of its Server", found, map[string]bool{"s8": true})
			return err
		})
		w.update(func(tx *store.Tx) (err error) {
			for _, i := range all {
				err = errors.Join(err, tx.DeleteInstance(org, i.ID))
			}
			return err
		})
	})
	t.Run("a dead Server takes its Sessions along", func(t *testing.T) {
		i.Connected = true
		now := i.LastSeen
		w.update(func(tx *store.Tx) error {
			return errors.Join(tx.PutInstance(&i), tx.BeatServer("server-1", now.Add(time.Minute)), tx.BeatServer("server-2", now))
		})
		ended := func(at time.Time) (runners []string) {
			w.update(func(tx *store.Tx) (err error) { runners, err = tx.EndDeadServers(at); return err })
			return runners
		}
		same(t, "runners", len(ended(now.Add(time.Second))), 0)
		same(t, "connected", get().Connected, true)
		w.update(func(tx *store.Tx) error { return tx.BeatServer("server-1", now.Add(2*time.Minute)) })
		same(t, "runners", len(ended(now.Add(90*time.Second))), 0)
		sameText(t, "runners", ended(now.Add(3*time.Minute)), []string{runner})
		same(t, "connected", get().Connected, false)
		same(t, "runners", len(ended(now.Add(3*time.Minute))), 0)
	})
}

func principals(t *testing.T, w *world) {
	org := w.a.org.ID
	p := store.ServicePrincipal{OrganizationID: org, Name: "edge", ClientID: "c-1", Role: "runner"}
	twin := p
	twin.OrganizationID = w.b.org.ID
	w.update(func(tx *store.Tx) error { return errors.Join(tx.PutPrincipal(&p), tx.PutPrincipal(&twin)) })
	w.fails(fault.Conflict, "a client id twice", func(tx *store.Tx) error {
		again := p
		again.ID = ""
		return tx.PutPrincipal(&again)
	})
	now := time.Now().UTC().Truncate(time.Microsecond)
	secret := store.Credential{PrincipalID: p.ID, Name: "first", Kind: "secret", Hash: []byte{1, 2, 3}, ExpiresAt: now.Add(time.Hour)}
	token := store.Credential{PrincipalID: p.ID, Name: "second", Kind: "token", Hash: []byte{1, 2, 3}}
	w.update(func(tx *store.Tx) error { return errors.Join(tx.PutCredential(&secret), tx.PutCredential(&token)) })
	t.Run("found", func(t *testing.T) {
		w.view(func(tx *store.Tx) error {
			byClient, err := tx.PrincipalByClientID(org, "c-1")
			same(t, "by client id", byClient, p)
			c, who, hashErr := tx.CredentialByHash("secret", []byte{1, 2, 3})
			sameText(t, "credential", c, secret)
			same(t, "whose", who, p)
			all, listErr := tx.Credentials(org, p.ID)
			same(t, "credentials", len(all), 2)
			byID, owner, idErr := tx.Credential(org, p.ID, secret.ID)
			sameText(t, "credential by id", byID, secret)
			same(t, "whose by id", owner, p)
			principals, allErr := tx.Principals(org)
			same(t, "principals", len(principals), 1)
			return errors.Join(err, hashErr, listErr, idErr, allErr)
		})
		w.fails(fault.NotFound, "another hash", func(tx *store.Tx) error { _, _, err := tx.CredentialByHash("secret", []byte{1, 2}); return err })
		w.fails(fault.NotFound, "of another Organization", func(tx *store.Tx) error { _, err := tx.Principal(w.b.org.ID, p.ID); return err })
		for _, ids := range [][3]string{{w.b.org.ID, p.ID, secret.ID}, {org, twin.ID, secret.ID}, {org, p.ID, "none"}} {
			w.fails(fault.NotFound, "a Credential of another", func(tx *store.Tx) error { _, _, err := tx.Credential(ids[0], ids[1], ids[2]); return err })
		}
	})
	t.Run("changed", func(t *testing.T) {
		secret.ExpiresAt, p.Role = now.Add(time.Minute), "owner"
		w.update(func(tx *store.Tx) error {
			return errors.Join(tx.PutCredential(&secret), tx.PutPrincipal(&p), tx.TouchCredential(secret.ID, now))
		})
		w.view(func(tx *store.Tx) error {
			c, who, err := tx.CredentialByHash("secret", secret.Hash)
			same(t, "expiry", c.ExpiresAt, now.Add(time.Minute))
			same(t, "use", c.LastUsedAt, now)
			same(t, "role", who.Role, "owner")
			return err
		})
	})
	t.Run("deleted", func(t *testing.T) {
		w.fails(fault.NotFound, "by another principal", func(tx *store.Tx) error { return tx.DeleteCredential(org, twin.ID, secret.ID) })
		w.update(func(tx *store.Tx) error { return tx.DeleteCredential(org, p.ID, secret.ID) })
		w.fails(fault.NotFound, "out of another Organization", func(tx *store.Tx) error { return tx.DeletePrincipal(w.b.org.ID, p.ID) })
		w.update(func(tx *store.Tx) error { return tx.DeletePrincipal(org, p.ID) })
		w.fails(fault.NotFound, "a token of a deleted principal", func(tx *store.Tx) error { _, _, err := tx.CredentialByHash("token", token.Hash); return err })
		w.fails(fault.NotFound, "a Credential of nobody", func(tx *store.Tx) error {
			return tx.PutCredential(&store.Credential{PrincipalID: p.ID, Kind: "secret", Hash: []byte{9}})
		})
	})
}
