package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"legwork/internal/fault"
	"legwork/internal/release"
)

// TrialVar is set for a program that is tried beside the one that it is to replace: it connects, says so on file descriptor TrialPipe, takes
// nothing over, and ends when its standard input does.
const (
	TrialVar  = "LEGWORK_UPDATE_TRIAL"
	TrialPipe = 3
)

const (
	// trialLeave is how long a program that was tried may take to end when it is asked to.
	trialLeave = 10 * time.Second
	// trialSaid bounds what of a tried program's own log is kept.
	trialSaid = 4 << 10
)

// TrialWord is what a tried program says once, as a line of JSON: the Server has taken it.
type TrialWord struct {
	Online  bool   `json:"online"`
	Version string `json:"version"`
}

// try runs a program beside this one until it says that it is online and of the version that was promised. Nothing is left of it after.
func (r *Runner) try(ctx context.Context, file, version string, say func(string)) error {
	said := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // with which the program ends: see besideAttr
		defer runtime.UnlockOSThread()
		said <- r.tryHere(ctx, file, version, say)
	}()
	return <-said
}

func (r *Runner) tryHere(ctx context.Context, file, version string, say func(string)) error {
	cmd := exec.Command(file, r.cfg.Updates.Args[1:]...)
	cmd.Args[0] = r.cfg.Updates.Args[0]
	cmd.Env = append(append([]string{}, r.cfg.Updates.Environ...), TrialVar+"=1")
	output := &lastOf{limit: trialSaid}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr, cmd.WaitDelay = besideAttr(), time.Second
	leave, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("trying another program: %w", err)
	}
	hears, speaks, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("trying another program: %w", err)
	}
	defer hears.Close()
	cmd.ExtraFiles = []*os.File{speaks}
	err = cmd.Start()
	_ = speaks.Close()
	if err != nil {
		return fault.New(fault.Failed, rolledBack, "%s cannot be started on this host", version).
			WithHint("nothing was changed; the release may be for another processor, or the folder of the program forbids to execute").WithCause(err)
	}
	ended := make(chan error, 1)
	group := &besideGroup{pid: cmd.Process.Pid}
	go func() {
		awaitEnd(cmd.Process.Pid)
		group.end()
		ended <- cmd.Wait()
	}()
	why := r.hear(ctx, hears, ended, version)
	if why == nil {
		_ = leave.Close()
		select {
		case <-ended:
		case <-time.After(trialLeave):
			group.kill()
			<-ended
		}
		return nil
	}
	group.kill()
	_ = leave.Close()
	if !errors.Is(why, errTrialEnded) {
		<-ended
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for line := range strings.Lines(r.mask(output.String())) {
		say(version + " said: " + strings.TrimRight(line, "\r\n"))
	}
	var f *fault.Fault
	if errors.As(why, &f) {
		return f
	}
	return why
}

// besideGroup is the process group of a tried program. Once its leader is waited for, its number may be another's.
type besideGroup struct {
	mu   sync.Mutex
	pid  int
	over bool
}

func (g *besideGroup) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		endBeside(g.pid)
	}
}

// end kills what the leader left, before somebody waits for it, and nothing after.
func (g *besideGroup) end() {
	g.kill()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}

var errTrialEnded = errors.New("the tried program ended")

// hear waits for what a tried program says, and gives nil when it is what was promised.
func (r *Runner) hear(ctx context.Context, from io.Reader, ended <-chan error, version string) error {
	words := make(chan TrialWord, 1)
	go func() {
		var w TrialWord
		line, err := bufio.NewReader(io.LimitReader(from, 4<<10)).ReadBytes('\n')
		if err == nil && json.Unmarshal(line, &w) == nil && w.Online {
			words <- w
		}
	}()
	limit := r.updateTimeout()
	late := time.NewTimer(limit)
	defer late.Stop()
	goesOn := fmt.Sprintf("this Runner goes on as %s", r.cfg.Version)
	back := func(format string, args ...any) *fault.Fault {
		return fault.New(fault.Failed, rolledBack, format+": "+goesOn, args...).
			WithHint("nothing was changed; see in the log of this Job what %s said, and withdraw the release if it is broken", version)
	}
	select {
	case w := <-words:
		if release.Compare(w.Version, version) != 0 {
			return back("the program of the release %s says that it is %.60q", version, w.Version)
		}
		return nil
	case err := <-ended:
		return errors.Join(errTrialEnded, back("%s ended before it was online (%s)", version, howEnded(err)))
	case <-late.C:
		return back("%s was not online after %s", version, limit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func howEnded(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// lastOf keeps the end of what is written into it.
type lastOf struct {
	mu    sync.Mutex
	limit int
	text  []byte
}

func (l *lastOf) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - l.limit; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

func (l *lastOf) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
