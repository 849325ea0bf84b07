package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/release"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// programVar is the version of a Runner process whose program can be replaced. Such programs are scripts that set it.
const (
	programVar = "LEGWORK_TEST_PROGRAM"
	dieVar     = "LEGWORK_TEST_DIE_BEFORE_EXEC"
	breakVar   = "LEGWORK_TEST_BREAK" // how a program does no good that was online when it was tried
)

// runProgram is what boot does with a Runner, in the test binary.
func runProgram(cfg Config) {
	process.AwaitInherited()
	cfg.Version = os.Getenv(programVar)
	cfg.Updates.Environ = os.Environ()
	cfg.Keeper.Env = append(cfg.Keeper.Env, keeperVersionVar+"="+cfg.Version)
	if os.Getenv(TrialVar) != "" {
		ctx, leave := context.WithCancel(context.Background())
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			leave()
		}()
		err := New(cfg).Try(ctx, func() {
			_ = json.NewEncoder(os.NewFile(TrialPipe, "trial")).Encode(TrialWord{Online: true, Version: cfg.Version})
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	switch os.Getenv(breakVar) {
	case "fails":
		cfg.CAFile = "/no such file"
	case "crashes":
		cfg.CurrentSecret = func() string {
			die()
			return ""
		}
	}
	err := New(cfg).Run(context.Background())
	for errors.Is(err, ErrReplaced) {
		if os.Getenv(dieVar) != "" {
			die()
		}
		if err = StayAfter(cfg, syscall.Exec(cfg.Updates.Program, cfg.Updates.Args, cfg.Updates.Environ)); err == nil {
			err = New(cfg).Run(context.Background())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, fault.Of(err).Message, "/", fault.Of(err).Hint)
		os.Exit(1)
	}
	os.Exit(0)
}

// program is the text of a program of a version that is a Runner.
func program(t testing.TB, version string) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("#!/bin/sh\n%s=%s %s= exec %s\n", programVar, version, breakVar, self)
}

// updated is a Runner process whose program can be replaced, with a Server that has a release for it.
type updated struct {
	t       *testing.T
	s       *fakeServer
	cfg     Config
	program string // its file
	private []byte // key that signs
	cmd     *exec.Cmd
	log     *bytes.Buffer
	ended   chan struct{}
}

func newUpdated(t *testing.T, consent release.Consent) *updated {
	s := newServer(t)
	u := &updated{t: t, s: s, cfg: testConfig(t, s)}
	public, private, err := release.GenerateKey("")
	if err != nil {
		t.Fatal(err)
	}
	key, err := release.ParseKey(string(public))
	if err != nil {
		t.Fatal(err)
	}
	u.private = private
	u.program = filepath.Join(t.TempDir(), "legwork")
	u.write(u.program, program(t, "1.1.0"))
	u.cfg.Capacity = 1
	u.cfg.Updates = Updates{Consent: consent, Keys: release.Keys{key}, Program: u.program, Args: []string{u.program}, Timeout: time.Minute}
	return u
}

func (u *updated) write(path, text string) {
	u.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		u.t.Fatal(err)
	}
}

// start starts the program, as whoever supervises it would.
func (u *updated) start(env ...string) {
	u.t.Helper()
	cfg := u.cfg
	cfg.Engines, cfg.Log, cfg.Environ = nil, nil, nil
	text, err := json.Marshal(cfg)
	if err != nil {
		u.t.Fatal(err)
	}
	u.log = &bytes.Buffer{}
	u.cmd = exec.Command(u.program)
	u.cmd.Env = append(append(os.Environ(), runnerVar+"="+string(text)), env...)
	u.cmd.Stderr = u.log
	if err := u.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	ended, cmd := make(chan struct{}), u.cmd
	u.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	u.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if u.t.Failed() {
			u.t.Logf("--- runner\n%s", u.log)
		}
	})
}

func (u *updated) waitEnd() {
	u.t.Helper()
	select {
	case <-u.ended:
	case <-time.After(time.Minute):
		u.t.Fatal("the process does not end")
	}
}

