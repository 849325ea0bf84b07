package harness_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// sealedWorld declares Modules with a sensitive Input each, and a Secret.
func sealedWorld(s *harness.Server, modules int) {
	var m strings.Builder
	m.WriteString("{kind: Stack, name: s}\n---\n{kind: Namespace, stack: s, name: n}\n")
	for i := range modules {
		fmt.Fprintf(&m, "---\n{kind: Module, stack: s, namespace: n, name: m%d, engine: script, script: {run: 'true'}, inputs: [{name: key, kind: env, value: hunter2-%d, sensitive: true}]}\n", i, i)
	}
	s.Apply(m.String())
	s.Feed("kept-4711", "secret", "set", "kept", "--scope", "s")
}

// revealed gives the manifest with the values of all sensitive Inputs, as a Server opens them.
func revealed(t *testing.T, s *harness.Server, token string) string {
	t.Helper()
	r := s.RunWith([]string{"LEGWORK_SERVER=" + s.URL, "LEGWORK_TOKEN=" + token}, "manifest", "export", "--show-sensitive")
	if r.Status != 0 || !strings.Contains(r.Out, "hunter2-0") {
		t.Fatalf("sealed values do not open: %d %s", r.Status, r.Err)
	}
	return r.Out
}

func masterKey(t *testing.T, data string) []byte {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(data, "master-key"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

var sealedAnew = regexp.MustCompile(`(\d+) values were sealed anew`)

// rotate runs rotate-key, and gives how many values it sealed anew.
func rotate(t *testing.T, s *harness.Server, args ...string) int {
	t.Helper()
	r := s.Run(append([]string{"server", "rotate-key", "--data-folder", s.Data}, args...)...)
	if r.Status != 0 {
		t.Fatalf("rotate-key %v ended with %d: %s%s", args, r.Status, r.Out, r.Err)
	}
	if m := sealedAnew.FindStringSubmatch(r.Out); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return -1
}

// narrow makes a pipe that takes so many further bytes, behind those that are in it, until it is read from.
func narrow(t *testing.T, room int) (out, in *os.File, full int) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close(); _ = in.Close() })
	size, err := unix.FcntlInt(in.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	full = size - room
	if _, err := in.WriteString(strings.Repeat(".", full)); err != nil {
		t.Fatal(err)
	}
	return out, in, full
}

// waiting tells how many bytes wait in a pipe to be read.
func waiting(t *testing.T, out *os.File) int {
	t.Helper()
	n, err := unix.IoctlGetInt(int(out.Fd()), unix.TIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSealingAnewIsKilled kills rotate-key --data in the middle: a Server starts on what it left, and running it again ends it. The master key
// stays the same. A Job that waits all the time gets the secret that it was given.
func TestSealingAnewIsKilled(t *testing.T) {
	t.Parallel()
	const modules = 3000
	w := newNodeWorld(t, harness.StartNodeNames(t, 1), 1)
	s := w.Server
	sealedWorld(s, modules)
	w.runbook("given", "nodes: 'tags: web'\noptions: [{name: token, type: secret, required: true}]\nsteps: [{name: sum, command: 'printf %s%s ${option.token} ${secret.kept} | sha256sum'}]\n")
	w.runners[0].Kill()
	id := w.run("given", "token=given-4712")
	before, key := revealed(t, s, s.Token()), masterKey(t, s.Data)
	s.Kill()

	program, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "server", "rotate-key", "--data-folder", s.Data, "--data")
	const line = "1000 values are sealed anew.\n"
	said, in, full := narrow(t, len(line)*3/2) // it has to wait before it says that a second time
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	harness.Eventually(t, "some are sealed anew", func() bool { return waiting(t, said) >= full+len(line) })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if text, err := io.ReadAll(said); err != nil || strings.Count(string(text), "values are sealed anew") != 1 {
		t.Fatalf("it was not killed in the middle: %q %v", strings.TrimLeft(string(text), "."), err)
	}

	s.Start()
	if revealed(t, s, s.Token()) != before {
		t.Error("values are others, half of them sealed anew")
	}
	s.Kill()
	if n := rotate(t, s, "--data"); n < 1 || n > modules-1000+10 {
		t.Errorf("the second run sealed %d values", n)
	}
	if !bytes.Equal(masterKey(t, s.Data), key) {
		t.Error("the master key is another one")
	}
	// The modules, the secret, the key that signs tokens, the options of the job, and some kept answers to requests.
	if n := rotate(t, s, "--data"); n < modules+3 || n > modules+20 {
		t.Errorf("with a further data key %d values were sealed anew, want %d to %d", n, modules+3, modules+20)
	}
	rotate(t, s)
	if bytes.Equal(masterKey(t, s.Data), key) {
		t.Error("the master key is the same")
	}
	s.Start()
	if revealed(t, s, s.Token()) != before {
		t.Error("values are others, all of them sealed anew")
	}
	w.runners[0].Start()
	s.Ends(id, work.Succeeded)
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte("given-4712kept-4711"))); !strings.Contains(s.Log(id), sum) {
		t.Errorf("the Job got other secrets:\n%s", s.Log(id))
	}
}

// TestKeysAreRotatedUnderASecondServer follows docs/SECRETS.md with two hosts: the second Server runs all the time, and opens what was sealed before,
// meanwhile and after.
func TestKeysAreRotatedUnderASecondServer(t *testing.T) {
	t.Parallel()
	database := postgres(t)
	first := harness.StartServer(t, "--database", database)
	sealedWorld(first, 200)
	folder := t.TempDir()
	put := func() {
		t.Helper()
		next := filepath.Join(folder, "copied")
		if err := os.WriteFile(next, masterKey(t, first.Data), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(folder, "master-key")); err != nil {
			t.Fatal(err)
		}
	}
	put()
	second := harness.StartServerOn(t, folder, "--database", database)
	token, before := first.Token(), revealed(t, first, first.Token())
	opens := func(when string, s *harness.Server) {
		t.Helper()
		if revealed(t, s, token) != before {
			t.Errorf("%s: values are others", when)
		}
	}
	opens("before", second)
	rotate(t, first, "--database", database)
	opens("with a new master key, the old one on the second host", second)
	put()
	key := masterKey(t, first.Data)
	if n := rotate(t, first, "--database", database, "--data"); n < 200 {
		t.Errorf("%d values were sealed anew", n)
	}
	if !bytes.Equal(masterKey(t, first.Data), key) {
		t.Fatal("--data made a new master key, which the second host does not have")
	}
	opens("all sealed anew", second)
	opens("all sealed anew, the first Server", first)
	first.Feed("new-4713", "secret", "set", "kept", "--scope", "s")
	rotate(t, first, "--database", database, "--data")
	opens("sealed anew twice", second)
	second.Kill()
	second.Start()
	opens("started again", second)
}
