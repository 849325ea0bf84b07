package process

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"legwork/internal/fault"
)

// Limits on what a keeper is asked to start.
const (
	maxID      = 400     // bytes of a command's ID
	maxSecrets = 10_000  // secret values of one command
	maxKept    = 1024    // commands that run at once under one keeper
	maxFrameIn = 8 << 20 // bytes of one message, arguments and environment included
)

// Defaults of a Ladder.
const (
	DefaultInterrupt = 30 * time.Second
	DefaultTerminate = 10 * time.Second
)

// Ladder is how a command is ended: SIGINT to its process group, SIGTERM when it still lives after
// Interrupt, SIGKILL when it still lives after Terminate. Zero means the default.
type Ladder struct {
	Interrupt time.Duration `cbor:"interrupt,omitempty"`
	Terminate time.Duration `cbor:"terminate,omitempty"`
}

func (l Ladder) orDefault() Ladder {
	if l.Interrupt <= 0 {
		l.Interrupt = DefaultInterrupt
	}
	if l.Terminate <= 0 {
		l.Terminate = DefaultTerminate
	}
	return l
}

// Spec describes a command to start. Env, HandOver and Secrets travel only over the socket; no file and
// no log holds them, and printing a Spec does not show them.
type Spec struct {
	// ID names the command for ever: "job/attempt/step/command". At most 400 bytes, printable.
	ID string `cbor:"id"`
	// Argv is the program and its arguments. A program without a slash is looked up on the PATH of Env.
	Argv []string `cbor:"argv"`
	// Env is the whole environment, "K=V"; the last of two with the same name counts.
	Env []string `cbor:"env,omitempty"`
	// HandOver is the part of the environment, "K=V", that the kernel must not show to others. The program is part
	// of Legwork and reads it with TakeHandedOver. A keeper of an earlier version gets it as part of Env.
	HandOver []string `cbor:"hand_over,omitempty"`
	// Dir is where the command starts. All four paths are absolute, and their folders exist.
	Dir string `cbor:"dir"`
	// Spool is where what it prints goes; StartFile and ExitFile are where the keeper writes its records.
	Spool     string `cbor:"spool"`
	StartFile string `cbor:"start_file"`
	ExitFile  string `cbor:"exit_file"`
	// Secrets are values to mask in what it prints.
	Secrets []string `cbor:"secrets,omitempty"`
	// Framed says that its standard output is a sequence of frames, as FrameWriter writes them: each becomes a record with the
	// stream, the Node and the Item that it names. Its standard error is plain lines all the same.
	Framed bool `cbor:"framed,omitempty"`
	// Timeout ends the command after that long, StallTimeout after it printed nothing for that long. 0 is never.
	Timeout      time.Duration `cbor:"timeout,omitempty"`
	StallTimeout time.Duration `cbor:"stall_timeout,omitempty"`
	// ReserveBytes of the disk of Spool are left to the command: while less is free, no output is stored, and the command waits.
	ReserveBytes int64 `cbor:"reserve_bytes,omitempty"`
	// Grace is how Timeout, StallTimeout and a graceful Stop end it.
	Grace Ladder `cbor:"grace,omitempty"`
}

// String shows what is safe to show.
func (s Spec) String() string { return fmt.Sprintf("command %s in %s", s.ID, s.Dir) }

// GoString is String, so that no verb of fmt shows more.
func (s Spec) GoString() string { return s.String() }

// LogValue is String for slog.
func (s Spec) LogValue() slog.Value { return slog.StringValue(s.String()) }

// withoutHandOver returns the Spec for a keeper that does not know HandOver.
func (s Spec) withoutHandOver() Spec {
	s.Env, s.HandOver = slices.Concat(s.Env, s.HandOver), nil
	return s
}

// check returns a fault.Invalid that names every problem of the Spec, or nil.
func (s Spec) check() error {
	var problems []fault.Problem
	wrong := func(field, message string) {
		problems = append(problems, fault.Problem{Field: field, Message: message})
	}
	if s.ID == "" || len(s.ID) > maxID || strings.ContainsFunc(s.ID, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		wrong("id", fmt.Sprintf("must be 1 to %d printable bytes", maxID))
	}
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		wrong("argv", "must name a program")
	}
	for field, path := range map[string]string{"dir": s.Dir, "spool": s.Spool, "start_file": s.StartFile, "exit_file": s.ExitFile} {
		if !filepath.IsAbs(path) {
			wrong(field, "must be an absolute path")
		}
	}
	if len(s.Secrets) > maxSecrets {
		wrong("secrets", fmt.Sprintf("must be at most %d", maxSecrets))
	}
	for _, text := range slices.Concat(s.Argv, s.Env, s.HandOver) {
		if strings.IndexByte(text, 0) >= 0 {
			wrong("argv", "must not contain a zero byte, neither must the environment")
			break
		}
	}
	if problems == nil {
		return nil
	}
	return fault.New(fault.Invalid, "invalid_command", "the command cannot be started as it is described").WithDetails(problems...)
}

// Codes of faults that a caller acts on.
const (
	codeLeaving  = "keeper_leaving"
	codeNotKept  = "command_not_kept"
	codeOrphaned = "command_orphaned"
	codeDiskFull = "disk_full"
	codeTooOld   = "keeper_too_old"
)

// StopMode says how Stop ends a command.
type StopMode string

// The ways to end a command.
const (
	Graceful StopMode = "graceful" // its Ladder
	Kill     StopMode = "kill"     // SIGKILL to the process group at once
)

// The reasons of an Exit: who began the end. What the command did about it stands in Code and Signal.
const (
	ReasonExited      = "exited"       // by itself, with Code
	ReasonSignaled    = "signaled"     // by Signal, which did not come from the keeper
	ReasonTimeout     = "timeout"      // over Spec.Timeout
	ReasonStalled     = "stalled"      // over Spec.StallTimeout
	ReasonCanceled    = "canceled"     // by Stop(Graceful)
	ReasonKilled      = "killed"       // by Stop(Kill)
	ReasonStartFailed = "start_failed" // it never ran; Message says why
)

// Exit is how a command ended.
type Exit struct {
	Code       int       `json:"code"`             // of the program; -1 when it died by a signal or never ran
	Signal     string    `json:"signal,omitempty"` // "SIGKILL" when it died by that
	Reason     string    `json:"reason"`
	Message    string    `json:"message,omitempty"`
	Started    time.Time `json:"started"`
	Finished   time.Time `json:"finished"`              // when the program itself ended
	NextSeq    uint64    `json:"next_seq"`              // every record below it is in the spool
	LeftBehind int       `json:"left_behind,omitempty"` // processes of its group that lived on and were ended
}

// Kept is a command that runs under a keeper.
type Kept struct {
	ID         string    `json:"id"`
	Pid        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Spool      string    `json:"spool"`
	StartFile  string    `json:"start_file"`
	ExitFile   string    `json:"exit_file"`
	NextSeq    uint64    `json:"next_seq"`
	LastOutput time.Time `json:"last_output"`       // Started when it printed nothing yet
	Ending     string    `json:"ending,omitempty"`  // the Exit's reason when its end has begun
	Blocked    string    `json:"blocked,omitempty"` // why its output cannot be stored now; the command waits
}

// SpoolState tells how far a spool has grown.
type SpoolState struct {
	ID      string `json:"id"` // of the command that writes it
	Spool   string `json:"spool"`
	NextSeq uint64 `json:"next_seq"`
	Size    int64  `json:"size"`              // of the file, in bytes
	Blocked string `json:"blocked,omitempty"` // as in Kept
}
