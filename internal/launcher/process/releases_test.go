//go:build linux

package process

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/launcher"
	"legwork/internal/release"
	"legwork/internal/work"
)

// served is a release of a program that does nothing, and a Server that hands it on.
type served struct {
	url   string
	key   string
	ref   work.ReleaseRef
	asked chan struct{} // takes one for each download that began
	gate  chan struct{} // a download goes on once this gives; closed: at once
}

func serve(t *testing.T, version string) *served {
	t.Helper()
	program := []byte("#!/bin/sh\nexec sleep 600\n")
	sum := sha256.Sum256(program)
	here := release.Here()
	name := "legwork_" + version + "_" + here.OS + "_" + here.Arch
	manifest, err := release.Manifest{Version: version, Channel: release.Stable, At: time.Unix(1790000000, 0).UTC(), Assets: []release.Asset{
		{Name: name, OS: here.OS, Arch: here.Arch, Kind: release.Binary, Size: int64(len(program)), SHA256: hex.EncodeToString(sum[:])}}}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := release.GenerateKey("")
	if err != nil {
		t.Fatal(err)
	}
	signature, _, err := release.Sign(manifest, private, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{key: string(public), asked: make(chan struct{}, 8), gate: make(chan struct{}),
		ref: work.ReleaseRef{Version: version, Manifest: manifest, Signature: signature, Path: "releases/" + version}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked <- struct{}{}
		select {
		case <-s.gate:
		case <-r.Context().Done():
			return
		}
		_, _ = w.Write(program)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// task is one to start processes of the release.
func (s *served) task(p *place, runner string, units ...string) *work.RunnerTask {
	task := p.bench().Task("owner", runner, units...)
	task.ServerURL, task.Release = s.url, &s.ref
	return task
}

func (s *served) open(t *testing.T, p *place) *Launcher {
	l := p.open(t)
	l.host.Keys = []string{s.key}
	return l
}

// While a Runner's Ensure fetches a release, the end of another Runner takes nothing away from it; a release that nothing runs goes.
func TestReleasesAreDropped(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := serve(t, "1.2.0")
	task, other := s.task(p, "cloud", "cloud-00000001"), p.bench().Task("owner", "other", "other-00000001")
	if _, err := s.open(t, p).Ensure(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	ensured := make(chan error, 1)
	l := s.open(t, p)
	go func() {
		_, err := l.Ensure(t.Context(), task)
		ensured <- err
	}()
	<-s.asked
	if err := s.open(t, p).Remove(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	close(s.gate)
	if err := <-ensured; err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(l.releases(), "1.2.0")
	old := time.Now().Add(-2 * spareRelease)
	listed := func(want bool) {
		t.Helper()
		if err := os.Chtimes(folder, old, old); err != nil {
			t.Fatal(err)
		}
		if _, err := s.open(t, p).List(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, "legwork")); (err == nil) != want {
			t.Fatalf("the program is there: %v, want %v", err, want)
		}
	}
	listed(true)
	p.kill(t, "cloud-00000001")
	listed(false)
	if _, err := s.open(t, p).Ensure(t.Context(), s.task(p, "cloud")); err != nil { // for those that will be launched
		t.Fatal(err)
	}
	if _, err := s.open(t, p).List(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "legwork")); err != nil {
		t.Fatalf("what was fetched a moment ago is gone: %v", err)
	}
	if err := s.open(t, p).Remove(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(p.dir, "*")); err != nil || len(left) > 0 {
		t.Fatalf("%q are left, %v", left, err)
	}
}

// A host launches a release that is newer than its own program, none that is older, none when its own is no release, none when its owner says off.
func TestWhichProgramIsLaunched(t *testing.T) {
	t.Parallel()
	s := serve(t, "1.2.0")
	for _, c := range []struct {
		host    launcher.Host
		foreign bool
		why     string
	}{
		{launcher.Host{Version: "1.1.9"}, true, ""},
		{launcher.Host{Version: "1.1.9", OwnOnly: true}, false, "updates is off"},
		{launcher.Host{Version: "1.2.0"}, false, ""},
		{launcher.Host{Version: "v1.2.0"}, false, ""},
		{launcher.Host{Version: "1.3.0"}, false, "is newer"},
		{launcher.Host{Version: "unknown"}, false, "no release"},
		{launcher.Host{}, false, "no release"},
	} {
		p := newPlace(t)
		l := p.open(t)
		l.host.Version, l.host.OwnOnly = c.host.Version, c.host.OwnOnly
		if got := l.foreign(s.task(p, "cloud")); got != c.foreign {
			t.Errorf("%+v: %v", c.host, got)
		}
		said, err := l.Describe(t.Context(), s.task(p, "cloud"))
		if err != nil || strings.Contains(strings.Join(said, "\n"), "of version 1.2.0 ") != (c.foreign || c.host.Version == "1.2.0") {
			t.Errorf("%+v: %q, %v", c.host, said, err)
		}
		if told := strings.Contains(strings.Join(said, "\n"), "release 1.2.0 was asked for"); told != (c.why != "") || !strings.Contains(strings.Join(said, "\n"), c.why) {
			t.Errorf("%+v: %q", c.host, said)
		}
	}
}
