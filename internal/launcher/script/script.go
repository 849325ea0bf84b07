// Package script is the launcher that a user writes: a shell script that starts and stops processes wherever nothing else here knows how to.
//
// hosting.exec.run is its text, run by bash (or sh, as hosting.exec.shell says) on the host of the Instance that launches, with what is to
// be done as its first argument, and as JSON on its standard input:
//
//	{
//	  "version": 1,                      of this form
//	  "action": "ensure",                as the argument: describe, ensure, list, resume, stop or remove
//	  "owner": "9b1c…",                  the installation of Legwork
//	  "organization_id": "…", "runner_id": "…", "runner": "cloud-eu",
//	  "server_url": "https://legwork.example.com",
//	  "release": "1.4.0",                the version to launch
//	  "image": "legwork:1.4.0",          hosting.image, with the release in it
//	  "region": "eu-1",                  hosting.region, if any
//	  "size": {"name": "small", "milli_cpu": 500, "memory_mib": 1024},
//	  "tags": {"legwork-owner": "…", "legwork-runner-id": "…", …},
//	  "units": [                         of ensure: the processes that shall be there; of resume: the lost processes
//	    {"name": "cloud-eu-1f2e3d4c", "environment": {"LEGWORK_SERVER__URL": "…", …}}
//	  ],
//	  "names": ["cloud-eu-1f2e3d4c"]     of stop: the processes that shall not
//	}
//
// What each action is to do, any number of times over:
//   - describe looks whether the others can be done, and changes nothing. It prints {"said": ["…", "…"]}, lines for the log.
//   - ensure has there be exactly one process of each unit, with its environment and the tags, that runs `legwork runner start`. Without
//     units it makes what they share, if anything. It leaves other processes alone, and does not start one again that ended. It prints
//     {"units": [{"name": "…", "id": "…", "state": "starting", "note": "…"}]}: each of the units, starting, running or stopped.
//   - list prints all processes with the tags legwork-owner and legwork-runner-id of this Runner, in the same form. One is stopped when
//     nothing of it runs any more, no command that it had started either.
//   - resume starts each of the units again whose process ended and whose folder survives, in that folder. It prints the
//     units that it knows, in the same form. A script whose processes keep no folder prints {"units": []}.
//   - stop ends the named ones, and takes it as done when one is not there. It prints nothing.
//   - remove ends all processes with those two tags, and deletes all that ensure made. It prints nothing.
//
// A script has, of the environment of the Runner that launches, what launcher.Host.Passed lets through; its TMPDIR is that of the Step. What a
// command line of a cloud logs in with is named by the owner of the host, in Runner.launcher_environment.
//
// An environment holds a token: it belongs into no argument of a command, and into no log. Standard error goes into the log of the Step.
// A script that cannot do it ends with an exit status other than 0 and prints, if it can tell why,
//
//	{"error": {"code": "launcher_quota", "message": "no more than 10 machines", "hint": "ask for more", "retryable": false}}
//
// of which code is launcher_denied, launcher_quota, launcher_region, launcher_capacity or launcher_failed. One that is retryable is tried
// again for as long as the Step has time. A script prints 1 MiB at most and ends within 10 minutes; what it leaves running in the
// background has to close its standard output, and to leave its process group (setsid), or it is ended with it.
package script

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// Limits of a script.
const (
	maxOutput = 1 << 20 // bytes
	maxTime   = 10 * time.Minute
	maxGrace  = 10 * time.Second // between the signals that end it
	maxText   = 1000             // bytes of a sentence of its
)

// Launcher has a script do the work.
type Launcher struct {
	host    launcher.Host
	timeout time.Duration
	grace   time.Duration // between the signals that end a script
}

// New makes the launcher.
func New(host launcher.Host) (launcher.Launcher, error) {
	return &Launcher{host, maxTime, maxGrace}, nil
}

// request is what a script is told.
type request struct {
	Version        int               `json:"version"`
	Action         string            `json:"action"`
	Owner          string            `json:"owner"`
	OrganizationID string            `json:"organization_id"`
	RunnerID       string            `json:"runner_id"`
	Runner         string            `json:"runner"`
	ServerURL      string            `json:"server_url"`
	Release        string            `json:"release"`
	Image          string            `json:"image"`
	Region         string            `json:"region,omitempty"`
	Size           size              `json:"size"`
	Tags           map[string]string `json:"tags"`
	Units          []unit            `json:"units"`
	Names          []string          `json:"names"`
}

type size struct {
	Name      catalog.Size `json:"name"`
	MilliCPU  int          `json:"milli_cpu"`
	MemoryMiB int          `json:"memory_mib"`
}

type unit struct {
	Name        string            `json:"name"`
	Environment map[string]string `json:"environment"`
}

