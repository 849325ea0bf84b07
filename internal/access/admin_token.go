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

// dropAdminFile removes the file of the admin token when its token is used, so that other users of the host cannot read it. It reads the
// file at each use: a command may have written it while the server runs.
func (a *Access) dropAdminFile(used []byte) {
	path := filepath.Join(a.settings.Dir, adminTokenFile)
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(Hash(strings.TrimSpace(string(text))), used) {
		return
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.log.Warn("the file of the admin token cannot be removed: remove it by hand", "file", path, "error", err)
		return
	}
	a.log.Info("admin token used for the first time, its file is removed", "file", path)
}

// ResetAdminToken replaces the tokens of the admin by a new one, which it writes to the file admin-token of the data folder dir. It
// returns the path of the file.
func ResetAdminToken(ctx context.Context, st *store.Store, dir string) (string, error) {
	path := filepath.Join(dir, adminTokenFile)
	token, hash := NewToken()
	if err := durable.WriteFile(path, []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("write the admin token: %w", err)
	}
	err := st.Update(ctx, func(tx *store.Tx) error {
		org, err := tx.OrganizationByName(DefaultOrganization)
		if err != nil {
			return err
		}
		admin, err := tx.PrincipalByClientID(org.ID, adminName)
		if fault.Is(err, fault.NotFound) {
			admin = store.ServicePrincipal{OrganizationID: org.ID, Name: adminName, ClientID: adminName, Role: string(catalog.RoleOwner)}
			err = tx.PutPrincipal(&admin)
		}
		if err != nil {
			return err
		}
		credentials, err := tx.Credentials(org.ID, admin.ID)
		if err != nil {
			return err
		}
		for _, c := range credentials {
			if c.Kind != "token" {
				continue
			}
			if err := tx.DeleteCredential(org.ID, admin.ID, c.ID); err != nil {
				return err
			}
		}
		return tx.PutCredential(&store.Credential{PrincipalID: admin.ID, Name: adminName, Kind: "token", Hash: hash})
	})
	if err != nil {
		return "", errors.Join(fmt.Errorf("store the admin token: %w", err), os.Remove(path))
	}
	return path, nil
}
