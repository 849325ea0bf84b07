package runner

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// Policy is what the operator of this host lets a Server have it do. The zero value lets all through.
type Policy struct {
	Engines         []catalog.Engine // nil means all
	Sources         []string         // globs over the URLs of git sources, and InlineSource; nil means all
	Shells          []string         // of Hooks and scripts; nil means all
	NoInlineScripts bool             // scripts are files of the source: no script text and no Hook of the Server's
	References      *References      // of Secrets; nil means all
}

// InlineSource stands in Policy.Sources for whatever the Server sends the content of: inline sources and Extra files.
const InlineSource = "inline"

// check returns nil when a Step may be executed here, else a fault.Forbidden with code policy_refused. What is looked at follows from what the
// Step does, not from what stands in the Spec: a part of it that is not for this Step is refused, whatever the policy says.
func (p Policy) check(kind work.StepKind, spec *work.Spec) error {
	if err := unmixed(kind, spec); err != nil {
		return err
	}
	switch kind {
	case work.StepRound:
		return p.checkRun(spec)
	case work.StepListSecrets:
		return nil // bounded by References
	case work.StepInstall:
		return nil // bounded by Updates
	}
	// Whether launchers are there at all is a setting of its own, which is off unless the owner of the host wants them.
	if len(p.Engines) > 0 && spec.Engine != launcher.Name && !slices.Contains(p.Engines, spec.Engine) {
		return refused("AllowedEngines", "the engine %.100q is not allowed", spec.Engine)
	}
	if err := p.checkSource(spec); err != nil {
		return err
	}
	if p.NoInlineScripts && spec.Script != nil && spec.Script.Run != "" {
		return refused("NoInlineScripts", "the script is a text of the Module, not a file of its source")
	}
	if p.NoInlineScripts && len(spec.Hooks) > 0 {
		return refused("NoInlineScripts", "the Hook %.20s %.40s is a text of the Module", spec.Hooks[0].Phase, spec.Hooks[0].Task)
	}
	return p.checkShells(spec)
}

// unmixed refuses a Spec that holds what belongs to Steps of another kind.
func unmixed(kind work.StepKind, spec *work.Spec) error {
	round, list := kind == work.StepRound, kind == work.StepListSecrets
	discovers := kind == work.StepDiscover || kind == work.StepFetch
	for _, part := range []struct {
		what       string
		there, own bool
	}{
		{"a Round", spec.Run != nil, round},
		{"a place of Secrets", spec.Where != "", list},
		{"a Node source", spec.NodeSource != nil, discovers},
		{"a task of a launcher", spec.Task != nil, kind.ByLauncher() || kind == work.StepInstall},
		{"a script", spec.Script != nil, !round && !list},
		{"Hooks", len(spec.Hooks) > 0, !round && !list},
	} {
		if part.there && !part.own {
			return fault.New(fault.Forbidden, "policy_refused", "the Job came with %s, which its step %.40s does not have", part.what, kind).
				WithHint("the Server and this Runner may be of versions that do not fit; if they are the same, have the Server looked at")
		}
	}
	return nil
}

