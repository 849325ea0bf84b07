package boot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"legwork/internal/fault"
)

const (
	runnerID       = "0191d2c4-6f3e-7b1a-9c55-3f1f0a7c2b10"
	organizationID = "0191d2c4-6f3e-7b1a-9c55-000000000001"
	clientSecret   = "s3cr3t-Value-never-shown"
)

// complete is what a Runner needs at least, as an environment.
func complete(more ...string) []string {
	return append([]string{
		"HOME=/home/someone",
		"LEGWORK_RUNNER__ID=" + runnerID,
		"LEGWORK_RUNNER__ORGANIZATIONID=" + organizationID,
		"LEGWORK_RUNNER__CREDENTIALS__CLIENTID=client",
		"LEGWORK_RUNNER__CREDENTIALS__CLIENTSECRET=" + clientSecret,
		"LEGWORK_SERVER__URL=https://legwork.example.com",
	}, more...)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// problems gives the problems of a fault as lines, without the folder of the file.
func problems(t *testing.T, err error) []string {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Invalid || f.Code != "settings_invalid" {
		t.Fatalf("want a fault.Invalid settings_invalid, got %#v", err)
	}
	var lines []string
	for _, p := range f.Details {
		if filepath.IsAbs(p.File) {
			p.File = filepath.Base(p.File)
		}
		lines = append(lines, p.String())
	}
	return lines
}

func sameLines(t *testing.T, got, want []string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Fatalf("got\n%s\n\nwant\n%s", g, w)
	}
}

func TestRunnerDefaults(t *testing.T) {
	s, err := LoadRunnerSettings(Layers{Environ: complete()})
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(s.JobLogStream, s.HooksPreapproval.Enabled, s.Runner.Capacity, s.Runner.Instance == host, s.Cancel,
		s.WorkingDirectory, s.Logging, s.Engine.AdditionalBinaryPaths)
	want := "{50 true 5} false 10 true {30 10} " +
		"{/home/someone/.legwork/runner /home/someone/.legwork/runner/.temp  30 0 256 false} {map[Default:Information] text} []"
	if got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if s.Runner.Credentials.ClientSecret.Reveal() != clientSecret {
		t.Fatal("the secret was not kept")
	}
}

func TestEachLayerIsOverTheOneBefore(t *testing.T) {
	file := write(t, "runner.yaml", "runner:\n  capacity: 2\n  instance: from-file\njobLogStream: {periodSeconds: 7}\n")
	layers := Layers{File: file, Environ: complete("Runner__Capacity=3", "RUNNER__INSTANCE=from-environment")}
	check := func(capacity int, instance string) {
		t.Helper()
		s, err := LoadRunnerSettings(layers)
		if err != nil {
			t.Fatal(err)
		}
		if s.Runner.Capacity != capacity || s.Runner.Instance != instance || s.JobLogStream.PeriodSeconds != 7 {
			t.Fatalf("got %d %s %d", s.Runner.Capacity, s.Runner.Instance, s.JobLogStream.PeriodSeconds)
		}
	}
	check(3, "from-environment")
	layers.Environ = append(layers.Environ, "LEGWORK_RUNNER__CAPACITY=4", "LEGWORK_RUNNER__INSTANCE=")
	check(4, "from-environment")
	layers.Flags = map[string]string{"Runner.Capacity": "5"}
	check(5, "from-environment")
}

func TestEnvironmentStyles(t *testing.T) {
	for _, name := range []string{
		"LEGWORK_RUNNER__INSTANCE", "legwork_runner__instance", "Runner__Instance", "RUNNER__INSTANCE", "runner__instance",
	} {
		s, err := LoadRunnerSettings(Layers{Environ: complete(name + "=edge-7")})
		if err != nil || s.Runner.Instance != "edge-7" {
			t.Errorf("%s: got %q, %v", name, s.Runner.Instance, err)
		}
	}
}

