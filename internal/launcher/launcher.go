// Package launcher starts and stops Runner processes on demand: on a host, in containers, in a cluster, in a cloud.
//
// A launcher does its work on the host of an Instance, in a process of its own (`legwork runner launch FILE`) that the keeper starts as
// it does any engine: the Server itself needs no rights in any cloud. What it makes bears tags (see Tags), so that it is found again
// whoever asks, and every call may be made again: one that broke off is finished by the next.
//
// # What is secret
//
// A work.RunnerTask is written into a file without any secret. These reach the process through its environment alone, and are masked in
// whatever it prints:
//   - The tokens of Units. The Engine takes them out of the task, and Main puts them back: a launcher finds them in Unit.Token.
//   - Hosting.Environment. The Server sends each of its variables as an Input of kind env that is called UnitEnv+name, sensitive, with
//     Reference set where its value is a reference: the host follows it as it does those of Modules. Main takes the prefix off and puts
//     the values into Hosting.Environment: a launcher finds there what the process gets. The prefix keeps them from acting on the
//     launcher itself. Hosting.Environment in the Spec's own task is passed over.
//   - The keys of a CloudIdentity. The Server sends them as sensitive Inputs of kind env AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (again
//     with Reference where it is one), and leaves both fields of the task's Identity empty. The libraries of the cloud find them in the environment.
//
// # What a process is given
//
// Environment(task, unit) are the variables of one process: where its Server is, who it is to be, and its bootstrap token, with which it
// registers itself once. They are settings of a Runner, see boot.RunnerSettings.
package launcher

import (
	"context"
	"encoding/json"
	"slices"

	"legwork/internal/catalog"
	"legwork/internal/confine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// Name is that of the Engine: what a Runner Job needs of an Instance.
const Name catalog.Engine = "launcher"

// UnitEnv begins the names of Inputs that are variables of Hosting.Environment.
const UnitEnv = "LEGWORK_UNIT_ENV_"

// Launcher starts and stops the processes of one Runner, which the task names. Everything it does can be done again and then changes
// nothing. Errors are faults: "launcher_denied" names the action that is missing and the resource, "launcher_quota" what is used up,
// "launcher_region" an unknown region; those that pass by themselves (throttling, capacity) are Retryable.
type Launcher interface {
	// Describe looks whether everything can be done that will have to be, without changing anything, and says what it found.
	Describe(ctx context.Context, task *work.RunnerTask) ([]string, error)
	// Ensure has there be what the processes share and, of each of task.Units, exactly one process. Processes of other names are left alone.
	Ensure(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error)
	// List gives every process that bears the tags of the Runner, those among them that nobody knows of, and those
	// that stopped for as long as they are seen. Nothing of a process that is reported as stopped works any more, no
	// command that it had started either.
	List(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error)
	// Stop ends processes by name: gracefully, then hard. One that is not there is no error.
	Stop(ctx context.Context, task *work.RunnerTask, names []string) error
	// Remove ends all processes of the Runner and deletes everything that Ensure made for it.
	Remove(ctx context.Context, task *work.RunnerTask) error
}

// Resumer is a Launcher whose processes work in folders that outlive them. Their supervisors continue when a process
// dies, and only a process in the same folder can report the results.
type Resumer interface {
	// Resume starts each Unit of task.Lost again, in its folder and as the same Instance, if its process ended and its
	// folder holds unreported work. It never starts an unknown Unit. It reports the Units of task.Lost that it knows.
	Resume(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error)
}

// Host is what a launcher knows of where it works.
type Host struct {
	Dir     string       // absolute: of all launchers on this host, below the Runner's working directory; it may not be there yet
	Program string       // path of this program
	Version string       // of this program
	CAFile  string       // PEM, trusted besides the host's authorities when the Server is asked; may be empty
	Keys    []string     // public keys that releases are signed with, besides the built-in ones
	OwnOnly bool         // processes on this host run this program, never a newer release
	Say     func(string) // takes a line for the log of the Step; never nil
	// Environment names variables of the Runner's process, or globs of names, that processes on this host and scripts get besides the
	// harmless ones: see Passed.
	Environment []string
	TempDir     string // TMPDIR of the Runner's process, that of a Step being gone with its Job; may be empty
	// Settings is a file of settings, JSON, for Runners that are started on this host: what its owner lets a Server do. Empty: none.
	Settings json.RawMessage
	// Limits is what may be launched where the host is that of the Server itself. nil: the owner of the host has allowed everything.
	Limits *Limits
}

// Limits bound what the Server's own Runner launches, next to the Server's data.
type Limits struct {
	Kinds   []catalog.LauncherKind `json:"kinds"`             // that may be used; none by default
	Scripts string                 `json:"scripts,omitempty"` // absolute: the folder with the scripts of launcher exec; empty: none
	// Confine hides the Server's data from processes that are launched on its host. nil: they see it, which the owner asked for.
	Confine *confine.Policy `json:"confine,omitempty"`
}

// allow refuses a launcher that the settings of the Server do not name.
func (l *Limits) allow(kind catalog.LauncherKind) error {
	if l == nil || slices.Contains(l.Kinds, kind) {
		return nil
	}
	return fault.New(fault.Forbidden, "launcher_not_allowed", "the settings of this server do not allow it to use the launcher %s itself", kind).
		WithHint("add %s to launchers in the settings of the server, or launch through a runner on another host (hosting.through)", kind)
}

// New makes a launcher. It touches nothing.
type New func(Host) (Launcher, error)

// Kinds are the launchers of a program by their kind.
type Kinds map[catalog.LauncherKind]New
