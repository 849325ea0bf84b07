// Package engine is the contract between the Runner and the programs that do the work, and the rooms
// of those programs: terraform (OpenTofu and Terraform), pulumi, script, nodes (Rounds of Runbooks), ansible and discovery.
//
// An engine never starts the long command of a Step itself. It says what to start (Command); the Runner
// has the keeper start it, so that it outlives the Runner; and when it is over the engine reads what it
// made (Result). Both may be called again after a crash of the Runner, with the same outcome.
package engine

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// Tool is an engine's program as it was found on the host.
type Tool struct {
	Path    string // absolute; empty for engines that need no program
	Version string // "1.12.6"
}

// Workspace is where one Job's Steps run. All paths are absolute.
type Workspace struct {
	Root    string     // holds Dir, and a job cannot replace it; default Dir
	Dir     string     // the root module: the source's subdirectory; every command starts here
	JobDir  string     // of this Attempt, mode 0700: plan file, scripts
	Cache   string     // shared by all Jobs of the host: provider caches
	Env     []string   // the whole environment of the Step, resolved Inputs included: "K=V"
	Secrets []string   // values to mask wherever they appear
	Spec    *work.Spec //
	Tool    Tool       //
	Confine []string   // begins every command line that runs what the source brings; may be empty
}

// Command is what the keeper shall start for a Step. It is an argument vector, never a shell line.
type Command struct {
	Argv []string
	Env  []string // the whole environment; Workspace.Env plus what the engine adds
	// HandOver reports that the program is part of Legwork. It reads the part of Env that is not the environment of the
	// runner from a socket, so that the kernel does not show it to other processes of the same user.
	HandOver bool
	OK       []int // exit codes that mean success; nil means only 0
	// Exclusive is the absolute path of a lock file ("" for none). The caller holds an exclusive flock on
	// it, host-wide, while the command runs: such as for a cache that two commands must not write at once.
	// Its folder exists.
	Exclusive string
}

// Exit is how a command ended.
type Exit struct {
	Code    int    // -1 when it died by a signal or never started
	Signal  string // "SIGKILL", ... when it died by one
	Reason  string // process's word: exited, signaled, timeout, stalled, canceled, killed, start_failed, lost
	Message string
	Excerpt *work.Excerpt // of the log, when the command failed; nil when it printed nothing
}

// Engine drives one family of programs.
type Engine interface {
	// Find looks for the program in dirs first, then on PATH. It returns a fault.NotFound with code
	// "engine_missing" when there is none.
	Find(ctx context.Context, dirs []string) (Tool, error)

	// Command gives what to start for a Step. ok is false when the Step needs no command; Result is called
	// all the same then, with a zero Exit. It may write files below w.JobDir and w.Cache. After a crash of the Runner it is called
	// again while the command it gave runs, or after that: it must not disturb that.
	Command(ctx context.Context, step work.StepKind, w Workspace) (c Command, ok bool, err error)

	// Result reads what a Step's command made: the plan, the outputs. It may run short, repeatable programs
	// of its own (show -json, output -json). A command that did not end well gives the result of Failed; an
	// error means that what the command made cannot be read.
	Result(ctx context.Context, step work.StepKind, w Workspace, exit Exit) (work.StepResult, error)
}

// Set is the engines of a host by name.
type Set map[catalog.Engine]Engine