func TestListsAndMapsFromTheEnvironment(t *testing.T) {
	file := write(t, "runner.json", `{"Engine": {"AdditionalBinaryPaths": ["/file/a", "/file/b"]},
		"Logging": {"LogLevel": {"Default": "Warning", "Legwork.Session": "Debug"}}, "Runner": {"Labels": {"zone": "a", "rack": 12}}}`)
	s, err := LoadRunnerSettings(Layers{File: file, Environ: complete(
		"Engine__AdditionalBinaryPaths__1=~/bin", "Engine__AdditionalBinaryPaths__10=/ten", "Engine__AdditionalBinaryPaths__9=/nine",
		"Logging__LogLevel__DEFAULT=trace", "Logging__LogLevel__Microsoft.AspNetCore=none", "LEGWORK_RUNNER__LABELS__ZONE=b",
	)})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(s.Engine.AdditionalBinaryPaths, s.Logging.LogLevel, s.Runner.Labels)
	want := "[/file/a /home/someone/bin /nine /ten] " +
		"map[Default:Trace Legwork.Session:Debug Microsoft.AspNetCore:None] map[rack:12 zone:b]"
	if got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	s, err = LoadRunnerSettings(Layers{File: file, Environ: complete(), Flags: map[string]string{"engine.additionalbinarypaths": "/x, /y"}})
	if got := fmt.Sprint(s.Engine.AdditionalBinaryPaths); err != nil || got != "[/x /y]" {
		t.Fatalf("got %s, %v", got, err)
	}
}

func TestAppsettingsFileWorksAsItStands(t *testing.T) {
	file := write(t, "appsettings.json", "\xef\xbb\xbf"+`// settings of edge-1
{
  "$schema": "https://example.com/schemas/runner.json",
  "Engine": { "AdditionalBinaryPaths": [ "~/.pulumi/bin", ], },
  "HooksPreapproval": { "Enabled": false, "PreapprovedHooksDirectory": "" },
  "JobLogStream": { "BatchSizeLimit": "100", "EagerlyEmitFirstEvent": "True", "PeriodSeconds": 2 },
  "Logging": {
    "LogLevel": { "Default": "Information", "Microsoft": "Warning", "Microsoft.AspNetCore": "Error" },
    "Console": { "FormatterName": "simple", "FormatterOptions": { "SingleLine": true } }
  },
  /* who we are */
  "Runner": {
    "Id": "`+runnerID+`",
    "Instance": "edge-1",
    "OrganizationId": "`+strings.ToUpper(organizationID)+`",
    "Credentials": { "ClientId": "abc", "ClientSecret": "has // no comment" }
  },
  "Server": { "Url": "https://legwork.example.com:5001/" },
  "WorkingDirectory": { "WorkingDirectory": "~/.snapcd/runner", "TempDirectory": "~/.snapcd/runner/.temp" }
}`)
	s, err := LoadRunnerSettings(Layers{File: file, Environ: []string{"HOME=/home/r"}})
	if err != nil {
		t.Fatal(problems(t, err))
	}
	got := fmt.Sprintln(s.Engine, s.JobLogStream, s.Server.URL, s.Runner.ID, s.Runner.Credentials.ClientSecret.Reveal(), s.WorkingDirectory)
	want := "{[/home/r/.pulumi/bin]} {100 true 2} https://legwork.example.com:5001 " + runnerID +
		" has // no comment {/home/r/.snapcd/runner /home/r/.snapcd/runner/.temp  30 0 256 false}\n"
	if got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	for category, level := range map[string]slog.Level{
		"Legwork": slog.LevelInfo, "Microsoft": slog.LevelWarn, "Microsoft.AspNetCore.Routing": slog.LevelError, "MicrosoftX": slog.LevelInfo,
	} {
		if got := s.Logging.Level(category); got != level {
			t.Errorf("level of %s: got %s, want %s", category, got, level)
		}
	}
}

