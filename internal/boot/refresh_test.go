package boot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func TestReferences(t *testing.T) {
	secret := write(t, "secret", clientSecret+"\n")
	t.Setenv("THE_LEVEL", "debug")
	file := write(t, "runner.json", `{"Runner":{"Credentials":{"ClientSecret":"${file:`+secret+`}"},"Labels":{"zone":"${env:THE_LEVEL}"}},
		"Logging":{"LogLevel":{"Default":"${env:THE_LEVEL}"}},"Engine":{"AdditionalBinaryPaths":["${command:echo /opt/bin}"]},"Server":{"Url":"${file:/overridden}"}}`)
	environ := complete()
	environ = append(environ[:4:4], "LEGWORK_SERVER__URL=https://x", "Runner__Instance=$${literal}") // without the secret
	s, err := LoadRunnerSettings(Layers{File: file, Environ: environ})
	if err != nil {
		t.Fatal(problems(t, err))
	}
	got := fmt.Sprint(s.Runner.Credentials.ClientSecret.Reveal(), s.Runner.Labels, s.Logging.LogLevel["Default"], s.Engine.AdditionalBinaryPaths, s.Runner.Instance, s.secretReference)
	if want := clientSecret + "map[zone:debug]Debug[/opt/bin]${literal}${file:" + secret + "}"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if b, err := json.Marshal(s); err != nil || bytes.Contains(b, []byte("secretReference")) {
		t.Errorf("%s %v", b, err)
	}
}

// TestReferencesAreNotShown has values that no setting takes: the problems name the references alone.
func TestReferencesAreNotShown(t *testing.T) {
	ref := "${file:" + write(t, "secret", clientSecret) + "}"
	_, err := LoadRunnerSettings(Layers{Environ: complete("Logging__LogLevel__Default="+ref, "Logging__Format="+ref, "LEGWORK_RUNNER__ID="+ref,
		"LEGWORK_SERVER__URL="+ref, "Policy__AllowedEngines="+ref, "Policy__AllowedShells="+ref, "HooksPreapproval__PreapprovedHooksDirectory=${file:/nowhere}", "Runner__Instance=${nothing:x}")})
	lines := problems(t, err)
	text := strings.Join(lines, "\n")
	if strings.Contains(text, clientSecret[:8]) || len(lines) != 8 || strings.Count(text, ref) < 5 || !strings.Contains(text, "${file:/nowhere}") || !strings.Contains(text, "${nothing:x}") {
		t.Errorf("got\n%s", text)
	}
	_, err = LoadServerSettings(Layers{Environ: []string{"HOME=/h", "LEGWORK_SERVER__LISTEN=" + ref, "LEGWORK_SERVER__LEASE=" + ref, "LEGWORK_SERVER__TRUSTED_PROXIES=" + ref, "LEGWORK_SERVER__DATABASE=" + ref}})
	if lines := problems(t, err); len(lines) != 4 || strings.Contains(strings.Join(lines, "\n"), clientSecret[:8]) {
		t.Errorf("got %q", lines)
	}
}

func TestServerReferences(t *testing.T) {
	s, err := LoadServerSettings(Layers{Environ: []string{"HOME=/h", "LEGWORK_SERVER__LEASE=${command:echo 90s}", "LEGWORK_SERVER__DATABASE=${command:echo postgres://u:p@h/d}"}})
	if err != nil || s.Lease != catalog.Duration(90*time.Second) || s.Database.Reveal() != "postgres://u:p@h/d" {
		t.Errorf("got %v %v", s.Lease, err)
	}
}

func TestRefresh(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		s := DefaultRunnerSettings()
		s.Runner.Credentials.ClientSecret, s.secretReference = NewSecret("first-value"), "${file:"+path+"}"
		r := newRefreshed(s, newLog(&out, "text", func(string) slog.Level { return slog.LevelInfo }))
		go r.run(t.Context())
		after := func(change func(), want string) {
			t.Helper()
			change()
			time.Sleep(5*time.Minute + time.Second)
			synctest.Wait()
			if r.current() != want {
				t.Errorf("got %q, want %q", r.current(), want)
			}
		}
		after(func() { put("second-value\n") }, "second-value")
		after(func() { os.Remove(path) }, "second-value")
		after(func() { put("") }, "second-value")
		after(func() { put("third-value") }, "third-value")
	})
	for _, value := range []string{"first-value", "second-value", "third-value"} {
		if strings.Contains(out.String(), value) {
			t.Errorf("the log holds %s", value)
		}
	}
	if n := strings.Count(out.String(), path); n != 5 {
		t.Errorf("%d lines name the reference\n%s", n, out.String())
	}
}

// TestWhatIsWrongWithASecretIsSaid without showing it, with a hint that fits.
func TestWhatIsWrongWithASecretIsSaid(t *testing.T) {
	for content, says := range map[string]string{
		clientSecret + "\nmore\n":     "has more than one line",
		clientSecret + "\a":           "control character (U+0007)",
		strings.Repeat("secret", 200): "has 1200 bytes",
	} {
		ref := "${file:" + write(t, "secret", content) + "}"
		environ := append(complete()[:4:4], "LEGWORK_SERVER__URL=https://x", "LEGWORK_RUNNER__CREDENTIALS__CLIENTSECRET="+ref)
		_, err := LoadRunnerSettings(Layers{Environ: environ})
		text := strings.Join(problems(t, err), "\n")
		if !strings.Contains(text, says) || !strings.Contains(text, ref) || strings.Contains(text, content[:12]) {
			t.Errorf("not %q: %s", says, text)
		}
	}
	_, err := LoadRunnerSettings(Layers{Environ: complete("Runner__Instance=${file:/nowhere}")})
	if f := fault.Of(err); !strings.Contains(f.Hint, "what the reference names") {
		t.Errorf("%q", f.Hint)
	}
	_, err = LoadRunnerSettings(Layers{File: "/nowhere/runner.json"})
	if f := fault.Of(err); !strings.Contains(f.Hint, "--config") {
		t.Errorf("%q", f.Hint)
	}
	_, err = LoadRunnerSettings(Layers{Environ: complete("Policy__AllowedSources=[")})
	if f := fault.Of(err); !strings.Contains(f.Message, `holds "["`) {
		t.Errorf("%q", f.Message)
	}
}
