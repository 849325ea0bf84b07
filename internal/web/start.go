package web

import (
	"bytes"
	"embed"
	"net/url"
	"strings"
	"text/template"

	"legwork/internal/control"
	"legwork/internal/lazyregexp"
)

// The commands that start a Runner: pages show them filled in, docs/STARTING.md as they are for an example.
//
//go:embed start/*.sh
var startFiles embed.FS

// startKinds are the ways to start a Runner once its settings are written.
var startKinds = []struct{ file, title, note string }{
	{"shell", "Shell", "Requires the legwork binary. Ctrl-C drains and exits when jobs finish."},
	{"docker", "Docker", "Build the image first: docker build -t legwork -f deploy/Dockerfile . A stop drains it."},
	{"compose", "Compose", "Build the image first: docker build -t legwork -f deploy/Dockerfile ."},
	{"kubernetes", "Kubernetes", "The image has to be where the cluster finds it. Each Instance is named after its Pod and keeps its folder."},
	{"systemd", "systemd", "In the folder of a release, which holds the unit. Jobs go on while the Runner is started again."},
}

// startValues are what the commands are filled with. None of them holds a letter that a shell takes for more than itself.
type startValues struct {
	Name, Object                       string // of the Runner; of what stands for it in a cluster
	Server                             string // URL
	ID, Organization, ClientID, Secret string
	Multiple                           bool   // Instances
	Install                            string // command that installs the program, "" where no release is published
}

// startCommand is one way to start a Runner.
type startCommand struct{ id, title, note, text string }

// settingsCommand writes what a Runner needs into a file that only its user can read.
func settingsCommand(v startValues) string { return startText("settings", v) }

func startCommands(v startValues) []startCommand {
	var all []startCommand
	for _, k := range startKinds {
		all = append(all, startCommand{"start-" + k.file, k.title, k.note, startText(k.file, v)})
	}
	return all
}

var startTemplates = template.Must(template.ParseFS(startFiles, "start/*.sh"))

func startText(file string, v startValues) string {
	var b bytes.Buffer
	if err := startTemplates.ExecuteTemplate(&b, file+".sh", v); err != nil {
		panic(err) // embedded: a defect that every test sees
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// startValuesOf gives what the commands for a Runner are filled with.
func (v *visit) startValuesOf(made control.NewRunner) startValues {
	install, err := v.installCommand()
	if err != nil {
		v.Log.Warn("how the program is installed is not shown", "error", err) // the secret is, which cannot be had again
	}
	return startValues{Name: made.Runner.Name, Object: objectName(made.Runner.Name), Server: v.serverURL(), ID: made.Runner.ID, Organization: made.OrganizationID,
		ClientID: made.ClientID, Secret: made.ClientSecret, Multiple: made.Runner.AllowMultipleInstances, Install: install}
}

// objectName makes of a name one that a cluster takes.
func objectName(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, strings.ToLower(name)), "-")
}

// plainURL is what may stand in a file that a shell reads.
var plainURL = lazyregexp.New(`^https?://[A-Za-z0-9.\-:\[\]]+(/[A-Za-z0-9._~/-]*)?$`)

// serverURL gives the Server as Runners reach it: the public URL, else as the browser says.
func (v *visit) serverURL() string {
	given := v.PublicURL
	if given == "" {
		scheme := "http"
		if v.request.TLS != nil {
			scheme = "https"
		}
		given = (&url.URL{Scheme: scheme, Host: v.request.Host}).String()
	}
	if !plainURL.MatchString(given) {
		return "https://legwork.example.com"
	}
	return strings.TrimSuffix(given, "/")
}

// registerCommand has a Runner register itself and start.
func registerCommand(v *visit, token string) string {
	return startText("register", startValues{Server: v.serverURL(), Name: "edge-1", Secret: token})
}