// checkRun is check for a Part: all its Items are looked at before the first of them is done.
func (p Policy) checkRun(spec *work.Spec) error {
	if spec.Run == nil {
		return nil // which cannot be performed
	}
	if err := p.checkSource(spec); err != nil {
		return err
	}
	for _, item := range spec.Run.Items {
		needs := runbookEngine
		if item.Step.Ansible != nil {
			needs = ansibleEngine
		}
		own := item.Kind != runbook.ModuleItem && item.Kind != runbook.ApprovalItem // those are the Server's
		if own && len(p.Engines) > 0 && !slices.Contains(p.Engines, needs) {
			return refused("AllowedEngines", "the engine %s is not allowed, and the step %.100q needs it", needs, item.Name)
		}
		if c := item.Step.Copy; c != nil && c.Content != nil && p.NoInlineScripts {
			return refused("NoInlineScripts", "the step %.100q copies a text of the runbook, not a file of its source",
				item.Name)
		}
		for _, s := range itemScripts(item) {
			if p.NoInlineScripts && s.Run != "" {
				return refused("NoInlineScripts", "the step %.100q has a command or a script that is a text of the Runbook, not a file of its source", item.Name)
			}
			if err := p.checkInterpreter(item.Name, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkInterpreter looks at what would read a script. What the first line of a file names is known too late: such a file has to
// be declared with its interpreter.
func (p Policy) checkInterpreter(step string, s catalog.StepScript) error {
	if len(p.Shells) == 0 {
		return nil
	}
	argv := runbook.Interpreter(s)
	if argv == nil {
		return refused("AllowedShells", "the script of the step %.100q does not declare its interpreter", step)
	}
	if !slices.Contains(p.Shells, argv[0]) && !slices.ContainsFunc([]string{"/bin/", "/usr/bin/"}, func(dir string) bool {
		return slices.Contains(p.Shells, strings.TrimPrefix(argv[0], dir))
	}) {
		return refused("AllowedShells", "the interpreter %.100q of the step %.100q is not allowed", argv[0], step)
	}
	return nil
}

func refused(rule, format string, args ...any) *fault.Fault {
	return fault.New(fault.Forbidden, "policy_refused", "this Runner's policy refuses the Job by Policy."+rule+": "+format, args...).
		WithHint("change the Module, give it another Runner, or have this Runner's settings changed on its host")
}

func (p Policy) checkSource(spec *work.Spec) error {
	if len(p.Sources) == 0 {
		return nil
	}
	inline := slices.Contains(p.Sources, InlineSource)
	if len(spec.ExtraFiles) > 0 && !inline {
		return refused("AllowedSources", "the Module has Extra files, which count as %s", InlineSource)
	}
	switch {
	case spec.Source.Type == catalog.Git:
		return p.CheckURL(spec.Source.URL)
	case len(spec.Source.Files) > 0 && !inline:
		return refused("AllowedSources", "the source is %s", InlineSource)
	}
	return nil // a script of its own text has no source
}

func (p Policy) checkShells(spec *work.Spec) error {
	if len(p.Shells) == 0 {
		return nil
	}
	var used []string
	for _, h := range spec.Hooks {
		used = append(used, h.Shell)
	}
	if spec.Script != nil {
		used = append(used, spec.Script.Shell)
	}
	for _, shell := range used {
		if shell == "" {
			shell = "bash"
		}
		if !slices.Contains(p.Shells, shell) {
			return refused("AllowedShells", "the shell %.100q is not allowed", shell)
		}
	}
	return nil
}

// CheckURL returns nil when code may come from a git URL, that of a submodule included. The refusal does not show
// the URL, which may hold a password.
func (p Policy) CheckURL(raw string) error {
	if len(p.Sources) == 0 {
		return nil
	}
	text, ok := comparable(raw)
	if !ok {
		return refused("AllowedSources", "the source's URL has a path or a form that no glob can be held against")
	}
	for _, glob := range p.Sources {
		if glob != InlineSource && globs(glob).MatchString(text) {
			return nil
		}
	}
	return refused("AllowedSources", "no allowed source matches the URL of the source")
}

// comparable brings a URL into the form that globs are held against: scheme and host in small letters. It refuses
// what could mean another place than it looks like: . and .. in the path, escapes of any of its signs.
func comparable(raw string) (string, bool) {
	if strings.ContainsAny(raw, "%\\?#") || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", false
	}
	for _, part := range strings.FieldsFunc(raw, func(r rune) bool { return r == '/' || r == ':' }) {
		if part == "." || part == ".." {
			return "", false
		}
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return raw, true
	}
	if _, err := url.Parse(raw); err != nil {
		return "", false
	}
	authority, tail, _ := strings.Cut(rest, "/")
	return strings.ToLower(scheme) + "://" + strings.ToLower(authority) + "/" + tail, true
}

// globs makes a regular expression of a glob over URLs: * is anything but / @ and :, so that it never reaches from a
// host's name into another part; ** is anything; ? is one letter that * may be.
func globs(glob string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for i := 0; i < len(glob); i++ {
		switch {
		case strings.HasPrefix(glob[i:], "**"):
			b.WriteString(`.*`)
			i++
		case glob[i] == '*':
			b.WriteString(`[^/@:]*`)
		case glob[i] == '?':
			b.WriteString(`[^/@:]`)
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// ValidGlob tells whether a text can stand in Policy.Sources: it begins with something fixed, and a URL can match it.
func ValidGlob(glob string) bool {
	if glob == InlineSource || glob == "**" {
		return true
	}
	place := strings.Contains(glob, ":") || strings.Contains(glob, "**") // every URL has a colon
	return glob != "" && place && !strings.ContainsAny(glob[:1], "*?") && strings.Count(glob, "[") == strings.Count(glob, "]")
}