// offers publishes a release whose program is a text, and gives it as a Job bears it.
func (u *updated) offers(version, text string, change ...func(*release.Manifest)) work.ReleaseRef {
	u.t.Helper()
	sum := sha256.Sum256([]byte(text))
	here := release.Here()
	m := release.Manifest{Version: version, Channel: release.Stable, Assets: []release.Asset{{
		Name: "legwork", OS: here.OS, Arch: here.Arch, Kind: "binary", Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}}}
	for _, c := range change {
		c(&m)
	}
	manifest, err := m.Marshal()
	if err != nil {
		u.t.Fatal(err)
	}
	signature, _, err := release.Sign(manifest, u.private, "")
	if err != nil {
		u.t.Fatal(err)
	}
	at := "/releases/" + version + "/"
	u.s.mu.Lock()
	u.s.files = map[string][]byte{at + "legwork": []byte(text), at + "manifest.json": manifest, at + "manifest.json.minisig": signature,
		"/releases/latest/manifest.json": manifest}
	u.s.mu.Unlock()
	return work.ReleaseRef{Version: version, Manifest: manifest, Signature: signature, Path: "releases/" + version}
}

var updateRef = ref("update", 1)

// install sends the Job of an update.
func (u *updated) install(r work.ReleaseRef) {
	u.t.Helper()
	u.s.begin(updateRef, &work.Spec{Module: "edge", Engine: updateEngine, Action: work.Update, Number: 7, Steps: []work.StepKind{work.StepInstall},
		Changing: []bool{false}, Task: &work.RunnerTask{Release: &r}}, 0)
}

// saidLast is the version of the last hello.
func (u *updated) saidLast() string {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if len(u.s.hellos) == 0 {
		return ""
	}
	return u.s.hellos[len(u.s.hellos)-1].Version
}

// isPlain checks that the program's folder holds the program alone.
func (u *updated) isPlain(want string) {
	u.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(u.program))
	if err != nil || len(entries) != 1 {
		u.t.Errorf("in the folder of the program are %v %v", entries, err)
	}
	got, err := os.ReadFile(u.program)
	if err != nil || string(got) != want {
		u.t.Errorf("the program is %q, %v", got, err)
	}
}

// busy takes the one place of the Runner with a Job that goes on until the file is there.
func (u *updated) busy() (gate string) {
	u.t.Helper()
	gate = filepath.Join(u.t.TempDir(), "gate")
	text := fmt.Sprintf("for i in $(seq 300); do echo line $i; done; until [ -e %s ]; do read -rt 0.05 <> <(:) || :; done; echo over", gate)
	u.s.begin(ref("busy", 1), scriptSpec(text, false), 1)
	u.s.sees(ref("busy", 1), 1, "line 300")
	return gate
}

// finish lets the Job of busy end, and checks that nothing of it was lost.
func (u *updated) finish(gate string) {
	u.t.Helper()
	u.write(gate, "")
	if r := u.s.result(ref("busy", 1), 1); r.Status != work.StepSucceeded {
		u.t.Errorf("the Job beside the update ended with %+v", r)
	}
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	if got := u.s.text(ref("busy", 1), 1, work.Stdout); got != want.String()+"over\n" {
		u.t.Errorf("of the log beside the update is left %q", got)
	}
}

