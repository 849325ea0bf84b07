package boot

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"legwork/internal/api"
	"legwork/internal/fault"
)

// TestRegistrationIsAskedForAgain: with the nonce of the request whose answer was lost, and with another one after an answer.
func TestRegistrationIsAskedForAgain(t *testing.T) {
	var mu sync.Mutex // the answer to one request may still be on its way while the next one comes
	var nonces []string
	losing := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in api.RegistrationRequest
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		mu.Lock()
		nonces = append(nonces, in.Nonce)
		lost := losing
		mu.Unlock()
		if lost {
			panic(http.ErrAbortHandler) // what it did is done; the answer is lost
		}
		made := api.CreatedRunner{ClientID: "c", ClientSecret: "s"}
		made.ID, made.Name, made.OrganizationID = "r", in.Name, "o"
		w.Header().Set("Legwork-Version", "test")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(made)
	}))
	defer s.Close()
	settings := DefaultRunnerSettings()
	settings.Server.URL, settings.Runner.Name = s.URL, "edge"
	settings.Runner.TokenFile = filepath.Join(t.TempDir(), "token.json")
	ctx := context.Background()
	if _, err := register(ctx, settings, "lwr_x"); err == nil {
		t.Error("a lost answer is taken for one")
	}
	info, err := os.Stat(settings.Runner.TokenFile + nonceSuffix)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the request is not kept: %v %v", info, err)
	}
	mu.Lock()
	losing = false
	mu.Unlock()
	for range 2 {
		if _, err := register(ctx, settings, "lwr_x"); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	last := len(nonces) - 1 // the client repeats a request whose answer was lost, too
	if last < 2 || len(nonces[0]) < 16 || len(slices.Compact(nonces[:last])) != 1 || nonces[last] == nonces[0] {
		t.Errorf("nonces: got %q, want one until it was answered, then another one", nonces)
	}
	if _, err := os.Stat(settings.Runner.TokenFile + nonceSuffix); !os.IsNotExist(err) {
		t.Errorf("it is kept for ever: %v", err)
	}
	if _, err := readTokenFile(settings.Runner.TokenFile); err != nil {
		t.Error(err)
	}
}

// TestTheLockOfARegistrationGoesWithIt, and keeps others out while it is held.
func TestTheLockOfARegistrationGoesWithIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token.json")
	for range 2 {
		unlock, err := lockRegistration(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lockRegistration(path); fault.Code(err) != "registering_already" {
			t.Errorf("two at once: %v", err)
		}
		unlock()
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left: %v %v", left, err)
		}
	}
}
