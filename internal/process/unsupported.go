//go:build !linux && !darwin

package process

import (
	"context"
	"log/slog"
	"os"
	"time"

	"legwork/internal/fault"
)

// CommandVar is the environment variable that bears a command's ID.
const CommandVar = "LEGWORK_COMMAND"

func unsupported() error {
	return fault.New(fault.Unsupported, "no_keeper_here", "a Runner cannot run on this operating system").
		WithHint("run it on Linux or macOS")
}

// FreeSpace returns a fault.Unsupported.
func FreeSpace(string) (int64, error) { return 0, unsupported() }

// Lock does nothing here.
func Lock(*os.File) error { return nil }

// AwaitInherited does nothing here.
func AwaitInherited() {}

// RunKeeper returns a fault.Unsupported.
func RunKeeper(context.Context, string, string, *slog.Logger) error { return unsupported() }

// Launch is the command line of a keeper.
type Launch struct {
	Argv []string
	Env  []string
}

// Client cannot be had here.
type Client struct{}

// Connect returns a fault.Unsupported.
func Connect(context.Context, string, string, Launch, *slog.Logger) (*Client, error) {
	return nil, unsupported()
}

// Close does nothing.
func (*Client) Close() error { return nil }

// Start returns a fault.Unsupported.
func (*Client) Start(context.Context, Spec) error { return unsupported() }

// Stop returns a fault.Unsupported.
func (*Client) Stop(context.Context, string, StopMode) error { return unsupported() }

// List returns a fault.Unsupported.
func (*Client) List(context.Context) ([]Kept, error) { return nil, unsupported() }

// Wait returns a fault.Unsupported.
func (*Client) Wait(context.Context, string, string) (Exit, error) { return Exit{}, unsupported() }

// Retire returns a fault.Unsupported.
func (*Client) Retire(context.Context) error { return unsupported() }

// Keeper returns nothing.
func (*Client) Keeper() (int, string) { return 0, "" }

// Grew returns a Watch that never tells anything.
func (*Client) Grew(spool string) *Watch { return &Watch{spool: spool} }

// Watch tells when a spool grows.
type Watch struct {
	C     <-chan struct{}
	spool string
}

// State returns the path alone.
func (w *Watch) State() SpoolState { return SpoolState{Spool: w.spool} }

// Stop does nothing.
func (*Watch) Stop() {}

// Orphan is what is left of a command whose keeper was killed.
type Orphan struct {
	ID      string
	Pid     int
	Started time.Time
	Alive   bool
	Pids    []int
}

// FindOrphan returns a fault.Unsupported.
func FindOrphan(string) (Orphan, bool, error) { return Orphan{}, false, unsupported() }

// EndOrphan returns a fault.Unsupported.
func EndOrphan(context.Context, string, Ladder) (int, error) { return 0, unsupported() }

// Spares cannot be had here.
type Spares struct{}

// NewSpares returns one that keeps nothing.
func NewSpares(string) *Spares { return &Spares{} }

// Give deletes the file.
func (*Spares) Give(path string) error { return os.Remove(path) }
