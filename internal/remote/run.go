package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"legwork/internal/fault"
)

const (
	pidWait  = 5 * time.Second  // for a command that is being started to say its pid when it is to be ended
	killWait = 10 * time.Second // for what was killed to be gone
)

// Run executes a command on target. It gives no error when the command ended and its outcome is known, whatever its exit
// code is. When ctx is done, the ladder of signals goes to the whole process group there and Run gives what came of it. See
// Result for what holds beside an error.
//
// Faults: those of the connection (host_unreachable, connect_timeout, handshake_failed, host_key_unknown, host_key_changed,
// host_key_revoked, auth_failed, jump_failed), of the start (command_invalid, shell_failed, sudo_failed, dir_missing,
// interpreter_missing) and of a command that had begun (connection_lost, silence_timeout, output_invalid).
func (p *Pool) Run(ctx context.Context, target Target, command Command) (Result, error) {
	if err := command.check(); err != nil {
		return Result{}, err
	}
	for try := 1; ; try++ {
		r := &run{pool: p, target: target, command: command, nonce: randomName(), folder: randomName()}
		result, err := r.do(ctx)
		// A connection that died while it was idle shows so only now. Nothing was done over it.
		if try < 3 && !result.Began && errors.Is(err, errStale) && ctx.Err() == nil {
			continue
		}
		return result, err
	}
}

// errStale marks errors of a kept connection before anything was done over it.
var errStale = errors.New("a kept connection is gone")

// run is one command on its way.
type run struct {
	pool    *Pool
	target  Target
	command Command
	nonce   string
	folder  string
	conn    *conn
	shell   *session
	began   bool
}

func (r *run) do(ctx context.Context) (Result, error) {
	conn, err := r.pool.connect(ctx, r.pool.hops(r.target))
	if err != nil {
		return Result{}, err
	}
	defer r.pool.release(conn)
	r.conn = conn
	shell, done, err := r.openShell(ctx, r.command.Stdout, r.command.Stderr)
	if err != nil {
		return Result{}, err
	}
	defer done()
	r.shell = shell
	defer func() { _ = r.writeFault() }()
	program := r.command.program(r.nonce, r.folder)
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	r.began = true
	go func() { _ = shell.send(program) }() // an error shows as the end of the session
	return r.follow(ctx)
}

// hops is the way to a Node. Its name is not in it: Nodes of other names may share the connection, and what is said of that.
func (p *Pool) hops(target Target) []Target {
	target.Name = ""
	return append(append([]Target(nil), p.config.Jump...), target)
}

