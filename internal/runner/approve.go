package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// foreignScript is a text from the Server or from a source that a Step would run in a shell.
type foreignScript struct {
	what  string
	shell string
	text  []byte
}

// approve looks at every script that the Step would run, and at what could make an approved one run something
// else, before the first of them runs. It returns the Workspace to go on with: a script file of the source is
// replaced by the text that was looked at, so that nobody can change it after the look.
func (r *Runner) approve(st *step, w engine.Workspace) (engine.Workspace, error) {
	if !r.approver.Enabled {
		return w, nil
	}
	scripts := foreignHooks(st, w.Spec)
	if st.kind.ByLauncher() && st.attached(mainCommand) { // it was looked at when it began
		return w, nil
	}
	if (st.kind == work.StepRun || st.kind == work.StepDiscover || st.kind.ByLauncher()) && w.Spec.Script != nil {
		text, err := scriptText(st, w)
		if err != nil {
			return w, err
		}
		fixed, own := *w.Spec, *w.Spec.Script
		own.Run, own.File = string(text), ""
		fixed.Script, w.Spec = &own, &fixed
		if !st.attached(mainCommand) {
			scripts = append(scripts, foreignScript{"the script", own.Shell, text})
		}
	}
	for _, s := range scripts {
		if err := r.approver.check(s.what, s.text); err != nil {
			return w, err
		}
		if err := sameShell(s); err != nil {
			return w, err
		}
	}
	if len(scripts) == 0 && !st.kind.ByLauncher() {
		return w, nil
	}
	return w, checkVariables(plainInputs(w.Spec.Inputs), r.approver.Variables)
}

// attached tells whether an earlier process of this Runner has started a command of the Step: it was looked
// at then, and what is under way is not disowned.
func (st *step) attached(name string) bool {
	return st.resumed && exists(st.path+"."+name+".start")
}

func foreignHooks(st *step, spec *work.Spec) []foreignScript {
	var scripts []foreignScript
	for _, phase := range []catalog.HookPhase{catalog.Before, catalog.After} {
		for n, h := range hooksOf(spec, st.kind, phase) {
			if st.attached(hookName(phase, n)) {
				continue
			}
			scripts = append(scripts, foreignScript{fmt.Sprintf("the Hook %s %s", h.Phase, h.Task), h.Shell, []byte(h.Script)})
		}
	}
	return scripts
}

// hooksOf gives the Hooks on one side of a Step, in their order.
func hooksOf(spec *work.Spec, kind work.StepKind, phase catalog.HookPhase) []catalog.Hook {
	return slices.DeleteFunc(slices.Clone(spec.Hooks), func(h catalog.Hook) bool {
		return h.Task != string(kind) || h.Phase != phase
	})
}

// hookName is the name of a Hook's command among those of its Step.
func hookName(phase catalog.HookPhase, n int) string { return fmt.Sprintf("%s%d", phase, n) }

// scriptText gives the text that the script of a Module consists of. That of one which is under way stands in the
// folder of the Attempt, whatever became of the file that it came from.
func scriptText(st *step, w engine.Workspace) ([]byte, error) {
	script := w.Spec.Script
	switch {
	case st.attached(mainCommand):
		return engine.ReadJobFile(w.JobDir, scriptFile, maxApproved)
	case script.File == "":
		return []byte(script.Run), nil
	}
	sub := path.Clean("./" + w.Spec.Source.Subdirectory)
	tree, ok := strings.CutSuffix(w.Dir, "/"+sub)
	if !ok {
		tree, sub = w.Dir, "."
	}
	text, err := readWithin(tree, filepath.FromSlash(path.Join(sub, script.File)))
	if err != nil {
		return nil, fault.New(fault.Invalid, "script_file", "the script file cannot be read").
			WithHint("script.file is relative to the subdirectory of the source; check it and the revision").WithCause(err)
	}
	return text, nil
}

// readWithin reads a plain file below a folder; no link leads out of it.
func readWithin(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxApproved {
		return nil, errors.Join(fs.ErrInvalid, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxApproved+1))
	if err == nil && len(text) > maxApproved {
		err = fs.ErrInvalid
	}
	return text, err
}

// sameShell refuses to run a script that names its shell in another one: sh passes over a condition that only bash
// understands.
func sameShell(s foreignScript) error {
	first, _, _ := strings.Cut(string(s.text), "\n")
	named, ok := strings.CutPrefix(first, "#!")
	if !ok {
		return nil
	}
	words := strings.Fields(named)
	if len(words) > 1 && path.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(word string) bool { return strings.HasPrefix(word, "-") })
	}
	shell := s.shell
	if shell == "" {
		shell = "bash"
	}
	if len(words) > 0 && path.Base(words[0]) == shell {
		return nil
	}
	return fault.New(fault.Forbidden, "script_shell", "%s was refused: its first line names another interpreter than %s, in which it would run", s.what, shell).
		WithHint("name the shell in the Module as the approved script does")
}
