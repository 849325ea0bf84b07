// Package boot puts the program together: its settings, the wiring of its parts, and the order in
// which they start and stop.
//
// Settings come in layers, each over the one before: defaults, file, environment, flags. A text in any of them may be
// a reference (package reference) to a value that is kept elsewhere. All of
// them are read and checked before anything starts, and every problem is named at once. What a key
// means, which values it takes and what it defaults to stands once, in the structs RunnerSettings
// and ServerSettings; their JSON Schemas are made from them.
package boot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"legwork/internal/fault"
	"legwork/internal/runner"
)

// Layers is where settings come from, besides the defaults. Each layer is over the one before.
type Layers struct {
	File    string            // path of a JSON (comments allowed) or YAML file; "" = none
	Environ []string          // "NAME=value" as of os.Environ; an empty value counts as not set
	Flags   map[string]string // dotted key, in any case, to its value as text: "Runner.Capacity": "4"

	// FlagNames says what was typed for a key of Flags, such as "--listen"; keys that are not in it: --set.
	FlagNames map[string]string
}

// LoadRunnerSettings reads and checks the settings of a Runner. A wrong setting gives one
// fault.Invalid whose Details name every problem.
func LoadRunnerSettings(from Layers) (RunnerSettings, error) {
	settings := DefaultRunnerSettings()
	settings.WorkingDirectory.WorkingDirectory = runner.FolderIn(hostOf(from.Environ).home)
	g, err := load("runner", &settings, from, runnerVariable)
	if err == nil {
		settings.secretReference = g.leaves[path{"Runner", "Credentials", "ClientSecret"}.key()].reference
	}
	return settings, err
}

// LoadServerSettings reads and checks the settings of a Server. A wrong setting gives one
// fault.Invalid whose Details name every problem.
func LoadServerSettings(from Layers) (ServerSettings, error) {
	settings := DefaultServerSettings()
	settings.file = from.File
	_, err := load("server", &settings, from, serverVariable)
	return settings, err
}

// checked is what both settings structs are to load.
type checked interface {
	// finish fills in what depends on other settings or on the host, expands paths, and reports
	// what the schema cannot say.
	finish(*host, report)
}

// report names a problem of the setting with this dotted key.
type report func(key, format string, args ...any)

// host is what the settings need to know of the machine and the user.
type host struct {
	home string // "" = not known
	name string // "" = not known
}

func load(program string, settings checked, from Layers, variable variableRule) (*gathering, error) {
	schema, err := schemaOf(program)
	if err != nil {
		return nil, err
	}
	g := newGathering(schema)
	readable := g.readFile(from.File)
	g.readEnvironment(from.Environ, variable)
	g.readFlags(from.Flags, from.FlagNames)
	if !readable { // what the file would have said cannot be missed now
		return g, g.fault(program)
	}
	g.fetch(context.Background())
	if err := g.validate(schema); err != nil {
		return nil, err
	}
	document, err := json.Marshal(g.document())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(document, settings); err != nil {
		return nil, fault.New(fault.Internal, "internal", "the settings cannot be decoded").WithCause(err)
	}
	settings.finish(hostOf(from.Environ), g.reportKey)
	return g, g.fault(program)
}

func hostOf(environ []string) *host {
	h := &host{}
	for _, entry := range environ {
		if home, ok := strings.CutPrefix(entry, "HOME="); ok {
			h.home = home
		}
	}
	if h.home == "" {
		h.home, _ = os.UserHomeDir()
	}
	h.name, _ = os.Hostname()
	return h
}

// path makes *p absolute: a leading ~ is the user's home folder, anything else is relative to the
// folder the program was started in. An empty path stays empty.
func (h *host) path(p *string, key string, problem report) {
	if *p == "" {
		return
	}
	expanded := *p
	if rest, ok := strings.CutPrefix(expanded, "~"); ok {
		if rest != "" && rest[0] != '/' && rest[0] != filepath.Separator {
			problem(key, "must not name another user's home: only ~ and ~/... are expanded")
			return
		}
		if h.home == "" {
			problem(key, "begins with ~, but the home folder is not known: set HOME or write the whole path")
			return
		}
		expanded = filepath.Join(h.home, rest)
	}
	absolute, err := filepath.Abs(expanded)
	if err != nil {
		problem(key, "cannot be made absolute: the present folder is not known")
		return
	}
	*p = absolute
}

// existing reports the path unless it is an existing folder (or, if not dir, a file).
func existing(path string, dir bool, key string, problem report) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		problem(key, "cannot be read: %s", reason(err))
	case dir && !info.IsDir():
		problem(key, "must be a folder")
	case !dir && !info.Mode().IsRegular():
		problem(key, "must be a file")
	}
}

// fault gives all problems as one error, or nil.
func (g *gathering) fault(program string) error {
	if len(g.problems) == 0 {
		return nil
	}
	g.sortProblems()
	title := strings.ToUpper(program[:1]) + program[1:]
	f := fault.New(fault.Invalid, "settings_invalid", "the settings of the %s have %d problems", title, len(g.problems))
	if len(g.problems) == 1 {
		f = fault.New(fault.Invalid, "settings_invalid", "the settings of the %s have a problem: %s", title, g.problems[0])
	}
	return f.WithHint("%s", g.hint(program)).WithDetails(g.problems...)
}

// hint says what helps against most of what is wrong.
func (g *gathering) hint(program string) string {
	switch {
	case g.unreadable:
		return "check the path that --config names, and that this user may read the file"
	case g.unfetched == len(g.problems):
		return "check that what the reference names is there and that this user may read it; a service must be reached, with the address and " +
			"the credentials that its own environment variables give"
	}
	return fmt.Sprintf("`legwork schema %s` prints every key with what it takes", program)
}

// sortProblems keeps the order of the files and brings those of one file into the order of its
// lines; what has no line comes last.
func (g *gathering) sortProblems() {
	place := func(p fault.Problem) (int, int) {
		file := slices.IndexFunc(g.problems, func(other fault.Problem) bool { return other.File == p.File })
		if p.Line == 0 {
			return file, math.MaxInt
		}
		return file, p.Line
	}
	sorted := slices.Clone(g.problems)
	slices.SortStableFunc(sorted, func(a, b fault.Problem) int {
		fileA, lineA := place(a)
		fileB, lineB := place(b)
		return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB))
	})
	g.problems = sorted
}