// TestUpdate replaces the program of a Runner whose one place is taken: the same process goes on as the new one, and the Job beside it too.
func TestUpdate(t *testing.T) {
	u := newUpdated(t, release.Minor)
	u.start()
	gate := u.busy()
	kept := childrenOf(u.cmd.Process.Pid)
	if runtime.GOOS == "linux" && len(kept) == 0 {
		t.Error("the Runner has no keeper")
	}
	u.s.send(&wire.Offer{Ref: updateRef, Engine: string(updateEngine)})
	u.s.wait("the update is accepted", func() bool {
		for _, m := range u.s.got {
			if a, ok := m.(*wire.Accept); ok && a.Ref == updateRef {
				return true
			}
		}
		return false
	})
	u.s.send(&wire.Offer{Ref: ref("other", 1), Engine: string(catalog.Script)})
	u.s.wait("another Job is refused", func() bool {
		for _, m := range u.s.got {
			if a, ok := m.(*wire.Refuse); ok && a.Ref == ref("other", 1) {
				return a.Code == refusedBusy
			}
		}
		return false
	})
	u.install(u.offers("1.2.0", program(t, "1.2.0")))
	if r := u.s.result(updateRef, 0); r.Status != work.StepSucceeded {
		t.Fatalf("the update ended with %+v %+v\n%s", r, r.Failure, u.s.text(updateRef, 0))
	}
	if v := u.saidLast(); v != "1.2.0" {
		t.Errorf("the Runner is %s", v)
	}
	select {
	case <-u.ended:
		t.Error("the process ended")
	default:
	}
	line, err := os.ReadFile("/proc/" + strconv.Itoa(u.cmd.Process.Pid) + "/environ")
	if err == nil && !bytes.Contains(line, []byte(programVar+"=1.2.0")) {
		t.Error("the process is not the new program")
	}
	u.finish(gate)
	for _, pid := range kept {
		eventually(t, "the old program's keeper leaves, and is no zombie", func() bool { return syscall.Kill(pid, 0) != nil })
	}
	u.isPlain(program(t, "1.2.0"))
	for _, want := range []string{"is signed by a key that is trusted here", "trying 1.2.0", "which was 1.1.0 before"} {
		if log := u.s.text(updateRef, 0); !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
	if hello := u.s.hellos[0]; hello.Updates != "minor" || hello.Engines[string(updateEngine)] == "" {
		t.Errorf("the hello says %+v", hello)
	}
}

// TestUpdateRollsBack tries programs that do no good: the Runner goes on as it was, with its Job, and nothing is left of them.
func TestUpdateRollsBack(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		timeout    time.Duration
	}{
		"dies":            {"#!/bin/sh\necho cannot find my way >&2\nexit 3\n", "1.2.0 ended before it was online (exit status 3)", time.Minute},
		"hangs":           {"#!/bin/sh\nexec sleep 600\n", "1.2.0 was not online after 1s", time.Second},
		"lies":            {program(t, "1.1.9"), `the program of the release 1.2.0 says that it is "1.1.9"`, time.Minute},
		"cannot be begun": {"\x7fELF, almost", "1.2.0 cannot be started on this host", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpdated(t, release.Patch)
			u.cfg.Updates.Consent, u.cfg.Updates.Timeout = release.Minor, c.timeout
			u.start()
			gate := u.busy()
			u.install(u.offers("1.2.0", c.text))
			r := u.s.result(updateRef, 0)
			if r.Status != work.StepFailed || r.Failure.Code != rolledBack || !strings.Contains(r.Failure.Message, c.want) {
				t.Fatalf("the update ended with %+v %+v", r, r.Failure)
			}
			if log := u.s.text(updateRef, 0); name == "dies" && !strings.Contains(log, "1.2.0 said: cannot find my way") {
				t.Errorf("the log does not have what the program said:\n%s", log)
			}
			if v := u.saidLast(); v != "1.1.0" {
				t.Errorf("the Runner is %s", v)
			}
			u.finish(gate)
			u.isPlain(program(t, "1.1.0"))
		})
	}
}

// TestUpdateLeavesNothingOfATrial tries a program that ends and leaves a process of its own: that goes, too.
func TestUpdateLeavesNothingOfATrial(t *testing.T) {
	u := newUpdated(t, release.Minor)
	u.start()
	pidFile := filepath.Join(t.TempDir(), "pid")
	u.install(u.offers("1.2.0", fmt.Sprintf("#!/bin/sh\nsleep 600 >/dev/null 2>&1 3>&- &\necho $! > %s\nexit 3\n", pidFile)))
	if r := u.s.result(updateRef, 0); r.Status != work.StepFailed || r.Failure.Code != rolledBack {
		t.Fatalf("the update ended with %+v %+v", r, r.Failure)
	}
	data, err := os.ReadFile(pidFile)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid == 0 {
		t.Fatalf("%q %v", data, err)
	}
	eventually(t, "what the program began is gone", func() bool { return gone(pid) })
}

