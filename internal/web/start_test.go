package web

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write what is generated")

var exampleValues = startValues{Name: "edge-1", Object: "edge-1", Server: "https://legwork.example.com", ID: "RUNNER_ID", Organization: "ORGANIZATION_ID",
	ClientID: "CLIENT_ID", Secret: "CLIENT_SECRET"}

// docs/STARTING.md says the same as the pages.
func TestStartingIsDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Starting a Runner\n\nGenerated from `internal/web/start` by `go test ./internal/web -run Starting -update`. The dashboard shows the same, filled in, when a\n" +
		"Runner is added: `/runners/new`, or `legwork runner create edge-1` for the four values alone.\n\n## Its settings\n\nOn the host, before any of the ways below. Only the user can read the file.\n")
	block := func(text string) { b.WriteString("\n```sh\n" + text + "\n```\n") }
	block(settingsCommand(exampleValues))
	for _, c := range startCommands(exampleValues) {
		b.WriteString("\n## " + c.title + "\n\n" + c.note + "\n")
		block(c.text)
	}
	b.WriteString("\n## It registers itself\n\nWith a registration token (`/runners/tokens`, `legwork runner token create`), without the settings above.\n")
	block(startText("register", startValues{Name: "edge-1", Server: exampleValues.Server, Secret: "lwr_..."}))
	path := filepath.Join("..", "..", "docs", "STARTING.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != b.String() {
		t.Errorf("%s is not what the pages show (%v): go test ./internal/web -run Starting -update", path, err)
	}
}

// Every command is one that a shell can read, what it hands on is YAML where it says so, and it is what deploy holds, in brief.
func TestStartCommands(t *testing.T) {
	for _, multiple := range []bool{false, true} {
		values := exampleValues
		values.Multiple = multiple
		for _, c := range append(startCommands(values), startCommand{id: "settings", text: settingsCommand(values)}) {
			check := exec.Command("/bin/sh", "-n")
			check.Stdin = strings.NewReader(c.text)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", c.id, err, out)
			}
			if c.id != "settings" && strings.Contains(c.text, values.Secret) {
				t.Errorf("%s holds the secret: it belongs into the file alone", c.id)
			}
			if c.id == "start-compose" || c.id == "start-kubernetes" {
				_, text, _ := strings.Cut(c.text, "<<'END'\n")
				text, _, ok := strings.Cut(text, "\nEND")
				var document map[string]any
				if err := yaml.Unmarshal([]byte(text), &document); err != nil || !ok || len(document) == 0 {
					t.Errorf("%s: %v", c.id, err)
				}
			}
		}
	}
	shown := ""
	for _, c := range startCommands(exampleValues) {
		shown += c.text
	}
	for file, words := range map[string][]string{
		"compose.yaml":                   {"read_only: true", `cap_drop: ["ALL"]`, "stop_grace_period: 10m", "no-new-privileges:true"},
		"kubernetes/runner.yaml":         {"terminationGracePeriodSeconds: 3600", "runAsUser: 10001", "readOnlyRootFilesystem: true", "mountPath: /var/lib/legwork"},
		"systemd/legwork-runner.service": {"/etc/legwork/runner.env", "/etc/legwork/runner.json"},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			if !strings.Contains(string(text), word) || !strings.Contains(strings.ReplaceAll(shown, "{mountPath", "mountPath"), word) {
				t.Errorf("deploy/%s and the commands do not agree on %q", file, word)
			}
		}
	}
}

// What a browser says of the Server is not run by a shell.
func TestServerURLIsPlain(t *testing.T) {
	for given, plain := range map[string]bool{"https://a.example:8440": true, "http://[::1]:8440": true, "https://a.example/legwork/": true,
		"http://a$(id)": false, "http://a\nb": false, "http://a;b": false, "http://a b": false, "": false, "ftp://a": false, "http://a/`b`": false} {
		if plainURL.MatchString(given) != plain {
			t.Errorf("%q: %v", given, !plain)
		}
	}
}
