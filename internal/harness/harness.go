// Package harness runs the real binary in tests: a Server, Runners and the command line, each a process
// of its own, on loopback and random ports, in folders of the test. What it starts, it ends.
package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"legwork/internal/harness/ports"
)

// Patience bounds every wait for a condition.
const Patience = 60 * time.Second

// Binary builds bin/legwork once per test process and gives its path. LEGWORK_TEST_BINARY names one that is
// built already.
var Binary = sync.OnceValues(func() (string, error) {
	if p := os.Getenv("LEGWORK_TEST_BINARY"); p != "" {
		return filepath.Abs(p)
	}
	dir, err := os.MkdirTemp("", "legwork-bin-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "legwork")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/legwork") // as make build, to share what it compiled
	build.Dir = Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the binary: %w\n%s", err, out)
	}
	return path, nil
})

// Root is the folder of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Cleanup removes what Binary built. Call it at the end of TestMain.
func Cleanup() {
	if p, err := Binary(); err == nil && os.Getenv("LEGWORK_TEST_BINARY") == "" {
		os.RemoveAll(filepath.Dir(p))
	}
	cleanBuilds()
	if clocks.dir != "" {
		os.RemoveAll(clocks.dir)
	}
}

func binary(t testing.TB) string {
	t.Helper()
	p, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Tool gives the path of an engine that make test installed: "opentofu" or "terraform".
func Tool(t testing.TB, name string) string {
	t.Helper()
	known := map[string][3]string{
		"opentofu":  {"LEGWORK_TEST_TOFU", "opentofu-1.12.6", "tofu"},
		"terraform": {"LEGWORK_TEST_TERRAFORM", "terraform-1.5.7", "terraform"},
	}[name]
	if p := os.Getenv(known[0]); p != "" {
		return p
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(cache, "legwork", "tools", known[1], known[2])
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("%s is not there: run make test, which installs it", p)
	}
	return p
}

// Process is one running program.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  *lockedBuffer
	done chan struct{}
	err  error
}

// lockedBuffer collects what a process says, for tests that read it while it grows.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// launch runs a binary with its standard output and error collected. begin starts the process.
func launch(t testing.TB, begin func(*exec.Cmd) error, path string, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, out: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, p.out, p.out
	p.cmd.WaitDelay = 5 * time.Second
	if err := begin(p.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("--- legwork %s\n%s", strings.Join(args, " "), tail(p.Output(), 8000))
		}
	})
	return p
}

func tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

// Output is what the process has said so far.
func (p *Process) Output() string { return p.out.String() }

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process alone.
func (p *Process) Signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(s)
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Wait gives the exit status, once the process has ended by itself.
func (p *Process) Wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(Patience):
		p.t.Fatalf("the process does not end; it said:\n%s", tail(p.Output(), 4000))
	}
	return exitStatus(p.err)
}

// Ended tells whether the process is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// Eventually waits until a condition holds, looking again every 20 ms.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// Server is a legwork server process.
type Server struct {
	*Process
	t          testing.TB
	URL        string
	Data       string
	args       []string
	Home       string   // HOME of everything that is started for this Server
	processEnv []string // of the server, in addition
	program    string   // "": the build of Binary

	tokenMu sync.Mutex
	token   string
}

// StartServer starts a Server on a random port, with more arguments if given, and waits until it is ready.
func StartServer(t testing.TB, more ...string) *Server {
	t.Helper()
	return StartServerAt(t, "127.0.0.1", more...)
}

// StartServerAt is StartServer on another address of this host.
func StartServerAt(t testing.TB, host string, more ...string) *Server {
	t.Helper()
	return startServer(t, host, "", more)
}

// StartServerOn is StartServer with its data in a folder that the test names.
func StartServerOn(t testing.TB, data string, more ...string) *Server {
	t.Helper()
	return startServer(t, "127.0.0.1", data, more)
}

// PrivateFolder returns a new folder that only its owner may enter, as a server requires of its data folder.
func PrivateFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// StartServerEnv is StartServer with more variables in the environment of the server.
func StartServerEnv(t testing.TB, env []string, more ...string) *Server {
	t.Helper()
	return startServer(t, "127.0.0.1", "", more, env...)
}

