package boot

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSelfUpdateDropIn holds the drop-in to the unit that it changes: the same command, of a program that the service may write to.
func TestSelfUpdateDropIn(t *testing.T) {
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{deploy, "systemd"}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	started := regexp.MustCompile(`(?m)^ExecStart=(\S+)(.*)$`)
	unit, dropIn := read("legwork-runner.service"), read("legwork-runner.service.d", "updates.conf")
	before, after := started.FindStringSubmatch(unit), started.FindStringSubmatch(dropIn)
	if before == nil || after == nil || before[2] != after[2] {
		t.Fatalf("the drop-in starts %q, the unit %q", after, before)
	}
	if !strings.Contains(dropIn, "\nExecStart=\nExecStart=/") {
		t.Error("the unit's own command is not taken out")
	}
	folder := regexp.MustCompile(`(?m)^StateDirectory=(.*)$`).FindStringSubmatch(dropIn)
	if folder == nil || after[1] != "/var/lib/"+folder[1]+"/legwork" {
		t.Errorf("the program is %s, and the service may write to %q", after[1], folder)
	}
	if !strings.Contains(unit, "\nProtectSystem=full\n") {
		t.Error("the drop-in and docs/RELEASES.md say that ProtectSystem is full")
	}
	_, settings, _ := strings.Cut(dropIn, "[Service]")
	whole := strings.Replace(unit, "[Install]", "[Service]"+strings.ReplaceAll(settings, after[1], before[1])+"\n[Install]", 1)
	verifyUnit(t, "legwork-runner.service", whole)
}
