package nodes

import (
	"context"
	"io"
	"time"

	"legwork/internal/node"
)

// Command is what is to be run for an Item, on a Node or on this host.
type Command struct {
	Script      []byte            // the text of a file that is brought to where it runs
	Interpreter []string          // argument vector before the script's path; nil means /bin/sh
	Args        []string          // behind it
	Env         map[string]string // besides what the place gives
	Sudo        bool
	Stdout      io.Writer // each is written to by one goroutine, at once as bytes arrive
	Stderr      io.Writer
	WantOutput  bool // there is a $LEGWORK_OUTPUT, which is read back
}

// Result is how a Command ended.
type Result struct {
	Began    bool // it may have done something
	ExitCode int  // 128+n after a signal
	Signal   string
	Output   map[string]string // of $LEGWORK_OUTPUT
}

// Target is a place where commands run.
type Target interface {
	// Run performs a command. When ctx ends, it ends the command by the ladder of signals, waits for that, and gives
	// what it did. err == nil: the command ended, and how is known; err != nil && !Began: nothing was done;
	// err != nil && Began: nobody knows, or the fault's code says what.
	Run(ctx context.Context, c Command) (Result, error)
	// Put makes a file that the user of the commands alone can read (and root), and gives its path. name is for people; sudo tells whether the commands become
	// another user.
	Put(ctx context.Context, name string, contents []byte, sudo bool) (path string, err error)
	// Remove removes a file that Put made with the same sudo.
	Remove(ctx context.Context, path string, sudo bool) error
}

// Transport gives the Targets of one Round. Safe for concurrent use.
type Transport interface {
	// Node gives the place where commands for a Node run. It does not connect yet.
	Node(n node.Node) Target
	// Host gives this host, for Items that are done once per Runner.
	Host() Target
	// Kill ends all that runs, without grace.
	Kill()
	// Close ends every connection.
	Close()
}

// graces are the ladder of signals.
type graces struct{ interrupt, terminate time.Duration }

func (f *File) graces() graces {
	g := graces{f.Interrupt, f.Terminate}
	if g.interrupt <= 0 {
		g.interrupt = 30 * time.Second
	}
	if g.terminate <= 0 {
		g.terminate = 10 * time.Second
	}
	return g
}
