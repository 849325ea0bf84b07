package web

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/control"
	"legwork/internal/release"
)

// What a page shows fetches the program for the host and installs it, and installs nothing that is not what the release says.
func TestInstallCommand(t *testing.T) {
	const content = "the program"
	sum := sha256.Sum256([]byte(content))
	served := content
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/releases/1.5.0/legwork-here" {
			http.NotFound(rw, r)
			return
		}
		_, _ = rw.Write([]byte(served))
	}))
	defer server.Close()
	uname, err := exec.Command("uname", "-sm").Output()
	if err != nil {
		t.Skip(err)
	}
	run := func(host string) (string, error) {
		dir := t.TempDir()
		// sudo would write into the system: here it says what it is asked for.
		if err := os.WriteFile(filepath.Join(dir, "sudo"), []byte("#!/bin/sh\necho \"installs: $*\"\ncat legwork\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", "-c", installText(installValues{Server: server.URL, Version: "1.5.0",
			Programs: []program{{"Plan9 mips", "legwork-other", "00"}, {host, "legwork-here", hex.EncodeToString(sum[:])}}}))
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir + ":/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	here := strings.TrimSpace(string(uname))
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	if out, err := run(here); err != nil || !strings.Contains(out, "installs: install -m 0755 legwork /usr/local/bin/legwork\nthe program") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run("Solaris sparc"); err == nil || !strings.Contains(out, "no program for this host") {
		t.Errorf("%v: %s", err, out)
	}
	served = "another program"
	if out, err := run(here); err == nil || strings.Contains(out, "installs:") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestNewestStable(t *testing.T) {
	of := func(version, state string, channel release.Channel) control.Release {
		return control.Release{Version: version, State: state, Channel: channel}
	}
	newest, ok := newestStable([]control.Release{of("1.9.0", "published", release.Stable), of("1.10.0", "published", release.Stable), of("1.11.0", "withdrawn", release.Stable),
		of("2.0.0-rc.1", "published", release.Candidate), of("1.12.0", "draft", release.Stable)})
	if !ok || newest.Version != "1.10.0" {
		t.Errorf("%v %v", newest.Version, ok)
	}
	if _, ok := newestStable(nil); ok {
		t.Error("there is one among none")
	}
}
