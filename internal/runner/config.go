package runner

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"legwork/internal/confine"
	"legwork/internal/engine"
	"legwork/internal/process"
	"legwork/internal/source"
)

// Config is everything a Runner is told from outside. The caller has validated it.
type Config struct {
	ServerURL      string // base URL
	CAFile         string // PEM, trusted besides the host's authorities; may be empty
	OrganizationID string
	RunnerID       string
	Instance       string // name among the Instances of the Runner record
	ClientID       string // without the Organization's id
	ClientSecret   string
	CurrentSecret  func() string `json:"-"` // the client secret at this moment, where it can change; nil means ClientSecret
	// Looks anew at where the client secret comes from, and gives what is there; it is asked when a login was refused. nil means CurrentSecret.
	RereadSecret func(context.Context) string `json:"-"`

	WorkingDirectory string        // absolute; made when missing
	TempDirectory    string        // absolute; scratch folders of Jobs
	FetchDirectory   string        // absolute; files that steps fetch from nodes; "" means fetched in WorkingDirectory
	EnginePaths      []string      // searched before PATH
	Capacity         int           // Jobs at once; 0 means 10
	Ephemeral        bool          // files of this Instance do not outlive it
	OneOff           bool          // take one Job, and end when it is over; Capacity is 1
	DrainTimeout     time.Duration // after which Jobs that hold up a drain are canceled; 0 means never
	Labels           map[string]string
	Environ          []string // base environment of commands; the Runner's own settings are taken out

	LogStream LogStream
	Approval  Approval
	Policy    Policy
	Prune     Prune
	MinFree   int64 // bytes of its disks that must be free for a job to be taken and for a step to begin; 0 means any
	Grace     process.Ladder

	Updates Updates // what a Server may do to this program

	Engines engine.Set
	Fetch   source.Limits   // zero means the defaults of package source
	Round   []string        // command line of an executor of Rounds, which the Round's file follows; nil means this program's `runner round`
	Program string          // path of this program, which confines commands
	Confine *confine.Policy // what commands of Jobs must not see on this host; nil: they see what this process's user does
	Keeper  process.Launch  // starts `legwork runner keep` for WorkingDirectory/keeper
	Version string
	Log     *slog.Logger // without a category: each part adds its own, see CategoryKey
}

// LogStream paces the shipping of logs that nobody follows. While somebody does, when a Step ends, and
// when records come faster than this, they leave at once.
type LogStream struct {
	BatchSizeLimit int           // records that make a batch full; 0 means 50
	Period         time.Duration // longest time between two batches; 0 means 5 s
	Eager          bool          // the first record after a pause leaves at once
}

// Approval lets only those scripts run that the operator of this host has approved: Hooks, and
// the scripts of engine script. A script is approved when a file in Dir has the same content.
type Approval struct {
	Enabled   bool
	Dir       string
	Variables []string // names or globs of the environment Inputs that scripts get; nil means all that are harmless
}

// The folders that a Runner works in by default. Configurations written for an earlier product use the other one.
const (
	DefaultFolder = "~/.legwork/runner"
	EarlierFolder = "~/.snapcd/runner"
)

// FolderIn returns the default working directory of a user: EarlierFolder where it exists and DefaultFolder does not.
func FolderIn(home string) string {
	exists := func(folder string) bool {
		info, err := os.Stat(filepath.Join(home, strings.TrimPrefix(folder, "~")))
		return err == nil && info.IsDir()
	}
	if home != "" && exists(EarlierFolder) && !exists(DefaultFolder) {
		return EarlierFolder
	}
	return DefaultFolder
}

// KeeperDir is the keeper's folder below a working directory.
func KeeperDir(workingDirectory string) string { return filepath.Join(workingDirectory, "keeper") }

func (c Config) withDefaults() Config {
	if c.Capacity <= 0 {
		c.Capacity = 10
	}
	if c.OneOff {
		c.Capacity = 1
		c.Updates = Updates{} // it ends with its Job
	}
	if c.LogStream.BatchSizeLimit <= 0 {
		c.LogStream.BatchSizeLimit = 50
	}
	if c.LogStream.Period <= 0 {
		c.LogStream.Period = 5 * time.Second
	}
	if self, err := os.Executable(); err == nil && len(c.Round) == 0 {
		c.Round = []string{self, "runner", "round"}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.CurrentSecret == nil {
		c.CurrentSecret = func() string { return c.ClientSecret }
	}
	if c.RereadSecret == nil {
		current := c.CurrentSecret
		c.RereadSecret = func(context.Context) string { return current() }
	}
	return c
}
