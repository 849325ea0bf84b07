package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"legwork/internal/fault"
)

const (
	maxAnswer = 512 << 20 // of one git command
	maxStderr = 64 << 10
	maxSaid   = 20              // lines of git's complaint that reach the Job's log
	termGrace = 2 * time.Second // between SIGTERM and SIGKILL: git takes away its temporary files
)

// git runs git commands for one fetch. Nothing that a user declares stands in their arguments, and all
// that git reads by itself from a repository's own settings is turned off.
type git struct {
	*Fetcher
	program string
	lock    *fileLock // of the Module
	say     func(line string)

	mods  int   // submodules opened so far
	files int   // of the whole source
	bytes int64 // likewise
}

func (f *Fetcher) newGit(lock *fileLock, say func(line string)) (*git, error) {
	name := f.Git
	if name == "" {
		name = "git"
	}
	program, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(program) {
		return nil, fault.New(fault.NotFound, "git_missing", "git is not installed on this host").
			WithHint("install git on the Runner's host").WithCause(err)
	}
	if err := os.MkdirAll(f.MirrorsDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the mirrors: %w", err)
	}
	return &git{Fetcher: f, program: program, lock: lock, say: say}, nil
}

// call is one git command.
type call struct {
	args    []string
	env     []string  // over the common one
	at      *location // the remote it speaks to, known to git as "origin"; nil for none
	stdin   io.Reader
	inherit *os.File // stays open in git: a lock that lasts as long as git does, even when we are killed
}

// gitError is a git command that failed.
type gitError struct {
	command string
	code    int
	stderr  string // hidden credentials, printable
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s ended with exit status %d: %s", e.command, e.code, lastLine(e.stderr))
}

// run runs a git command to its end and gives what it printed. It runs in a session of its own, without a
// terminal that something could ask a question on.
func (g *git) run(ctx context.Context, c call) ([]byte, error) {
	cmd := exec.CommandContext(ctx, g.program, c.args...)
	cmd.Dir = g.MirrorsDir
	cmd.Env = g.environ(c)
	cmd.Stdin = c.stdin
	if c.inherit != nil {
		cmd.ExtraFiles = []*os.File{c.inherit}
	}
	stdout, stderr := &capped{limit: maxAnswer}, &capped{limit: maxStderr, tail: true}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	done := make(chan struct{})
	defer close(done)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 2 * termGrace
	cmd.Cancel = func() error { return end(cmd.Process.Pid, done) }
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if stdout.over {
		return nil, fault.New(fault.TooLarge, "source_too_large", "the git repository has more names than can be read").
			WithHint("use a smaller repository")
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, &gitError{command: c.args[0], code: exit.ExitCode(), stderr: g.printable(stderr.String(), c.at)}
	}
	if err != nil {
		return nil, fmt.Errorf("run git %s: %w", c.args[0], err)
	}
	return stdout.Bytes(), nil
}

// end asks a session of git to end and, after the grace time, makes it.
func end(pid int, done <-chan struct{}) error {
	go func() {
		timer := time.NewTimer(termGrace)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}()
	return syscall.Kill(-pid, syscall.SIGTERM)
}

func (g *git) printable(text string, at *location) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case isControl(r) && r != '\n':
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if at != nil {
		text = at.hide(text)
	}
	return strings.TrimSpace(text)
}

// keptVariables are those of git's own that an operator may set for the Runner. All others, such as GIT_DIR
// or GIT_CONFIG_PARAMETERS, would lead git elsewhere.
var keptVariables = []string{
	"GIT_SSL_", "GIT_HTTP_", "GIT_PROXY_", "GIT_SSH", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL=",
	"GIT_CONFIG_SYSTEM=", "GIT_CONFIG_NOSYSTEM=", "GIT_EXEC_PATH=", "GIT_CURL_",
}

// isKept tells whether git gets a variable of the process. The settings of Legwork itself, among which are
// its credentials, are nobody else's.
func isKept(entry string) bool {
	upper := strings.ToUpper(entry)
	for _, own := range []string{"LEGWORK_", "RUNNER__", "LC_ALL=", "LANGUAGE="} {
		if strings.HasPrefix(upper, own) {
			return false
		}
	}
	return !strings.HasPrefix(entry, "GIT_") ||
		slices.ContainsFunc(keptVariables, func(kept string) bool { return strings.HasPrefix(entry, kept) })
}

// settings are given to every git command, over those of the host.
var settings = [][2]string{
	{"core.hooksPath", os.DevNull}, {"core.fsmonitor", "false"}, {"core.untrackedCache", "false"},
	{"core.splitIndex", "false"}, {"core.sparseCheckout", "false"}, {"core.autocrlf", "false"}, {"core.symlinks", "true"},
	{"fetch.unpackLimit", "1"}, // packs appear as a whole or not at all, single objects do not
	{"fetch.recurseSubmodules", "false"}, {"submodule.recurse", "false"},
	{"gc.auto", "0"}, {"maintenance.auto", "false"}, {"protocol.version", "2"},
	{"http.lowSpeedLimit", "1"}, {"http.lowSpeedTime", "60"},
	{"safe.directory", "*"}, // our own mirrors, whoever we are
}

func (g *git) environ(c call) []string {
	var env []string
	for _, entry := range append(os.Environ(), g.Env...) {
		if isKept(entry) {
			env = append(env, entry)
		}
	}
	env = append(env,
		"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_LFS_SKIP_SMUDGE=1", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(g.MirrorsDir), "SSH_ASKPASS_REQUIRE=never")
	if !slices.ContainsFunc(env, func(e string) bool {
		return strings.HasPrefix(e, "GIT_SSH=") || strings.HasPrefix(e, "GIT_SSH_COMMAND=")
	}) {
		env = append(env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15")
	}
	config := settings
	if c.at != nil {
		extra, variables := c.at.config()
		config = append(slices.Clone(settings), extra...)
		env = append(env, variables...)
		env = append(env, "GIT_ALLOW_PROTOCOL="+c.at.protocols())
	} else {
		env = append(env, "GIT_ALLOW_PROTOCOL=none")
	}
	for i, kv := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	return append(env, c.env...)
}

// helper answers git's question for credentials out of its environment.
const helper = `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$LEGWORK_GIT_USERNAME" "$LEGWORK_GIT_PASSWORD"; }; f`

// config makes this location git's remote "origin", with its credentials if it has any.
func (l location) config() (config [][2]string, env []string) {
	config = [][2]string{{"remote.origin.url", l.url}}
	switch {
	case l.base == "":
	case l.password != "":
		config = append(config, [2]string{"credential.helper", ""}, [2]string{"credential." + l.base + ".helper", helper})
		env = []string{"LEGWORK_GIT_USERNAME=" + l.user, "LEGWORK_GIT_PASSWORD=" + l.password}
	case l.user != "":
		config = append(config, [2]string{"credential." + l.base + ".username", l.user})
	}
	return config, env
}

// capped keeps the first bytes written to it, or the last ones.
type capped struct {
	bytes.Buffer
	limit int
	tail  bool
	over  bool
}

func (c *capped) Write(p []byte) (int, error) {
	if c.tail {
		c.Buffer.Write(p)
		if over := c.Len() - c.limit; over > 0 {
			c.Next(over)
		}
		return len(p), nil
	}
	if c.Len()+len(p) > c.limit {
		c.over = true
		return 0, io.ErrShortWrite
	}
	return c.Buffer.Write(p)
}

func lastLine(text string) string {
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		return text[i+1:]
	}
	return text
}
