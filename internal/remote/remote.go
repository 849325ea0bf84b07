// Package remote executes commands on Nodes over SSH and puts files there.
//
// A Pool holds one connection per Node for the life of a process and runs any number of sessions over it. A command is one
// POSIX shell on the Node that reads a small program from its standard input: nothing that a user declares, and nothing
// that is secret, stands in a command line there. The program sets the environment, starts the command in a process group
// of its own with an empty standard input, and reports over lines that bear a random number of 128 bits, which are taken
// out of the output again. A cancel reaches the whole remote process group through a second session.
//
// Errors are faults with stable codes. Result.Began tells whether the command may have begun: a command that has not can
// be tried again, one whose connection was lost afterwards (connection_lost) has an unknown outcome.
package remote

import (
	"cmp"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"legwork/internal/fault"
)

// Target says where to connect to and as whom.
type Target struct {
	Name string // the Node's name, for messages alone; default the host
	Host string // host name or IP address
	Port int    // default 22
	User string // to log in as
}

// ParseTarget reads "user@host:port", of which user and port may be missing; an IPv6 address with a port stands in
// brackets. The fault is target_invalid.
func ParseTarget(text string) (Target, error) {
	bad := func() (Target, error) {
		return Target{}, fault.New(fault.Invalid, "target_invalid", "%q is no user@host:port", text).
			WithHint("write it like admin@bastion.example.com:22")
	}
	var t Target
	rest := text
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		t.User, rest = rest[:at], rest[at+1:]
		if t.User == "" {
			return bad()
		}
	}
	t.Host = rest
	if host, port, err := net.SplitHostPort(rest); err == nil {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			return bad()
		}
		t.Host, t.Port = host, n
	} else if strings.HasPrefix(rest, "[") && strings.HasSuffix(rest, "]") {
		t.Host = rest[1 : len(rest)-1]
	}
	if t.Host == "" || strings.ContainsAny(t.Host, " \t\r\n/[]") {
		return bad()
	}
	return t, nil
}

func (t Target) address() string {
	return net.JoinHostPort(t.Host, strconv.Itoa(cmp.Or(t.Port, 22)))
}

// label names the target in messages: "web-1 (10.0.0.7:22)".
func (t Target) label() string {
	if t.Name == "" || t.Name == t.Host {
		return t.address()
	}
	return t.Name + " (" + t.address() + ")"
}

// Config is how a Pool reaches its Nodes. The zero values of times and limits are their defaults.
type Config struct {
	Auth           Auth
	HostKeys       HostKeyPolicy
	Jump           []Target      // hosts to go through, in order; logged in to with the same Auth
	ConnectTimeout time.Duration // of dialing and the handshake together, for each host; default 10s
	KeepAlive      time.Duration // between signs of life asked for, and how long one may take; default 15s
	MaxConnections int           // open at once; idle ones make room; default 200
	MaxSessions    int           // at once over one connection; default 10, fewer where a server refuses
}

func (c Config) orDefault() Config {
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 10*time.Second)
	c.KeepAlive = cmp.Or(c.KeepAlive, 15*time.Second)
	c.MaxConnections = max(1, cmp.Or(c.MaxConnections, 200))
	c.MaxSessions = max(1, cmp.Or(c.MaxSessions, 10))
	return c
}

// Command is what to execute on a Node.
type Command struct {
	Script       []byte            // text for the interpreter, at most 4 MiB, without NUL bytes
	Interpreter  []string          // program and its arguments before the script's path; default /bin/sh
	Args         []string          // after the script's path
	Env          map[string]string // values without NUL bytes, at most 96 KiB each
	Dir          string            // where to start; "~/" is the home of the user; default the home
	Sudo         bool
	SudoUser     string // default root
	SudoPassword string
	Stdout       io.Writer // gets bytes as they arrive, from one goroutine; nil discards them
	Stderr       io.Writer // the same
	// WantOutput makes a file on the Node, named by LEGWORK_OUTPUT, out of which Result.Output is read.
	WantOutput     bool
	Graces         Graces
	Kill           <-chan struct{} // closed: once ctx is done, the command is killed without grace; may be nil
	SilenceTimeout time.Duration   // ends a command that prints nothing for so long; default none
}

// Graces are the waits of the ladder that ends a command.
type Graces struct {
	Interrupt time.Duration // from SIGINT to SIGTERM, default 10s
	Terminate time.Duration // from SIGTERM to SIGKILL, default 10s
}

func (g Graces) orDefault() Graces {
	g.Interrupt = cmp.Or(g.Interrupt, 10*time.Second)
	g.Terminate = cmp.Or(g.Terminate, 10*time.Second)
	return g
}

// Result is how a command ended, as far as it is known.
type Result struct {
	Began     bool              // the command may have begun; false means that nothing was done
	ExitCode  int               // 128 + number where a signal ended it
	Signal    string            // "TERM", "KILL", ...; from the server, or from an exit code as shells tell it
	Output    map[string]string // what was written to LEGWORK_OUTPUT
	RemotePid int               // of the process group on the Node, 0 when it is not known
	Canceled  bool              // ended by the ladder, or while it was climbed
}
