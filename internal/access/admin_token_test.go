package access

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/catalog"
)

func TestAdminTokenFileIsRemovedAtFirstUse(t *testing.T) {
	st := openStore(t)
	dir := t.TempDir()
	path := filepath.Join(dir, adminTokenFile)
	a := open(t, st, dir)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	if _, err := a.Authenticate(t.Context(), token+"x"); err == nil {
		t.Fatal("a wrong token was taken")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("after a wrong token: got %v, want the file", err)
	}
	for range 2 {
		if _, err := a.Authenticate(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("after the first use: got %v, want no file", err)
		}
		a = open(t, st, dir)
	}
	if _, err := ResetAdminToken(t.Context(), st, dir); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a.Forget() // the reset happens while the server runs
	if _, err := a.Authenticate(t.Context(), token); err == nil {
		t.Error("the old admin token is taken after a reset")
	}
	actor, err := a.Authenticate(t.Context(), strings.TrimSpace(string(text)))
	if err != nil || actor.Role != catalog.RoleOwner {
		t.Errorf("the new admin token: got %+v, %v", actor, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the new token was used: got %v, want no file", err)
	}
}