// TestDefaultWorkingDirectory: a folder of an earlier product is used where it is the only one.
func TestDefaultWorkingDirectory(t *testing.T) {
	for _, c := range []struct {
		there []string
		want  string
	}{
		{nil, ".legwork/runner"}, {[]string{".snapcd/runner"}, ".snapcd/runner"}, {[]string{".snapcd/runner", ".legwork/runner"}, ".legwork/runner"},
	} {
		home := t.TempDir()
		for _, folder := range c.there {
			if err := os.MkdirAll(filepath.Join(home, folder), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s, err := LoadRunnerSettings(Layers{Environ: complete("HOME=" + home)})
		if err != nil {
			t.Fatal(problems(t, err))
		}
		if got := s.WorkingDirectory.WorkingDirectory; got != filepath.Join(home, c.want) {
			t.Errorf("with %v: got %s, want %s", c.there, got, c.want)
		}
	}
}

func TestFileWithOtherNames(t *testing.T) {
	file := write(t, "config.json", `{
	  "tmp_path": "/tmp/scratch",
	  "web_host": "https://host", // the Server
	  "runner": { "max_parallel_tasks": 3 }
	}`)
	environ := complete()
	s, err := LoadRunnerSettings(Layers{File: file, Environ: environ[:len(environ)-1]})
	if err != nil {
		t.Fatal(problems(t, err))
	}
	got := fmt.Sprintln(s.WorkingDirectory.TempDirectory, s.Server.URL, s.Runner.Capacity)
	if want := "/tmp/scratch https://host 3\n"; got != want {
		t.Fatalf("got %s", got)
	}
	s, err = LoadRunnerSettings(Layers{File: file, Environ: environ})
	if err != nil || s.Server.URL != "https://legwork.example.com" {
		t.Fatalf("the environment must be over another name in the file: got %s, %v", s.Server.URL, err)
	}
}

func TestEveryProblemAtOnce(t *testing.T) {
	file := write(t, "runner.json", `{
  "Engin": {},
  "JobLogStream": {
    "BatchSizeLimit": 0,
    "PeriodSeconds": "soon",
    "BatchSizeLimit": 5
  },
  "Logging": { "LogLevel": { "Default": "Loud" }, "Formatt": "json" },
  "Runner": {
    "Id": "edge-1",
    "ClientSecret": "`+clientSecret+`",
    "Credentials": { "ClientSecret": ["`+clientSecret+`"] },
    "Labels": "gpu"
  },
  "Server": "https://legwork.example.com"
}`)
	_, err := LoadRunnerSettings(Layers{
		File:    file,
		Environ: []string{"LEGWORK_RUNNER__CAPACITY=many", "LEGWORK_RUNNER__INSTNACE=x", "Runner__Nothing=ignored", "LEGWORK_TOKEN=x", "HOME=/h"},
		Flags:   map[string]string{"cancel.interruptSeconds": "-1", "Cancel": "3", "Logging.Console.X": "1"},
	})
	sameLines(t, problems(t, err), []string{
		`runner.json:2: Engin: is not a known setting: did you mean Engine?`,
		`runner.json:4: JobLogStream.BatchSizeLimit: must be a whole number between 1 and 10000, not "0"`,
		`runner.json:5: JobLogStream.PeriodSeconds: must be a whole number between 1 and 3600, not "soon"`,
		`runner.json:6: JobLogStream.BatchSizeLimit: is given twice, first in line 4`,
		`runner.json:8: Logging.LogLevel.Default: must be one of Trace, Debug, Information, Warning, Error, Critical, None, not "Loud"`,
		`runner.json:8: Logging.Formatt: is not a known setting: did you mean Logging.Format?`,
		`runner.json:10: Runner.Id: must be a UUID such as 0191d2c4-6f3e-7b1a-9c55-3f1f0a7c2b10, not "edge-1"`,
		`runner.json:11: Runner.ClientSecret: is not a known setting: did you mean Runner.Credentials.ClientSecret?`,
		`runner.json:12: Runner.Credentials.ClientSecret: must be a text, not a list`,
		`runner.json:13: Runner.Labels: must be an object, not a single value`,
		`runner.json:15: Server: must be an object, not a single value`,
		"runner.json: Runner.OrganizationId: is missing: the id of the Runner's Organization, `legwork runner create` prints it",
		"runner.json: Runner.Credentials.ClientId: is missing: the client id, `legwork runner create` prints it",
		`environment variable LEGWORK_RUNNER__CAPACITY: Runner.Capacity: must be a whole number between 1 and 1000, not "many"`,
		`environment variable LEGWORK_RUNNER__INSTNACE: RUNNER.INSTNACE: is not a known setting: did you mean Runner.Instance?`,
		`flag --set Cancel: Cancel: is a section: set one of the keys in it`,
		`flag --set Logging.Console.X: Logging.Console.X: is not a known setting`,
		`flag --set cancel.interruptSeconds: Cancel.InterruptSeconds: must be a whole number between 0 and 86400, not "-1"`,
	})
	if strings.Contains(fmt.Sprintf("%+v", err), clientSecret) {
		t.Fatal("a problem shows the secret")
	}
}

func TestRunnerChecksThatASchemaCannotSay(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	notPEM := write(t, "ca.pem", "hello")
	_, err := LoadRunnerSettings(Layers{Environ: complete(
		"Runner__Instance=a/b", "LEGWORK_RUNNER__CREDENTIALS__CLIENTID="+organizationID+":abc", "LEGWORK_SERVER__URL=legwork.example.com:8440",
		"Server__CaFile="+notPEM, "HooksPreapproval__Enabled=true", "HooksPreapproval__PreapprovedHooksDirectory="+nowhere,
		"WorkingDirectory__WorkingDirectory=~other/runner", "Runner__webhook=https://user:"+clientSecret+"@host/",
		"Runner__token_file=~/token",
	)})
	sameLines(t, problems(t, err), []string{
		`environment variable WorkingDirectory__WorkingDirectory: WorkingDirectory.WorkingDirectory: must not name another user's home: only ~ and ~/... are expanded`,
		`environment variable HooksPreapproval__PreapprovedHooksDirectory: HooksPreapproval.PreapprovedHooksDirectory: cannot be read: no such file or directory`,
		`environment variable LEGWORK_RUNNER__CREDENTIALS__CLIENTID: Runner.Credentials.ClientId: must be the bare client id, without the Organization's id and the colon before it`,
		`environment variable Runner__Instance: Runner.Instance: must hold no slash and no control character`,
		`environment variable LEGWORK_SERVER__URL: Server.Url: must be a URL such as https://legwork.example.com:8440`,
		`environment variable Server__CaFile: Server.CaFile: holds no certificate in PEM form`,
	})
}

func TestUnreadableFiles(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"broken JSON":  {"a.json", "{\n\"Runner\": {\n\"Id\" 5}}", "a.json:3: is not JSON: invalid character '5' after object key"},
		"cut JSON":     {"a.json", "{\n\"Runner\": {", "a.json:2: is not JSON: it ends too early"},
		"more JSON":    {"a.json", "{}\n{}", "a.json:2: there is more after the end of the object"},
		"a JSON list":  {"a.json", "[]", "a.json:1: must hold an object of settings, not a list"},
		"broken YAML":  {"a.yaml", "Runner:\n  Id: 'x\n", "a.yaml:2: is not YAML: found unexpected end of stream"},
		"YAML alias":   {"a.yaml", "Runner: &r {}\nServer: *r\n", "a.yaml:2: uses an alias (*name): write the value itself"},
		"two YAMLs":    {"a.yml", "{}\n---\n{}\n", "a.yml:2: holds more than one document"},
		"deep":         {"a", strings.Repeat("[", 50) + strings.Repeat("]", 50), "a:1: is nested too deeply"},
		"deep JSON":    {"a.json", strings.Repeat("[", 50), "a.json:1: is nested too deeply"},
		"a plain text": {"a.conf", "hello", "a.conf:1: must hold an object of settings, not a single value"},
		"too large":    {"a.json", strings.Repeat(" ", maxFileBytes+1), "a.json: cannot be read: it is larger than 1024 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadRunnerSettings(Layers{File: write(t, c.file, c.text), Environ: []string{"HOME=/h", "LEGWORK_RUNNER__CAPACITY=x"}})
			sameLines(t, problems(t, err), []string{c.want,
				`environment variable LEGWORK_RUNNER__CAPACITY: Runner.Capacity: must be a whole number between 1 and 1000, not "x"`})
		})
	}
	_, err := LoadServerSettings(Layers{File: "/nowhere/at/all.yaml"})
	sameLines(t, problems(t, err), []string{"all.yaml: cannot be read: no such file or directory"})
}