// TestUpdateOutlivesItsGuard kills the Runner while another program is tried. What is there starts as it was, and says what became of the
// update; the tried program does not outlive its guard.
func TestUpdateOutlivesItsGuard(t *testing.T) {
	u := newUpdated(t, release.Minor)
	u.start()
	gate := u.busy()
	pidFile := filepath.Join(t.TempDir(), "pid")
	u.install(u.offers("1.2.0", fmt.Sprintf("#!/bin/sh\necho $$ > %[1]s.new; mv %[1]s.new %[1]s\nexec sleep 600\n", pidFile)))
	var tried int
	eventually(t, "the program is tried", func() bool {
		data, err := os.ReadFile(pidFile)
		if err == nil {
			tried, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err == nil
	})
	if err := u.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	u.waitEnd()
	eventually(t, "the tried program is gone", func() bool { return gone(tried) })
	u.start()
	r := u.s.result(updateRef, 0)
	if r.Status != work.StepFailed || r.Failure.Code != rolledBack || !strings.Contains(r.Failure.Message, "was ended while 1.2.0 was tried") {
		t.Fatalf("the update ended with %+v %+v", r, r.Failure)
	}
	u.finish(gate)
	u.isPlain(program(t, "1.1.0"))
}

// gone tells whether a process is no more, or nothing but its exit status.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) != nil
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

// childrenOf are the ids of a process's children.
func childrenOf(parent int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var pid, of int
		var state string
		_, rest, _ := strings.Cut(string(stat), ") ")
		if _, err := fmt.Sscan(rest, &state, &of); err == nil && of == parent {
			_, _ = fmt.Sscan(string(stat), &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestUpdateOutlivesAPowerCut ends the process between the new file's taking its place and its being executed: what is there starts, is the
// new release, and reports the update.
func TestUpdateOutlivesAPowerCut(t *testing.T) {
	u := newUpdated(t, release.Minor)
	u.start(dieVar + "=1")
	gate := u.busy()
	u.install(u.offers("1.2.0", program(t, "1.2.0")))
	u.waitEnd()
	if u.s.has(updateRef, 0) {
		t.Fatal("the update was reported before it was done")
	}
	if got, err := os.ReadFile(u.program); err != nil || string(got) != program(t, "1.2.0") {
		t.Errorf("the program is %q, %v", got, err)
	}
	u.start()
	if r := u.s.result(updateRef, 0); r.Status != work.StepSucceeded {
		t.Fatalf("the update ended with %+v %+v", r, r.Failure)
	}
	if v := u.saidLast(); v != "1.2.0" {
		t.Errorf("the Runner is %s", v)
	}
	u.finish(gate)
	u.isPlain(program(t, "1.2.0"))
}

// broken is the text of a program that is online when it is tried, and does no good in the place of the one that tried it.
func broken(t testing.TB, version, how string) string {
	return strings.Replace(program(t, version), "exec", fmt.Sprintf(`; export %s; [ "$%s" ] || export %s=%s; exec`, programVar, TrialVar, breakVar, how), 1)
}

// TestUpdateGoesBack installs releases that pass their trial and cannot take over: the old program comes back, with its Job, and says why.
func TestUpdateGoesBack(t *testing.T) {
	for name, c := range map[string]struct {
		text   func(t testing.TB) string
		want   string
		starts int // by whoever supervises the Runner, until it is the old one again
	}{
		"fails":   {func(t testing.TB) string { return broken(t, "1.2.0", "fails") }, "/no such file", 0},
		"crashes": {func(t testing.TB) string { return broken(t, "1.2.0", "crashes") }, "it began 3 times", 3},
		"cannot be executed": {func(t testing.TB) string { // for its interpreter is gone
			shell := filepath.Join(t.TempDir(), "sh")
			if err := os.Symlink("/bin/sh", shell); err != nil {
				t.Fatal(err)
			}
			return strings.Replace(program(t, "1.2.0"), "#!/bin/sh\n", "#!"+shell+"\nrm "+shell+"\n", 1)
		}, "it cannot be executed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpdated(t, release.Minor)
			u.start()
			gate := u.busy()
			u.install(u.offers("1.2.0", c.text(t)))
			for range c.starts {
				u.waitEnd()
				u.start()
			}
			r := u.s.result(updateRef, 0)
			if r.Status != work.StepFailed || r.Failure.Code != rolledBack || !strings.Contains(r.Failure.Message, "1.2.0 was online beside this process, and could not take over") ||
				!strings.Contains(r.Failure.Message, c.want) {
				t.Fatalf("the update ended with %+v %+v", r, r.Failure)
			}
			if v := u.saidLast(); v != "1.1.0" {
				t.Errorf("the Runner is %s", v)
			}
			select {
			case <-u.ended:
				t.Error("the process ended")
			default:
			}
			u.finish(gate)
			u.isPlain(program(t, "1.1.0"))
		})
	}
}

// TestUpdateOfASharedProgram has somebody else replace the file of the program that runs. By another release than the wanted one: it stays. By
// that one: this process goes on as it, too.
func TestUpdateOfASharedProgram(t *testing.T) {
	for version, want := range map[string]work.StepStatus{"1.3.0": work.StepFailed, "1.2.0": work.StepSucceeded} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			u := newUpdated(t, release.Minor)
			u.start()
			gate := u.busy()
			beside := filepath.Join(t.TempDir(), "legwork")
			u.write(beside, program(t, version))
			if err := os.Rename(beside, u.program); err != nil {
				t.Fatal(err)
			}
			u.install(u.offers("1.2.0", program(t, "1.2.0")))
			r := u.s.result(updateRef, 0)
			if r.Status != want || want == work.StepFailed && r.Failure.Code != "update_foreign_file" {
				t.Errorf("the update ended with %+v %+v", r, r.Failure)
			}
			if v := u.saidLast(); want == work.StepSucceeded && v != "1.2.0" || want == work.StepFailed && v != "1.1.0" {
				t.Errorf("the Runner is %s", v)
			}
			u.finish(gate)
			u.isPlain(program(t, version))
		})
	}
}

