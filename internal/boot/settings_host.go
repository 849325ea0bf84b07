package boot

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/reference"
	"legwork/internal/runner"
)

// PolicySettings limit what a Server can have this Runner do. Without an entry a list allows all.
type PolicySettings struct {
	// Engines that may run.
	AllowedEngines []string `json:"AllowedEngines" jsonschema:"maxItems=20"`
	// URLs that git sources, and their submodules, may come from, as globs: * is anything but / : and @, ** is
	// anything. The word inline allows inline sources and Extra files.
	AllowedSources []string `json:"AllowedSources" jsonschema:"maxItems=1000"`
	// Shells that Hooks and scripts may use.
	AllowedShells []string `json:"AllowedShells" jsonschema:"maxItems=20"`
	// When true, scripts must be files of a source: script texts and Hooks are refused.
	NoInlineScripts bool `json:"NoInlineScripts"`
	// Kinds of references of Secrets that are followed here: file, env, command, vault, aws, azure, google. Default: all but
	// command, with which a Server has any program run. An empty list: none.
	AllowedReferences []string `json:"AllowedReferences" jsonschema:"maxItems=20"`
	// Folders of the files that references of Secrets may name, whole paths; links that lead out of them are not followed. An empty list: none.
	ReferenceFolders []string `json:"ReferenceFolders" jsonschema:"maxItems=100"`
}

// defaultReferences are those that do no more than read what is kept for that.
var defaultReferences = []string{"file", "env", "vault", "aws", "azure", "google"}

// defaultReferenceFolders are where hosts and container runtimes keep files of secrets.
var defaultReferenceFolders = []string{"/run/secrets", "/etc/legwork/secrets"}

// ExternalSettings are about references.
type ExternalSettings struct {
	// Seconds between two looks at the reference that the client secret came from; the next login uses what is there then.
	// 0: at the start alone. A login that is refused has it looked at again at once, in any case. Other references are followed at the start alone.
	RefreshSeconds int `json:"RefreshSeconds" jsonschema:"minimum=0,maximum=86400"`
}

func (s *RunnerSettings) checkPolicy(problem report) {
	p := s.Policy
	for _, name := range p.AllowedEngines {
		if known := slices.Concat(catalog.Engines, runner.RunbookEngines); !slices.Contains(known, catalog.Engine(name)) {
			problem("Policy.AllowedEngines", "holds %s, which is no engine: there are %s", quoted(name), joined(known))
		}
	}
	for _, glob := range p.AllowedSources {
		if !runner.ValidGlob(glob) {
			problem("Policy.AllowedSources", "holds %s: an entry is inline, ** or a URL such as https://git.example.com/infra/*", quoted(glob))
		}
	}
	for _, shell := range p.AllowedShells {
		if shell != "bash" && shell != "sh" {
			problem("Policy.AllowedShells", "holds %s: there are bash and sh", quoted(shell))
		}
	}
	for _, scheme := range p.AllowedReferences {
		if !slices.Contains(reference.Schemes, scheme) {
			problem("Policy.AllowedReferences", "holds %s: there are %s", quoted(scheme), strings.Join(reference.Schemes, ", "))
		}
	}
	for _, folder := range p.ReferenceFolders {
		if !filepath.IsAbs(folder) || filepath.Clean(folder) == "/" {
			problem("Policy.ReferenceFolders", "holds %s, which is no whole path of a folder", quoted(folder))
		}
	}
	for _, glob := range s.HooksPreapproval.AllowedVariables {
		if _, err := filepath.Match(glob, ""); err != nil || glob == "" {
			problem("HooksPreapproval.AllowedVariables", "holds %s, which is no name and no glob of names", quoted(glob))
		}
	}
}

func joined(engines []catalog.Engine) string {
	var names []string
	for _, e := range engines {
		names = append(names, string(e))
	}
	return strings.Join(names, ", ")
}

// policy gives the settings as the Runner takes them.
func (p PolicySettings) policy() runner.Policy {
	var engines []catalog.Engine
	for _, name := range p.AllowedEngines {
		engines = append(engines, catalog.Engine(name))
	}
	return runner.Policy{Engines: engines, Sources: p.AllowedSources, Shells: p.AllowedShells, NoInlineScripts: p.NoInlineScripts,
		References: &runner.References{Schemes: p.AllowedReferences, Folders: p.ReferenceFolders}}
}

// prune gives the settings as the Runner takes them.
func (w WorkingDirectorySettings) prune() runner.Prune {
	return runner.Prune{MaxAge: time.Duration(w.MaxAgeDays) * 24 * time.Hour, MaxBytes: int64(w.MaxSizeMiB) << 20, LocalState: w.PruneLocalState}
}

func (s *RunnerSettings) checkListen(problem report) {
	if s.Runner.Listen == "" {
		return
	}
	host, port, err := net.SplitHostPort(s.Runner.Listen)
	if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil {
		problem("Runner.Listen", "must be an address and a port such as 127.0.0.1:9464 or :9464")
		return
	}
	if host == "" { // what it tells is not for everybody
		s.Runner.Listen = net.JoinHostPort("127.0.0.1", port)
	}
}