func TestServerSettings(t *testing.T) {
	file := write(t, "server.yaml", "listen: :9000\nallow_plain_http: true\ntrusted_proxies: [10.1.2.3/8, '::1']\nlease: 30s\nheartbeat: 5s\ndatabase: postgres://u:p@db/legwork\n")
	s, err := LoadServerSettings(Layers{
		File:    file,
		Environ: []string{"HOME=/h", "LEGWORK_SERVER=http://x", "LEGWORK_SERVER__LOG_LEVEL=DEBUG", "LEGWORK_SERVER__URL=https://x", "LEGWORK_RUNNER__ID=x", "listen=x"},
		Flags:   map[string]string{"data": "~/data"},
	})
	if err != nil {
		t.Fatal(problems(t, err))
	}
	got := fmt.Sprintln(s.Data, s.Listen, s.Proxies(), time.Duration(s.Lease), s.Database.Reveal(), s.Level(), time.Duration(s.StallTimeout), s.MaxAttempts)
	if want := "/h/data :9000 [10.0.0.0/8 ::1/128] 30s postgres://u:p@db/legwork DEBUG 30m0s 5\n"; got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestPlacesForBlobs(t *testing.T) {
	for where, want := range map[string]string{
		"":                      "",
		"~/blobs":               "/h/blobs",
		"/srv/blobs":            "/srv/blobs",
		"file:///srv/blobs":     "file:///srv/blobs",
		"file://host/srv":       "flag --set blob_url: blob_url: must be a folder or a URL such as file:///srv/legwork",
		"mem://":                "flag --set blob_url: blob_url: must be a folder or a URL such as file:///srv/legwork",
		"s3://bucket?region=eu": "flag --set blob_url: blob_url: names an object store, which is not supported yet: give a folder, shared between Servers where there are several",
		"gs://bucket":           "flag --set blob_url: blob_url: names an object store, which is not supported yet: give a folder, shared between Servers where there are several",
	} {
		s, err := LoadServerSettings(Layers{Environ: []string{"HOME=/h"}, Flags: map[string]string{"blob_url": where}})
		if err != nil {
			sameLines(t, problems(t, err), []string{want})
		} else if got := s.BlobURL.Reveal(); got != want {
			t.Errorf("%q became %q, want %q", where, got, want)
		}
	}
}

// A flag is named as it was typed.
func TestProblemsNameTheFlag(t *testing.T) {
	_, err := LoadServerSettings(Layers{
		Environ:   []string{"HOME=/h"},
		Flags:     map[string]string{"listen": "127.0.0.1:99999", "lease": "1x"},
		FlagNames: map[string]string{"listen": "--listen"},
	})
	sameLines(t, problems(t, err), []string{
		`flag --set lease: lease: must be a duration such as "90s" or "1h30m", not "1x"`,
		`flag --listen: listen: must be an address and a port such as 127.0.0.1:8440 or :8440`,
	})
}

func TestServerProblems(t *testing.T) {
	_, err := LoadServerSettings(Layers{
		Environ: []string{"HOME=/h", "LEGWORK_SERVER__LISTENN=x", "LEGWORK_SERVER__LEASE=60", "LEGWORK_SERVER__DATABASE=mysql://root:" + clientSecret + "@db/x"},
		Flags: map[string]string{
			"listen": "8440", "tls_cert": "/x.pem", "public_url": "legwork", "trusted_proxies": "10.0.0.0/8,proxy", "token_lifetime": "1s",
			"runner_registration_token": "short", "heartbeat": "30s", "uncovered_nodes": "local", "max_attempts": "0", "drain_timeout": "99999999999h",
		},
	})
	sameLines(t, problems(t, err), []string{
		`environment variable LEGWORK_SERVER__LISTENN: LISTENN: is not a known setting: did you mean listen?`,
		`flag --set drain_timeout: drain_timeout: must be a duration such as "90s" or "1h30m", not "99999999999h"`,
		`environment variable LEGWORK_SERVER__LEASE: lease: must be a duration such as "90s" or "1h30m", not "60"`,
		`flag --set max_attempts: max_attempts: must be a whole number between 1 and 100, not "0"`,
		`flag --set uncovered_nodes: uncovered_nodes: wants local_runner: true`,
		`environment variable LEGWORK_SERVER__DATABASE: database: must be empty or a URL that begins with postgres:// or postgresql://`,
		`flag --set runner_registration_token: runner_registration_token: must have 16 to 512 characters: whoever guesses it has a Runner`,
		`flag --set listen: listen: must be an address and a port such as 127.0.0.1:8440 or :8440`,
		`flag --set public_url: public_url: must be a URL such as https://legwork.example.com:8440`,
		`flag --set trusted_proxies: trusted_proxies: holds "proxy", which is neither an address such as 10.0.0.7 nor a network such as 10.0.0.0/8`,
		`tls_key: is missing: tls_cert needs the file of its private key`,
		`flag --set token_lifetime: token_lifetime: must be between 1m0s and 24h0m0s, not 1s`,
		`flag --set heartbeat: heartbeat: must be at most a third of lease, so that two may be lost: lease is 1m0s`,
	})
}

// One environment may hold the variables of both programs, as that of `legwork dev` does.
func TestNoVariableMeansTwoThings(t *testing.T) {
	runner, err := schemaOf("runner")
	if err != nil {
		t.Fatal(err)
	}
	server, err := schemaOf("server")
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for _, key := range knownKeys(property(runner, "Server"), "") {
		taken[fold(key)] = true
	}
	for _, key := range knownKeys(server, "") {
		if taken[fold(key)] {
			t.Errorf("LEGWORK_SERVER__%s is a setting of the Server and of the Runner", strings.ToUpper(key))
		}
	}
	environ := complete("LEGWORK_SERVER__LISTEN=127.0.0.1:1", "LEGWORK_SERVER__TRUSTED_PROXIES__0=10.0.0.1", "LEGWORK_SERVER__CA_FILE=")
	if _, err := LoadRunnerSettings(Layers{Environ: environ}); err != nil {
		t.Error(problems(t, err))
	}
	if s, err := LoadServerSettings(Layers{Environ: environ}); err != nil || s.Listen != "127.0.0.1:1" || len(s.TrustedProxies) != 1 {
		t.Error(s.Listen, s.TrustedProxies, err)
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	type holder struct {
		Shown  Secret
		inside Secret
	}
	h := holder{NewSecret(clientSecret), NewSecret(clientSecret)}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", h.Shown, "holder", h)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", h.Shown, "holder", h)
	asJSON, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(map[string]any{"secret": h.Shown})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(h.Shown), fmt.Sprint(h), fmt.Sprintf("%+v %#v %v", h, h, &h), fmt.Sprintf("%#v %s %x", h.Shown, h.Shown, &h.Shown),
		string(asJSON), string(asYAML), log.String(), h.inside.String(),
	} {
		if strings.Contains(text, clientSecret) || strings.Contains(text, fmt.Sprintf("%x", clientSecret)) {
			t.Errorf("printed: %s", text)
		}
	}
	if string(asJSON) != `{"Shown":"***"}` || !strings.Contains(string(asYAML), "***") || h.Shown.Reveal() != clientSecret {
		t.Error(string(asJSON), string(asYAML))
	}
}