// openShell gives a remote shell that waits for its program, as the user that the command is for.
func (r *run) openShell(ctx context.Context, stdout, stderr io.Writer) (*session, func(), error) {
	channel, requests, done, err := r.pool.openSession(ctx, r.conn)
	if err != nil {
		if ctx.Err() == nil {
			err = connectFault(r.target, "opening a session", errors.Join(err, errStale))
		}
		return nil, nil, err
	}
	shell := newSession(channel, requests, r.nonce, stdout, stderr)
	if r.command.Sudo {
		err = r.sudo(ctx, shell)
	} else if err = shell.start(ctx, "exec /bin/sh"); err != nil {
		err = r.startFault(err)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return shell, done, nil
}

func (r *run) startFault(err error) error {
	if errors.Is(err, errExecRefused) {
		return fault.New(fault.Failed, "shell_failed", "no shell can be started on %s: %s", r.target.label(), err.Error()).
			WithHint("the login user needs a shell and the right to execute commands").WithCause(err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("starting a shell on %s: %w", r.target.label(), err)
	}
	return connectFault(r.target, "starting a shell", errors.Join(err, errStale))
}

// sudo starts a shell by sudo. The password is sent when it is asked for, and nothing else is sent before the shell says
// that it is there: what sudo does not read would be read as a program.
func (r *run) sudo(ctx context.Context, shell *session) error {
	prompt, ready := "legwork-password-"+randomName(), "legwork-ready-"+randomName()
	noise := make(chan string, 1)
	shell.err.listenToNoise(func(all string) {
		select {
		case <-noise:
		default:
		}
		noise <- all
	})
	defer shell.err.listenToNoise(nil)
	how := "-n"
	if r.command.SudoPassword != "" {
		how = "-S -p " + prompt
	}
	line := "exec sudo " + how + " -u " + quote(r.command.sudoUser()) + " -- /bin/sh -c 'echo " + ready + " >&2; exec /bin/sh'"
	if err := shell.start(ctx, line); err != nil {
		return r.startFault(err)
	}
	timeout := time.NewTimer(max(r.pool.config.ConnectTimeout, 10*time.Second))
	defer timeout.Stop()
	said, asked := "", 0
	fail := func(why string) error { return sudoFault(r.target, r.command, why) }
	for {
		select {
		case said = <-noise:
		case <-shell.ended:
			if _, known := shell.result(); !known {
				return connectFault(r.target, "sudo", r.lostCause())
			}
			return fail(saidBy(strings.ReplaceAll(shell.err.preamble(), prompt, ""), shell.out.preamble()))
		case <-timeout.C:
			return fail("it neither asked for the password nor started the shell")
		case <-ctx.Done():
			return fmt.Errorf("starting sudo on %s: %w", r.target.label(), context.Cause(ctx))
		}
		if strings.Contains(said, ready) {
			return nil
		}
		if n := strings.Count(said, prompt); n > 1 {
			return fail("the password is wrong")
		} else if n > asked {
			asked = n
			go func() { _, _ = shell.channel.Write([]byte(r.command.SudoPassword + "\n")) }()
		}
	}
}

func saidBy(texts ...string) string {
	text := printable(strings.Join(texts, " "))
	if text == "" {
		return "it said nothing"
	}
	return text
}

// send gives the shell its program and the end of input.
func (s *session) send(program []byte) error {
	if _, err := io.Copy(s.channel, bytes.NewReader(program)); err != nil {
		return err
	}
	return s.channel.CloseWrite()
}

// follow sees the command to its end.
func (r *run) follow(ctx context.Context) (Result, error) {
	silence := newSilence(r.command.SilenceTimeout)
	defer silence.stop()
	for {
		select {
		case <-r.shell.ended:
			return r.outcome(nil, false)
		case <-ctx.Done():
			r.climb()
			return r.outcome(nil, true)
		case <-silence.timer.C:
			if silence.over(r.shell) {
				r.climb()
				return r.outcome(silentFault(r.target, r.command), true)
			}
		}
	}
}

// silence watches for a command that prints nothing.
type silence struct {
	timer *time.Timer
	most  time.Duration
}

func newSilence(most time.Duration) *silence {
	s := &silence{timer: time.NewTimer(max(most, time.Millisecond)), most: most}
	if most <= 0 {
		s.timer.Stop()
	}
	return s
}

func (s *silence) stop() { s.timer.Stop() }

// over tells whether the time is up, and sets the timer anew when it is not.
func (s *silence) over(shell *session) bool {
	left := s.most - time.Since(time.Unix(0, shell.moved.Load()))
	if shell.writing.Load() > 0 {
		left = s.most // whoever reads the output is slow, not the command
	}
	if left <= 0 {
		return true
	}
	s.timer.Reset(left)
	return false
}

// outcome gives what is known at the end; reason is why the command was ended, if it was.
func (r *run) outcome(reason error, canceled bool) (Result, error) {
	result, known := r.shell.result()
	result.Began, result.Canceled = r.began, canceled
	r.shell.mu.Lock()
	begun, said, output := r.shell.begun, r.shell.fault, r.shell.output.String()
	r.shell.mu.Unlock()
	switch {
	case said != "":
		result.Began, result.Canceled = false, false
		return result, r.refusal(said)
	case !known:
		return result, lostFault(r.target, r.lostCause())
	case !begun && !canceled:
		result.Began = false
		return result, fault.New(fault.Failed, "shell_failed", "/bin/sh on %s did not start the command: %s", r.target.label(),
			saidBy(r.shell.out.preamble(), r.shell.err.preamble())).WithHint("the login user needs a POSIX shell as /bin/sh and a login shell that lets it execute commands")
	}
	if reason != nil {
		return result, reason
	}
	if r.command.WantOutput {
		values, err := ParseOutput(output)
		if err != nil {
			return result, err
		}
		result.Output = values
	}
	return result, r.writeFault()
}

func (s *session) isEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// writeFault closes the way to the caller's writers.
func (r *run) writeFault() error {
	if err := errors.Join(r.shell.out.shut(), r.shell.err.shut()); err != nil {
		return fmt.Errorf("passing on the output of %s: %w", r.target.label(), err)
	}
	return nil
}

func (r *run) lostCause() error {
	if err := r.pool.lostBecause(r.conn); err != nil {
		return err
	}
	return errors.New("the connection closed without an exit status")
}

// refusal gives the meaning of what the program says when it cannot start the command.
func (r *run) refusal(what string) error {
	switch what {
	case "interpreter":
		return fault.New(fault.Failed, "interpreter_missing", "there is no %q on %s", r.command.Interpreter[0], r.target.label()).
			WithHint("install it there, or name another interpreter")
	case "dir":
		return fault.New(fault.Failed, "dir_missing", "the folder %q cannot be entered on %s", r.command.Dir, r.target.label()).
			WithHint("make it there, or name another one")
	}
	return fault.New(fault.Failed, "shell_failed", "no temporary folder can be made on %s: %s", r.target.label(), saidBy(r.shell.err.preamble())).
		WithHint("check the free space and the mode of /tmp, or of TMPDIR, there")
}

// climb ends the command: SIGINT, SIGTERM and SIGKILL to its process group, with the graces between them.
func (r *run) climb() {
	graces := r.command.Graces.orDefault()
	select {
	case <-r.shell.spoke:
	case <-r.shell.ended:
		return
	case <-time.After(pidWait):
		return // it has not begun to speak: the connection hangs
	}
	for _, rung := range []struct {
		signal string
		wait   time.Duration
	}{{"INT", graces.Interrupt}, {"TERM", graces.Terminate}, {"KILL", killWait}} {
		hurry := r.command.Kill
		if rung.signal == "KILL" {
			hurry = nil
		} else if isClosed(hurry) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), rung.wait)
		go r.kill(ctx, rung.signal)
		select {
		case <-r.shell.ended:
		case <-ctx.Done():
		case <-hurry:
		}
		cancel()
		if r.shell.isEnded() {
			if rung.signal != "KILL" {
				r.sweep()
			}
			return
		}
	}
}

