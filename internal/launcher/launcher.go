// Package launcher starts and stops Runner processes on demand: on a host, in containers, in a cluster, in a cloud.
//
// A launcher does its work on the host of an Instance, in a process of its own (`legwork runner launch FILE`) that the keeper starts as
// it does any engine: the Server itself needs no rights in any cloud. What it makes bears tags (see Tags), so that it is found again
// whoever asks, and every call may be made again: one that broke off is finished by the next.
package launcher

import (
	"context"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// Name is that of the Engine: what a Runner Job needs of an Instance.
const Name catalog.Engine = "launcher"

// Launcher starts and stops the processes of one Runner, which the task names. Everything it does can be done again and then changes
// nothing. Errors are faults: "launcher_denied" names the action that is missing and the resource, "launcher_quota" what is used up,
// "launcher_region" an unknown region; those that pass by themselves (throttling, capacity) are Retryable.
type Launcher interface {
	// Describe looks whether everything can be done that will have to be, without changing anything, and says what it found.
	Describe(ctx context.Context, task *work.RunnerTask) ([]string, error)
	// Ensure has there be what the processes share and, of each of task.Units, exactly one process. Processes of other names are left alone.
	Ensure(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error)
	// List gives every process that bears the tags of the Runner, those among them that nobody knows of, and those that stopped for as
	// long as they are seen.
	List(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error)
	// Stop ends processes by name: gracefully, then hard. One that is not there is no error.
	Stop(ctx context.Context, task *work.RunnerTask, names []string) error
	// Remove ends all processes of the Runner and deletes everything that Ensure made for it.
	Remove(ctx context.Context, task *work.RunnerTask) error
}
