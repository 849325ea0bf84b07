package boot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/fault"
)

var someIdentity = tokenFile{Server: "https://legwork.example.com", OrganizationID: organizationID, RunnerID: runnerID, Runner: "edge",
	ClientID: "from-file", ClientSecret: clientSecret}

func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token.json")
	if _, err := readTokenFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("missing: %v", err)
	}
	if err := writeTokenFile(path, someIdentity); err != nil {
		t.Fatal(err)
	}
	if got, err := readTokenFile(path); err != nil || got != someIdentity {
		t.Fatalf("%+v %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v %v", info.Mode(), err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	if err := writeTokenFile(link, someIdentity); fault.Code(err) != "token_file" {
		t.Errorf("a link was written through: %v", err)
	}
	if _, err := readTokenFile(link); fault.Code(err) != "token_file" {
		t.Errorf("a link was read through: %v", err)
	}
	if text, _ := os.ReadFile(other); string(text) != "mine" {
		t.Error("the file behind the link was changed")
	}
	for what, spoil := range map[string]func() error{
		"mode":  func() error { return os.Chmod(path, 0o604) },
		"empty": func() error { return os.WriteFile(path, []byte("{}"), 0o600) },
		"large": func() error { return os.WriteFile(path, []byte(`"`+strings.Repeat("x", 1<<20)), 0o600) },
	} {
		if err := writeTokenFile(path, someIdentity); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := readTokenFile(path); fault.Code(err) != "token_file" || strings.Contains(err.Error(), clientSecret) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestIdentityComesFromTheTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token.json")
	layers := Layers{Environ: []string{"HOME=/home/someone", "LEGWORK_RUNNER__TOKEN_FILE=" + path}}
	_, err := LoadRunnerSettings(layers)
	if got := problems(t, err); !strings.Contains(got[0], "legwork runner register") {
		t.Errorf("%q", got)
	}
	if err := writeTokenFile(path, someIdentity); err != nil {
		t.Fatal(err)
	}
	s, err := LoadRunnerSettings(layers)
	if err != nil {
		t.Fatal(err)
	}
	r := s.Runner
	if r.ID != runnerID || r.OrganizationID != organizationID || r.Credentials.ClientID != "from-file" ||
		r.Credentials.ClientSecret.Reveal() != clientSecret || s.Server.URL != "https://legwork.example.com" {
		t.Errorf("%+v %+v", r, s.Server)
	}
	layers.Environ = append(complete(), "LEGWORK_RUNNER__TOKEN_FILE="+path)
	if s, err = LoadRunnerSettings(layers); err != nil || s.Runner.Credentials.ClientID != "client" {
		t.Errorf("what the settings say does not go first: %+v %v", s.Runner, err)
	}
}

func TestNameFrom(t *testing.T) {
	for instance, want := range map[string]string{"edge-1": "edge-1", "Edge 7.Example": "edge-7.example", "--": "", "": "", "ä": "", strings.Repeat("x", 100): strings.Repeat("x", 63)} {
		if got := nameFrom(instance); got != want {
			t.Errorf("%q: %q, want %q", instance, got, want)
		}
	}
}