func FuzzSettingsFile(f *testing.F) {
	for _, seed := range []string{
		`{"Runner": {"Id": "x", "Labels": {"a": 1, "b\u0000c": null}}, "Engine": {"AdditionalBinaryPaths": ["/a", {}, [1]]}}`,
		"Runner:\n  Id: x\nLogging: {LogLevel: {Default: Debug}, Console: {x: [1, {a: b}]}}\n",
		"// c\n{/* x */ \"web_host\": \"http://h\", \"runner\": {\"max_parallel_tasks\": 1e3,},}", "\xef\xbb\xbf{", "- a\n- *b", "lease: 1h\n", "%",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		name := "a.yaml"
		if isJSON {
			name = "a.json"
		}
		root, err := parse(name, []byte(text))
		if err != nil {
			var syntax *syntaxError
			if !errors.As(err, &syntax) || syntax.line < 0 || syntax.line > strings.Count(text, "\n")+2 {
				t.Fatalf("not a syntax error with its line: %#v", err)
			}
			return
		}
		for _, program := range []string{"runner", "server"} {
			schema, err := schemaOf(program)
			if err != nil {
				t.Fatal(err)
			}
			g := newGathering(schema)
			if root.kind == objectNode {
				g.absorb(nil, schema, root)
			}
			if err := g.validate(schema); err != nil {
				t.Fatal(err)
			}
			document, err := json.Marshal(g.document())
			if err != nil {
				t.Fatal(err)
			}
			settings := map[string]any{"runner": &RunnerSettings{}, "server": &ServerSettings{}}[program]
			if err := json.Unmarshal(document, settings); err != nil {
				t.Fatalf("what passed the schema does not decode: %v\n%s", err, document)
			}
		}
	})
}

