package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// builds are the binaries of versions, each built once in a test process.
var builds struct {
	mu  sync.Mutex
	dir string
	of  map[string]string
}

// BinaryOf builds the program as a version and gives its path.
func BinaryOf(t testing.TB, version string) string {
	t.Helper()
	builds.mu.Lock()
	defer builds.mu.Unlock()
	if path := builds.of[version]; path != "" {
		return path
	}
	if builds.dir == "" {
		dir, err := os.MkdirTemp("", "legwork-versions-")
		if err != nil {
			t.Fatal(err)
		}
		builds.dir, builds.of = dir, map[string]string{}
	}
	path := filepath.Join(builds.dir, "legwork-"+version)
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X legwork/internal/boot.version=v"+version, "-o", path, "./cmd/legwork")
	build.Dir = Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building version %s: %v\n%s", version, err, out)
	}
	builds.of[version] = path
	return path
}

// cleanBuilds removes what BinaryOf built.
func cleanBuilds() {
	builds.mu.Lock()
	defer builds.mu.Unlock()
	if builds.dir != "" {
		os.RemoveAll(builds.dir)
	}
}

// Signer is a key that signs releases, made for a test.
type Signer struct {
	File   string // of the private key
	Public string // as it stands in release_keys
}

// NewSigner makes a key.
func NewSigner(t testing.TB) Signer {
	t.Helper()
	k := Signer{File: filepath.Join(t.TempDir(), "release.key")}
	if out, err := exec.Command(binary(t), "release", "keygen", k.File).CombinedOutput(); err != nil {
		t.Fatalf("release keygen: %v\n%s", err, out)
	}
	text, err := os.ReadFile(k.File + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	k.Public = lines[len(lines)-1]
	return k
}

// Publish signs a release whose program for this platform is a file, and publishes it.
func (s *Server) Publish(k Signer, version, program string) {
	s.t.Helper()
	dir := s.t.TempDir()
	place := filepath.Join(dir, fmt.Sprintf("legwork_%s_%s_%s", version, runtime.GOOS, runtime.GOARCH))
	if err := copyFile(program, place); err != nil {
		s.t.Fatal(err)
	}
	s.Do("release", "sign", dir, "--version", version, "--key", k.File)
	s.Do("release", "publish", dir)
}

// copyFile gives a file another name, or copies it.
func copyFile(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// OwnBinary has the Runner run a program of its own in a folder of its own, which an update can replace, and lets a Server do so.
func (r *Runner) OwnBinary(path, consent string, k Signer) {
	r.s.t.Helper()
	own := filepath.Join(r.s.t.TempDir(), "legwork")
	if err := copyFile(path, own); err != nil {
		r.s.t.Fatal(err)
	}
	r.SetBinary(own)
	r.edit(r.Config, func(m map[string]any) {
		section := m["Runner"].(map[string]any)
		section["updates"], section["release_keys"], section["update_timeout"] = consent, []string{k.Public}, "10m"
	})
}
