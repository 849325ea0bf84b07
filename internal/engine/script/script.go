// Package script runs texts and files in a shell: the engine of that name, and the Hooks of every engine.
//
// This is the only place where a shell is started. bash runs with -euo pipefail, sh with -eu, so that
// the first command that fails ends the script. The text reaches the shell as a file that its owner alone
// can read, never as an argument, where every user of the host could see it.
package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

const versionTimeout = 10 * time.Second

// Engine runs the script of a Module. The zero value is ready; it may be used by several goroutines.
type Engine struct {
	versions engine.Versions
}

var _ engine.Engine = (*Engine)(nil)

// New makes the engine.
func New() *Engine { return &Engine{} }

// Find tells whether there is a shell at all: bash or, where it is missing, sh. The Tool's path is empty,
// since each Module names its shell; its version is that of bash, "posix" where there is only sh.
func (e *Engine) Find(ctx context.Context, _ []string) (engine.Tool, error) {
	if bash, ok := engine.LookUp([]string{"bash"}, nil); ok {
		version, err := e.versions.Of(ctx, bash, askVersion)
		if err != nil {
			return engine.Tool{}, fault.New(fault.Failed, "engine_broken", "%s does not say its version", bash).
				WithHint("run %s --version on the Runner's host", bash).WithCause(err)
		}
		return engine.Tool{Version: version}, nil
	}
	if _, ok := engine.LookUp([]string{"sh"}, nil); ok {
		return engine.Tool{Version: "posix"}, nil
	}
	return engine.Tool{}, engine.Missing("script", []string{"bash", "sh"})
}

func askVersion(ctx context.Context, bash string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	var version []byte
	argv := []string{bash, "--norc", "--noprofile", "-c", `printf %s "${BASH_VERSION%%[!0-9.]*}"`}
	err := engine.Capture(ctx, argv, []string{"PATH=/usr/bin:/bin"}, "/", 1<<10, func(r io.Reader) (err error) {
		version, err = io.ReadAll(r)
		return err
	})
	return string(version), err
}

// Command gives the shell for the Step run; fetch needs none.
func (e *Engine) Command(_ context.Context, step work.StepKind, w engine.Workspace) (engine.Command, bool, error) {
	switch step {
	case work.StepFetch:
		return engine.Command{}, false, nil
	case work.StepRun:
	default:
		return engine.Command{}, false, fault.New(fault.Invalid, "unknown_step", "engine script knows no Step %q", step)
	}
	s := w.Spec.Script
	if s == nil || (s.Run == "") == (s.File == "") {
		return engine.Command{}, false, fault.New(fault.Invalid, "no_script", "the Module says neither script.run nor script.file, or both").
			WithHint("give the Module a script: {run: ...} or a script: {file: ...}")
	}
	command, err := e.shell(w)
	if err != nil {
		return engine.Command{}, false, err
	}
	command.Env = w.Env
	return command, true, nil
}

func (e *Engine) shell(w engine.Workspace) (engine.Command, error) {
	s := w.Spec.Script
	if s.File == "" {
		return engine.ShellCommand(s.Shell, s.Run, filepath.Join(w.JobDir, "run.script"))
	}
	file, err := sourceFile(w, s.File)
	if err != nil {
		return engine.Command{}, err
	}
	argv, err := engine.ShellArgv(s.Shell)
	return engine.Command{Argv: append(argv, file)}, err
}

// sourceFile gives the absolute path of a file of the source. name is relative to the subdirectory; it
// may lead out of that, but not out of the source, not even through a link.
func sourceFile(w engine.Workspace, name string) (string, error) {
	sub := path.Clean("./" + w.Spec.Source.Subdirectory)
	tree := w.Dir
	if above, ok := strings.CutSuffix(w.Dir, "/"+sub); ok {
		tree = above
	} else {
		sub = "."
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		return "", fmt.Errorf("open the source: %w", err)
	}
	defer root.Close()
	inTree := filepath.FromSlash(path.Join(sub, name))
	switch info, err := root.Stat(inTree); {
	case errors.Is(err, fs.ErrNotExist):
		return "", badFile(name, "is not in the source").WithCause(err)
	case err != nil:
		return "", badFile(name, "leads out of the source or cannot be read").WithCause(err)
	case !info.Mode().IsRegular():
		return "", badFile(name, "is not a file")
	}
	return filepath.Join(tree, inTree), nil
}

func badFile(name, what string) *fault.Fault {
	return fault.New(fault.Invalid, "script_file", "the script file %q %s", name, what).
		WithHint("script.file is relative to the subdirectory of the source; check it and the revision")
}

// Result tells how the script ended.
func (e *Engine) Result(_ context.Context, step work.StepKind, _ engine.Workspace, exit engine.Exit) (work.StepResult, error) {
	if !(engine.Command{}).Well(exit) {
		return engine.Failed(step, exit), nil
	}
	return work.StepResult{Status: work.StepSucceeded, ExitCode: exit.Code}, nil
}