// TestKeptRunnerFile reads the settings file of another tradition, with its names of the settings that bound what a Runner takes.
func TestKeptRunnerFile(t *testing.T) {
	file := write(t, "runner.json", `{
		"tmp_path": "/tmp/scratch",
		"web_host": "https://legwork.example.com",
		"runner": {"max_parallel_tasks": 3, "one_off": true, "drain_timeout": "90s"}
	}`)
	s, err := LoadRunnerSettings(Layers{File: file, Environ: complete()})
	if err != nil {
		t.Fatal(err)
	}
	if s.Runner.Capacity != 3 || !s.Runner.OneOff || time.Duration(s.Runner.DrainTimeout) != 90*time.Second {
		t.Fatalf("capacity %d, one_off %v, drain_timeout %v", s.Runner.Capacity, s.Runner.OneOff, s.Runner.DrainTimeout)
	}
	if s.WorkingDirectory.TempDirectory != "/tmp/scratch" {
		t.Fatalf("scratch files in %s", s.WorkingDirectory.TempDirectory)
	}
	cfg := runnerConfig(s, "legwork", nil)
	if cfg.Capacity != 3 || !cfg.OneOff || cfg.DrainTimeout != 90*time.Second {
		t.Fatalf("the Runner gets %+v", cfg)
	}
	_, err = LoadRunnerSettings(Layers{Environ: complete("Runner__drain_timeout=-1s")})
	if err == nil || !strings.Contains(err.Error(), "drain_timeout") {
		t.Fatalf("a negative limit: %v", err)
	}
}
