package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/durable"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// DefaultOrganization is the name of the Organization that a Server starts with.
const DefaultOrganization = "default"

const (
	adminName      = "admin"
	adminTokenFile = "admin-token"
)

// firstStart makes the Organization "default" with its admin, unless it is there. The token is on the disk
// under a provisional name before its hash is in the database, and gets its own name after: a crash
// in between leaves either nothing in the database, or a file that the next start finds.
func (a *Access) firstStart(ctx context.Context) error {
	path := filepath.Join(a.settings.Dir, adminTokenFile)
	provisional := path + ".new"
	if hash, err := a.adminHash(ctx); err != nil || hash != nil {
		return errors.Join(err, finishAdminToken(provisional, path, hash))
	}
	token, hash := NewToken()
	if err := durable.WriteFile(provisional, []byte(token+"\n")); err != nil {
		return fmt.Errorf("write the admin token: %w", err)
	}
	err := a.store.Update(ctx, func(tx *store.Tx) error { return createAdmin(tx, hash) })
	if fault.Is(err, fault.Conflict) {
		return os.Remove(provisional) // another Server was faster; the token lies in its folder
	}
	if err != nil {
		return fmt.Errorf("store the admin token: %w", err)
	}
	if err := finishAdminToken(provisional, path, hash); err != nil {
		return err
	}
	a.log.Info("admin token written", "file", path)
	return nil
}

// adminHash gives the hash of the admin's token, nil when there is no admin yet. An admin whose tokens were
// all removed is there: its hash is empty, not nil.
func (a *Access) adminHash(ctx context.Context) (hash []byte, err error) {
	err = a.store.View(ctx, func(tx *store.Tx) error {
		org, err := tx.OrganizationByName(DefaultOrganization)
		if err != nil {
			return err
		}
		admin, err := tx.PrincipalByClientID(org.ID, adminName)
		if err != nil {
			return err
		}
		hash = []byte{}
		credentials, err := tx.Credentials(admin.OrganizationID, admin.ID)
		for _, c := range credentials {
			if c.Kind == "token" {
				hash = c.Hash
			}
		}
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return hash, err
}

func createAdmin(tx *store.Tx, hash []byte) error {
	org, err := tx.OrganizationByName(DefaultOrganization)
	if fault.Is(err, fault.NotFound) {
		org, err = tx.CreateOrganization(DefaultOrganization)
	}
	if err != nil {
		return err
	}
	admin := store.ServicePrincipal{OrganizationID: org.ID, Name: adminName, ClientID: adminName, Role: string(catalog.RoleOwner)}
	if err := tx.PutPrincipal(&admin); err != nil {
		return err
	}
	return tx.PutCredential(&store.Credential{PrincipalID: admin.ID, Name: adminName, Kind: "token", Hash: hash})
}

// finishAdminToken gives the provisional file its own name when it holds the stored token, and removes it otherwise.
func finishAdminToken(provisional, path string, hash []byte) error {
	text, err := os.ReadFile(provisional)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the admin token: %w", err)
	}
	if !bytes.Equal(Hash(strings.TrimSpace(string(text))), hash) {
		return os.Remove(provisional)
	}
	if err := os.Rename(provisional, path); err != nil {
		return fmt.Errorf("write the admin token: %w", err)
	}
	return durable.SyncFolder(filepath.Dir(path))
}