// sweep ends what a canceled command left behind in its process group: a shell has its background commands ignore SIGINT.
func (r *run) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	r.kill(ctx, "")
}

// isClosed tells whether a channel that nothing is sent on is closed; nil is not.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// kill sends a signal through a session of its own: over the same connection, or over a new one where the server allows no
// further session. Without a signal it is SIGTERM and a second later SIGKILL, to those that are left of the group.
func (r *run) kill(ctx context.Context, signal string) {
	r.shell.mu.Lock()
	pid := r.shell.pid
	r.shell.mu.Unlock()
	program := fmt.Sprintf("kill -s %s -- -%d 2>/dev/null || kill -s %s %d 2>/dev/null\n", signal, pid, signal, pid)
	switch signal {
	case "":
		program = fmt.Sprintf("kill -s TERM -- -%d 2>/dev/null || exit 0\nsleep 1\nkill -s KILL -- -%d 2>/dev/null\n", pid, pid)
	case "KILL":
		program += fmt.Sprintf("rm -rf \"${TMPDIR:-/tmp}/legwork-%s\"\n", r.folder)
	}
	second := &run{pool: r.pool, target: r.target, command: r.command, nonce: r.nonce, conn: r.conn}
	channel, requests, err := r.conn.client.OpenChannel("session", nil)
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) {
		client, loginErr := r.pool.logIn(r.target, r.conn.via)
		if loginErr != nil {
			return
		}
		defer client.Close()
		channel, requests, err = client.OpenChannel("session", nil)
	}
	if err != nil {
		return
	}
	defer channel.Close()
	shell := newSession(channel, requests, r.nonce, nil, nil)
	if r.command.Sudo {
		err = second.sudo(ctx, shell)
	} else {
		err = shell.start(ctx, "exec /bin/sh")
	}
	if err != nil || shell.send([]byte(program)) != nil {
		return
	}
	select {
	case <-shell.ended:
	case <-ctx.Done():
	}
}