// TestUpdateRefused names why a release is not installed. The Runner goes on as it was.
func TestUpdateRefused(t *testing.T) {
	good := program(t, "1.2.0")
	for name, c := range map[string]struct {
		consent    release.Consent
		ref        func(*updated) work.ReleaseRef
		code, want string
	}{
		"wrong signature": {release.Minor, func(u *updated) work.ReleaseRef {
			r := u.offers("1.2.0", good)
			r.Manifest = bytes.Replace(r.Manifest, []byte("1.2.0"), []byte("1.2.1"), 1)
			return r
		}, "release_signature", "does not fit its manifest"},
		"unknown key": {release.Minor, func(u *updated) work.ReleaseRef {
			_, u.private, _ = release.GenerateKey("")
			return u.offers("1.2.0", good)
		}, "release_signature", "which is not trusted here"},
		"lower version": {release.Minor, func(u *updated) work.ReleaseRef { return u.offers("1.0.9", good) }, "update_refused", "1.0.9 is not newer than 1.1.0"},
		"wrong platform": {release.Minor, func(u *updated) work.ReleaseRef {
			return u.offers("1.2.0", good, func(m *release.Manifest) { m.Assets[0].Arch = "riscv64" })
		}, "release_platform", release.Here().String()},
		"truncated": {release.Minor, func(u *updated) work.ReleaseRef {
			r := u.offers("1.2.0", good)
			u.s.mu.Lock()
			u.s.files["/releases/1.2.0/legwork"] = []byte(good[:len(good)-1])
			u.s.mu.Unlock()
			return r
		}, "release_digest", "it has not"},
		"changed": {release.Minor, func(u *updated) work.ReleaseRef {
			r := u.offers("1.2.0", good)
			u.s.mu.Lock()
			u.s.files["/releases/1.2.0/legwork"] = []byte(strings.ToUpper(good))
			u.s.mu.Unlock()
			return r
		}, "release_digest", "its digest differs"},
		"withdrawn": {release.Minor, func(u *updated) work.ReleaseRef {
			r := u.offers("1.2.0", good)
			u.s.mu.Lock()
			u.s.files = nil
			u.s.mu.Unlock()
			return r
		}, "release_not_served", "404"},
		"no patch":   {release.Patch, func(u *updated) work.ReleaseRef { return u.offers("1.2.0", good) }, "update_refused", "more than a patch"},
		"no minor":   {release.Minor, func(u *updated) work.ReleaseRef { return u.offers("2.0.0", good) }, "update_refused", "changes the first number"},
		"no consent": {release.Notify, func(u *updated) work.ReleaseRef { return u.offers("1.1.1", good) }, "update_refused", "set to notify only"},
		"off":        {release.Off, func(u *updated) work.ReleaseRef { return u.offers("1.1.1", good) }, "update_refused", "updates is off"},
		"not writable": {release.Minor, func(u *updated) work.ReleaseRef {
			u.cfg.Updates.Program = filepath.Join(u.t.TempDir(), "package", "legwork") // nobody may write into a folder that is not there
			return u.offers("1.2.0", good)
		}, "update_not_writable", "may not replace the program"},
		"part of another": {release.Minor, func(u *updated) work.ReleaseRef {
			u.cfg.Updates = Updates{}
			return u.offers("1.2.0", good)
		}, "update_unsupported", "part of another program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpdated(t, c.consent)
			r := c.ref(u)
			u.cfg.Version, u.cfg.Keeper.Env = "1.1.0", append(u.cfg.Keeper.Env, keeperVersionVar+"=1.1.0")
			run := start(t, u.cfg)
			u.install(r)
			got := u.s.result(updateRef, 0)
			if got.Status != work.StepFailed || got.Failure.Code != c.code || !strings.Contains(got.Failure.Message, c.want) || got.Failure.Hint == "" {
				t.Errorf("the update ended with %+v %+v", got, got.Failure)
			}
			if run.isReplaced() || u.s.sessions() != 1 {
				t.Errorf("%d Sessions", u.s.sessions())
			}
			u.isPlain(program(t, "1.1.0"))
		})
	}
}