func startServer(t testing.TB, host, data string, more []string, env ...string) *Server {
	t.Helper()
	home := t.TempDir()
	if data == "" {
		data = filepath.Join(home, "data")
	}
	addr := fmt.Sprintf("%s:%d", host, ports.Free(t))
	if err := os.Chmod(data, 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	scheme := "http://"
	if slices.Contains(more, "--tls-cert") {
		scheme = "https://"
	}
	s := &Server{t: t, URL: scheme + addr, Data: data, Home: home, processEnv: env}
	s.args = append([]string{"server", "--data", s.Data, "--listen", addr}, more...)
	s.Start()
	return s
}

// Start starts the Server (again) with the same data and port, and waits until it is ready.
func (s *Server) Start() {
	s.t.Helper()
	// Receivers of webhooks are on loopback, and some Servers listen in a network of the test.
	env := append([]string{"LEGWORK_SERVER__WEBHOOK_DENY_PRIVATE=false", "LEGWORK_SERVER__ALLOW_PLAIN_HTTP=true"}, s.processEnv...)
	if s.program == "" {
		s.program = binary(s.t)
	}
	s.Process = launch(s.t, (*exec.Cmd).Start, s.program, s.env(env...), s.args...)
	Eventually(s.t, "the server is ready", func() bool {
		if s.Ended() {
			s.t.Fatalf("the server ended: %s", s.Output())
		}
		r, err := ready.Get(s.URL + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// ready asks servers of tests whether they are ready. Their certificates are self-signed.
var ready = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

// SetBinary sets the build of the program that the server uses from its next start on.
func (s *Server) SetBinary(path string) { s.program = path }

// Use adds arguments with which the Server is started from now on.
func (s *Server) Use(more ...string) { s.args = append(s.args, more...) }

// Partings is how many Sessions the Server's process has seen end without a word. That the Instance is offline shows later.
func (s *Server) Partings() int { return strings.Count(s.Output(), "msg=\"session ended\"") }

// env is the environment of every process: nothing of the caller's but PATH.
func (s *Server) env(more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.Home, "LANG=C.UTF-8", "TMPDIR=" + os.TempDir(),
		"TF_CLI_CONFIG_FILE=/dev/null", "LEGWORK_ALLOW_PLAIN_HTTP=true", "LEGWORK_RUNNER__ALLOW_PLAIN_HTTP=true",
	}, more...)
}

// Token returns the admin token that the Server wrote at its first start, whose file goes with its first use.
func (s *Server) Token() string {
	s.tokenMu.Lock()
	defer s.tokenMu.Unlock()
	if s.token != "" {
		return s.token
	}
	b, err := os.ReadFile(filepath.Join(s.Data, "admin-token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.token = strings.TrimSpace(string(b))
	return s.token
}

// Result is how a command of the command line ended.
type Result struct {
	Out, Err string
	Status   int
}

// Try runs a command of the command line against the Server as its admin.
func (s *Server) Try(args ...string) Result {
	s.t.Helper()
	return s.RunWith([]string{"LEGWORK_SERVER=" + s.URL, "LEGWORK_TOKEN=" + s.Token()}, args...)
}

// Run runs a command without a Server or token in its environment.
func (s *Server) Run(args ...string) Result {
	s.t.Helper()
	return s.RunWith(nil, args...)
}

// RunWith runs a command with more environment.
func (s *Server) RunWith(env []string, args ...string) Result {
	s.t.Helper()
	return s.runFrom("", env, args)
}

// Feed is Do with a standard input.
func (s *Server) Feed(in string, args ...string) string {
	s.t.Helper()
	r := s.runFrom(in, []string{"LEGWORK_SERVER=" + s.URL, "LEGWORK_TOKEN=" + s.Token()}, args)
	if r.Status != 0 {
		s.t.Fatalf("legwork %s ended with %d\n%s\n%s", strings.Join(args, " "), r.Status, r.Out, r.Err)
	}
	return r.Out
}

func (s *Server) runFrom(in string, env, args []string) Result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(s.t), args...)
	var out, errOut bytes.Buffer
	if in != "" {
		cmd.Stdin = strings.NewReader(in)
	}
	cmd.Env = s.env(env...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	return Result{Out: out.String(), Err: errOut.String(), Status: exitStatus(err)}
}

// Do is Try that must end with status 0; it gives the standard output.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	r := s.Try(args...)
	if r.Status != 0 {
		s.t.Fatalf("legwork %s ended with %d\n%s\n%s", strings.Join(args, " "), r.Status, r.Out, r.Err)
	}
	return r.Out
}

// JSON is Do with -o json, decoded into v.
func (s *Server) JSON(v any, args ...string) {
	s.t.Helper()
	out := s.Do(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		s.t.Fatalf("legwork %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Apply applies a manifest given as text.
func (s *Server) Apply(manifest string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.Do("manifest", "apply", path)
}

// Runner is a legwork runner process.
type Runner struct {
	*Process
	s      *Server
	Name   string
	Dir    string // its working directory
	Config string // its settings file
	env    []string
	binary string                // other than the one of everybody
	begin  func(*exec.Cmd) error // starts the process elsewhere
}

// RunnerSettings changes the settings of a Runner before it is written. Keys are as in the settings file.
type RunnerSettings func(settings map[string]any)

// NewRunner makes a Runner record that all Modules may use, with its settings file, and does not start it.
func (s *Server) NewRunner(name string, change ...RunnerSettings) *Runner {
	s.t.Helper()
	var made MadeRunner
	s.JSON(&made, "runner", "create", name, "--all-modules")
	return s.RunnerOf(name, made, change...)
}

// MadeRunner is what a Runner logs in with.
type MadeRunner struct {
	ID             string `json:"id"`
	OrganizationID string `json:"organization_id"`
	ClientID       string `json:"client_id"`
	ClientSecret   string `json:"client_secret"`
}

// RunnerOf is NewRunner for a record that is there.
func (s *Server) RunnerOf(name string, made MadeRunner, change ...RunnerSettings) *Runner {
	s.t.Helper()
	r := &Runner{s: s, Name: name, Dir: filepath.Join(s.t.TempDir(), "work"), Config: filepath.Join(s.t.TempDir(), "runner.json")}
	settings := map[string]any{
		"Runner": map[string]any{"Id": made.ID, "OrganizationId": made.OrganizationID, "Instance": name + "-a",
			"Credentials": map[string]any{"ClientId": made.ClientID, "ClientSecret": made.ClientSecret}},
		"Server":           map[string]any{"Url": s.URL},
		"WorkingDirectory": map[string]any{"WorkingDirectory": r.Dir, "TempDirectory": filepath.Join(r.Dir, ".temp")},
		"Engine": map[string]any{"AdditionalBinaryPaths": []string{
			filepath.Dir(Tool(s.t, "opentofu")), filepath.Dir(Tool(s.t, "terraform"))}},
	}
	for _, c := range change {
		c(settings)
	}
	b, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(r.Config, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// StartRunner makes a Runner, starts its process, and waits until it is online.
func (s *Server) StartRunner(name string, change ...RunnerSettings) *Runner {
	s.t.Helper()
	r := s.NewRunner(name, change...)
	r.Start()
	r.Online()
	return r
}

// SetEnv adds variables to the environment of the Runner's process.
func (r *Runner) SetEnv(env ...string) { r.env = append(r.env, env...) }

// SetBinary has the Runner be another build of the program.
func (r *Runner) SetBinary(path string) { r.binary = path }

// SetFolder gives the Runner another working directory, as a new host would.
func (r *Runner) SetFolder(dir string) {
	r.edit(r.Config, func(m map[string]any) {
		m["WorkingDirectory"] = map[string]any{"WorkingDirectory": dir}
	})
	r.Dir = dir
}

// Twin gives another Instance of the same Runner record, on a host of its own. The record must allow several.
func (r *Runner) Twin(instance, serverURL string) *Runner {
	r.s.t.Helper()
	b, err := os.ReadFile(r.Config)
	if err != nil {
		r.s.t.Fatal(err)
	}
	twin := &Runner{s: r.s, Name: r.Name, Config: filepath.Join(r.s.t.TempDir(), "twin.json")}
	if err := os.WriteFile(twin.Config, b, 0o600); err != nil {
		r.s.t.Fatal(err)
	}
	twin.SetFolder(filepath.Join(r.s.t.TempDir(), "work"))
	r.edit(twin.Config, func(m map[string]any) {
		m["Runner"].(map[string]any)["Instance"] = instance
		m["Server"] = map[string]any{"Url": serverURL}
	})
	return twin
}

// read looks into a settings file.
func (r *Runner) read(path string, look func(map[string]any)) map[string]any {
	r.s.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		r.s.t.Fatal(err)
	}
	var settings map[string]any
	if err := json.Unmarshal(b, &settings); err != nil {
		r.s.t.Fatal(err)
	}
	look(settings)
	return settings
}

// edit changes a settings file.
func (r *Runner) edit(path string, change func(map[string]any)) {
	r.s.t.Helper()
	b, err := json.MarshalIndent(r.read(path, change), "", "  ")
	if err != nil {
		r.s.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		r.s.t.Fatal(err)
	}
}

// Start starts the Runner's process (again).
func (r *Runner) Start() {
	r.s.t.Helper()
	begin, path := r.begin, r.binary
	if begin == nil {
		begin = (*exec.Cmd).Start
	}
	if path == "" {
		path = binary(r.s.t)
	}
	r.Process = launch(r.s.t, begin, path, r.s.env(r.env...), "runner", "start", "--config", r.Config)
	r.s.t.Cleanup(func() { r.EndKeeper() })
}

// Online waits until this process was connected, and the Server has a Session with its Instance. An Instance that was lost stays online
// for a while and means nothing here.
func (r *Runner) Online() {
	r.s.t.Helper()
	Eventually(r.s.t, "runner "+r.Name+" is online", func() bool {
		if r.Ended() {
			r.s.t.Fatalf("the runner ended: %s", r.Output())
		}
		return r.Connections() > 0 && r.Seen().Connected
	})
}

// Instance is what the Server says of an Instance.
type Instance struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Connected bool   `json:"connected"`
	Active    int    `json:"active"`
	Version   string `json:"version"`
}

// Seen is the Runner's Instance as the Server sees it, empty when it never did.
func (r *Runner) Seen() Instance {
	r.s.t.Helper()
	var name string
	r.read(r.Config, func(m map[string]any) { name, _ = m["Runner"].(map[string]any)["Instance"].(string) })
	var shown struct {
		Instances []Instance `json:"instances"`
	}
	if out := r.s.Try("runner", "show", r.Name, "-o", "json").Out; json.Unmarshal([]byte(out), &shown) != nil {
		return Instance{} // the Server is away
	}
	for _, i := range shown.Instances {
		if i.Name == name {
			return i
		}
	}
	return Instance{}
}

// Connections is how often the Runner's process has been connected so far.
func (r *Runner) Connections() int {
	return strings.Count(r.Output(), "msg=\"connected to the Server\"")
}

// KeeperLives tells whether a keeper of the Runner's host is there.
func (r *Runner) KeeperLives() bool { return len(keeperPIDs(r.Dir)) > 0 }

// EndKeeper ends the keeper of the Runner's host with everything that it keeps, as a host that goes down would.
func (r *Runner) EndKeeper() { EndKeepers(r.Dir) }

// EndKeepers ends the keepers of a working directory, with everything that they keep.
func EndKeepers(dir string) {
	for _, pid := range keeperPIDs(dir) {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it starts nothing more
		for _, child := range childrenOf(pid) {
			_ = syscall.Kill(-child, syscall.SIGKILL) // each leads a process group
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// childrenOf gives the processes that a process started and that are its own.
func childrenOf(pid int) (children []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range lists {
		b, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// keeperPIDs finds the keepers of a working directory by their arguments.
func keeperPIDs(dir string) []int {
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, path := range entries {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		args := strings.Split(string(b), "\x00")
		line := strings.Join(args, " ")
		if strings.Contains(line, "runner keep") && strings.Contains(line, dir) {
			var pid int
			if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// ProcessesIn finds the processes that work in a folder or below it.
func ProcessesIn(dir string) []int {
	var pids []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		at, err := os.Readlink(link)
		if err != nil || at != dir && !strings.HasPrefix(at, dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// EndProcessesIn kills the processes that work in a folder, the keepers among them with all that they keep.
func EndProcessesIn(dir string) {
	for range 3 { // one may have started another meanwhile
		for _, pid := range ProcessesIn(dir) {
			for _, child := range descendants(pid) {
				_ = syscall.Kill(child, syscall.SIGKILL)
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Cut is a TCP relay in front of a Server that a test can cut, to be the network between it and a Runner.
type Cut struct {
	URL    string
	target string
	l      net.Listener
	mu     sync.Mutex
	open   map[net.Conn]struct{}
	cut    bool
	lag    atomic.Int64 // nanoseconds
}

// NewCut starts a relay to the Server.
func NewCut(t testing.TB, target string) *Cut {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cut{URL: "http://" + l.Addr().String(), target: strings.TrimPrefix(target, "http://"), l: l, open: map[net.Conn]struct{}{}}
	go c.serve()
	t.Cleanup(func() {
		l.Close()
		c.Set(true)
	})
	return c
}

func (c *Cut) serve() {
	for {
		in, err := c.l.Accept()
		if err != nil {
			return
		}
		go c.relay(in)
	}
}

// keep notes an open connection; it gives false when the network is cut.
func (c *Cut) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		conn.Close()
		return false
	}
	c.open[conn] = struct{}{}
	return true
}

func (c *Cut) relay(in net.Conn) {
	if !c.keep(in) {
		return
	}
	out, err := net.Dial("tcp", c.target)
	if err != nil {
		in.Close()
		return
	}
	if !c.keep(out) {
		in.Close()
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			c.carry(way[0], way[1])
			way[0].Close()
			way[1].Close()
		})
	}
	both.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, in)
	delete(c.open, out)
}

// carry brings what comes on one connection to another, as late as the network is slow.
func (c *Cut) carry(to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if lag := time.Duration(c.lag.Load()); lag > 0 && n > 0 {
			<-time.After(lag)
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Slow makes everything that comes through late by a time, each way, from now on.
func (c *Cut) Slow(lag time.Duration) { c.lag.Store(int64(lag)) }

// Set cuts the network (every connection breaks, new ones are refused) or mends it.
func (c *Cut) Set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		for conn := range c.open {
			conn.Close()
		}
	}
}