// answer is what a script prints.
type answer struct {
	Said  []string          `json:"said"`
	Units []work.UnitReport `json:"units"`
	Error *problem          `json:"error"`
}

type problem struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Hint      string `json:"hint"`
	Retryable bool   `json:"retryable"`
}

// Describe has the script look.
func (l *Launcher) Describe(ctx context.Context, task *work.RunnerTask) ([]string, error) {
	a, err := l.run(ctx, task, l.request(task, "describe"))
	if err != nil {
		return nil, err
	}
	said := []string{"a script of the Runner's own starts and stops its processes"}
	for _, line := range a.Said {
		said = append(said, shortened(line))
	}
	return said, nil
}

// Ensure has the script start what is not there.
func (l *Launcher) Ensure(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	r := l.request(task, "ensure")
	for _, u := range task.Units {
		r.Units = append(r.Units, unit{u.Name, launcher.Environment(task, u)})
	}
	a, err := l.run(ctx, task, r)
	if err != nil {
		return nil, err
	}
	told := map[string]work.UnitReport{}
	for _, report := range a.Units {
		told[report.Name] = report
	}
	var reports []work.UnitReport
	for _, u := range task.Units {
		report, ok := told[u.Name]
		if !ok {
			return nil, wrong("ensure", "it does not say how "+u.Name+" is")
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// List has the script list what is there.
func (l *Launcher) List(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	a, err := l.run(ctx, task, l.request(task, "list"))
	return a.Units, err
}

// Resume has the script start lost processes again in their folders. It implements launcher.Resumer.
func (l *Launcher) Resume(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	r := l.request(task, "resume")
	for _, u := range task.Lost {
		r.Units = append(r.Units, unit{u.Name, launcher.Environment(task, u)})
	}
	a, err := l.run(ctx, task, r)
	return a.Units, err
}

// Stop has the script end processes.
func (l *Launcher) Stop(ctx context.Context, task *work.RunnerTask, names []string) error {
	if len(names) == 0 {
		return nil
	}
	r := l.request(task, "stop")
	r.Names = names
	_, err := l.run(ctx, task, r)
	return err
}

// Remove has the script take everything down.
func (l *Launcher) Remove(ctx context.Context, task *work.RunnerTask) error {
	_, err := l.run(ctx, task, l.request(task, "remove"))
	return err
}

func (l *Launcher) request(task *work.RunnerTask, action string) request {
	r := request{
		Version: 1, Action: action, Owner: task.Owner, OrganizationID: task.OrganizationID, RunnerID: task.RunnerID, Runner: task.Runner,
		ServerURL: task.ServerURL, Release: cmp.Or(task.Version, l.host.Version), Image: launcher.Image(task, l.host),
		Tags: launcher.Tags(task), Units: []unit{}, Names: []string{},
	}
	if h := task.Hosting; h != nil {
		r.Region, r.Size.Name = h.Region, cmp.Or(h.Size, catalog.SizeSmall)
		r.Size.MilliCPU, r.Size.MemoryMiB = r.Size.Name.Room()
	}
	return r
}

// run runs the script and reads its answer.
func (l *Launcher) run(ctx context.Context, task *work.RunnerTask, r request) (answer, error) {
	text, err := l.script(task)
	if err != nil {
		return answer{}, err
	}
	told, err := json.Marshal(r)
	if err != nil {
		return answer{}, fmt.Errorf("tell the script: %w", err)
	}
	dir, err := os.MkdirTemp("", "legwork-launcher-")
	if err != nil {
		return answer{}, fmt.Errorf("make a folder for the script: %w", err)
	}
	defer os.RemoveAll(dir)
	command, err := engine.ShellCommand(task.Hosting.Exec.Shell, text, filepath.Join(dir, "launcher"))
	if err != nil {
		return answer{}, err
	}
	cmd := exec.Command(command.Argv[0], append(command.Argv[1:], r.Action)...)
	printed := &bounded{left: maxOutput}
	said := &lines{say: l.host.Say}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, l.host.Passed(os.Environ()), bytes.NewReader(told), printed, said, maxGrace
	ctx, stop := context.WithTimeoutCause(ctx, l.timeout, errLate)
	defer stop()
	err = execute(ctx, cmd, l.grace)
	said.end()
	return l.understand(ctx, r.Action, printed, err)
}

var errLate = fault.New(fault.Failed, "launcher_script", "the script of the Runner did not end within %s, and was ended", maxTime).
	WithHint("have it start things and look later whether they came: it is asked again")

// understand makes an answer of what a script printed and how it ended.
func (l *Launcher) understand(ctx context.Context, action string, printed *bounded, failed error) (answer, error) {
	var a answer
	if ctx.Err() != nil && failed != nil {
		return a, context.Cause(ctx)
	}
	if printed.over {
		return a, wrong(action, fmt.Sprintf("it printed more than %d bytes", maxOutput))
	}
	text := bytes.TrimSpace(printed.data)
	readErr := json.Unmarshal(text, &a)
	if failed != nil {
		if readErr == nil && a.Error != nil && a.Error.Message != "" {
			return answer{}, a.Error.fault()
		}
		return answer{}, fault.New(fault.Failed, "launcher_script", "the script of the Runner failed at %s: %v", action, failed).
			WithHint("what it said is in the log")
	}
	if len(text) == 0 && (action == "stop" || action == "remove") {
		return answer{}, nil
	}
	if readErr != nil {
		return answer{}, wrong(action, "it printed what is no JSON of the form that launchers have")
	}
	if a.Error != nil {
		return answer{}, a.Error.fault()
	}
	if len(a.Units) > work.MaxUnits {
		return answer{}, wrong(action, fmt.Sprintf("it reports %d processes, more than %d", len(a.Units), work.MaxUnits))
	}
	for i := range a.Units {
		if err := checked(action, &a.Units[i]); err != nil {
			return answer{}, err
		}
	}
	return a, nil
}

// checked holds a report against the contract.
func checked(action string, r *work.UnitReport) error {
	if r.Name == "" || len(r.Name) > 200 || len(r.ID) > 2000 {
		return wrong(action, "it tells of a process without a name, or with too long a one")
	}
	switch r.State {
	case work.UnitStarting, work.UnitRunning:
		if r.ID == "" {
			return wrong(action, "it does not say what the id of "+r.Name+" is")
		}
	case work.UnitStopped:
	default:
		return wrong(action, fmt.Sprintf("it says that %s is %q, and not starting, running or stopped", r.Name, shortened(string(r.State))))
	}
	r.Note = shortened(r.Note)
	return nil
}

func wrong(action, what string) *fault.Fault {
	return fault.New(fault.Failed, "launcher_script", "the script of the Runner cannot be understood at %s: %s", action, what).
		WithHint("docs/HOSTING.md says what a script is told and what it prints")
}

// codes are those that a script may give.
var codes = map[string]fault.Kind{
	"launcher_denied": fault.Forbidden, "launcher_quota": fault.TooLarge, "launcher_region": fault.Invalid,
	"launcher_capacity": fault.Unavailable, "launcher_failed": fault.Failed,
}

func (p *problem) fault() *fault.Fault {
	kind, known := codes[p.Code]
	code := p.Code
	if !known {
		kind, code = fault.Failed, "launcher_failed"
	}
	switch {
	case p.Retryable:
		kind = fault.Unavailable
	case kind == fault.Unavailable:
		kind = fault.Failed
	}
	return fault.New(kind, code, "%s", shortened(p.Message)).WithHint("%s", shortened(p.Hint))
}

func shortened(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, ""))
}

// execute runs a script to its end, and ends it and what it started when ctx ends. The keeper sends its signals to the whole group of this
// process, so that there the script stays in it: in one of its own it would outlive a kill.
func execute(ctx context.Context, cmd *exec.Cmd, grace time.Duration) error {
	if syscall.Getpgrp() == os.Getpid() {
		cmd.Cancel = nil
		if err := cmd.Start(); err != nil {
			return err
		}
		over := make(chan struct{})
		defer close(over)
		go climb(ctx, cmd.Process, grace, over)
		return settled(cmd.Wait())
	}
	end, err := engine.StartGroup(ctx, cmd, grace)
	if err != nil {
		return err
	}
	defer end()
	return settled(cmd.Wait())
}

// climb ends the script alone when its time is over: what ends all is the keeper's.
func climb(ctx context.Context, script *os.Process, grace time.Duration, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		_ = script.Signal(signal)
		select {
		case <-over:
			return
		case <-time.After(grace):
		}
	}
}

// settled takes it for an end that something else still holds the output.
func settled(err error) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// bounded keeps what is written, up to a number of bytes. What is over is thrown away, so that who writes comes to an end.
type bounded struct {
	data []byte
	left int
	over bool
}

// Write takes all.
func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		b.over = true
		return len(p), nil
	}
	b.left -= len(p)
	b.data = append(b.data, p...)
	return len(p), nil
}

// lines says each line that is written.
type lines struct {
	say  func(string)
	rest []byte
}

// maxLine is where a line is broken.
const maxLine = 8 << 10

// Write says the lines that are whole.
func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < maxLine {
			return len(p), nil
		}
		if i < 0 {
			i = maxLine - 1
		}
		l.say(strings.TrimRight(string(l.rest[:i]), "\r"))
		l.rest = l.rest[i+1:]
	}
}

// end says what was not whole.
func (l *lines) end() {
	if len(l.rest) > 0 {
		l.say(string(l.rest))
		l.rest = nil
	}
}