// TestUpdateWithoutASession refuses a Runner that is too old: it gets the newest release by itself where its owner consents, and else ends with a
// sentence that says which one there is.
func TestUpdateWithoutASession(t *testing.T) {
	t.Run("consents", func(t *testing.T) {
		u := newUpdated(t, release.Minor)
		u.s.tooOld = "1.1.0"
		u.offers("1.2.0", program(t, "1.2.0"))
		u.start()
		u.s.wait("the new one is online", func() bool { return len(u.s.hellos) >= 2 })
		if v := u.saidLast(); v != "1.2.0" {
			t.Errorf("the Runner is %s", v)
		}
		eventually(t, "the old program goes", func() bool {
			entries, err := os.ReadDir(filepath.Dir(u.program))
			return err == nil && len(entries) == 1
		})
		u.isPlain(program(t, "1.2.0"))
	})
	t.Run("broken", func(t *testing.T) {
		u := newUpdated(t, release.Minor)
		u.s.tooOld = "1.1.0"
		counts := filepath.Join(t.TempDir(), "tries")
		u.offers("1.2.0", "#!/bin/sh\necho x >> "+counts+"\nexit 1\n")
		for range 2 { // whoever supervises it starts it again
			u.start()
			u.waitEnd()
		}
		if tries, err := os.ReadFile(counts); err != nil || string(tries) != "x\n" {
			t.Errorf("it was tried %q %v", tries, err)
		}
		u.isPlain(program(t, "1.1.0"))
	})
	t.Run("not to be had", func(t *testing.T) { // which says nothing of the release
		u := newUpdated(t, release.Minor)
		u.s.tooOld = "1.1.0"
		text := program(t, "1.2.0")
		u.offers("1.2.0", text)
		at := "/releases/1.2.0/legwork"
		u.s.mu.Lock()
		u.s.files[at] = []byte(text[1:])
		u.s.mu.Unlock()
		u.start()
		u.waitEnd()
		u.s.mu.Lock()
		u.s.files[at] = []byte(text)
		u.s.mu.Unlock()
		u.start()
		u.s.wait("the new one is online", func() bool { return len(u.s.hellos) > 0 && u.s.hellos[len(u.s.hellos)-1].Version == "1.2.0" })
	})
	for _, consent := range []release.Consent{release.Notify, release.Off} {
		t.Run(string(consent), func(t *testing.T) {
			u := newUpdated(t, consent)
			u.s.tooOld, u.cfg.Version = "1.1.0", "1.1.0"
			u.offers("1.2.0", program(t, "1.2.0"))
			err := New(u.cfg).Run(t.Context())
			if f := faultOf(err); f.Kind != fault.Unsupported || !strings.Contains(f.Hint, "release 1.2.0 is at the Server") || !strings.Contains(f.Hint, "/releases/1.2.0/legwork") {
				t.Errorf("it ends with %v (%s)", err, f.Hint)
			}
			u.isPlain(program(t, "1.1.0"))
		})
	}
}
