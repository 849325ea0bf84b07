//go:build linux

package harness_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"legwork/internal/harness"
)

// nobody is a user without rights: root could read everything.
const nobody = 65534

// lockedText keeps what a process says while a test looks.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// asNobody starts a program as a user without rights.
func asNobody(t *testing.T, env []string, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// TestSecretsOfProcessesArePrivate: a Job runs as the user of its Runner, and must not read the secrets of the processes around it.
func TestSecretsOfProcessesArePrivate(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-of-the-runner"
	built, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "legwork-private-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, home := filepath.Join(dir, "legwork"), filepath.Join(dir, "home")
	fifo := filepath.Join(dir, "part.json") // a round reads its part first, and waits here like a launch
	text, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(program, text, 0o755), syscall.Mkfifo(fifo, 0o666), os.Chmod(fifo, 0o666),
		os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody)} {
		if err != nil && os.Geteuid() == 0 {
			t.Fatal(err)
		}
	}
	id := "01a203af-0c7c-7caf-a539-2073302b93ba"
	settings := []string{"HOME=" + home, "LEGWORK_RUNNER__ID=" + id, "LEGWORK_RUNNER__ORGANIZATIONID=" + id, "LEGWORK_RUNNER__INSTANCE=i", "LEGWORK_SERVER__URL=http://127.0.0.1:9",
		"LEGWORK_RUNNER__CREDENTIALS__CLIENTID=c", "LEGWORK_RUNNER__CREDENTIALS__CLIENTSECRET=" + secret}
	for name, c := range map[string]struct {
		env  []string
		argv []string
		said string // when it is past its start
	}{
		"runner": {settings, []string{program, "runner", "start"}, "level="},
		"keeper": {[]string{"SECRET=" + secret}, []string{program, "runner", "keep", "--dir", filepath.Join(home, "keeper")}, "keeper serves"},
		"round":  {[]string{"SECRET=" + secret}, []string{program, "runner", "round", fifo}, ""},
		"launch": {[]string{"SECRET=" + secret}, []string{program, "runner", "launch", fifo}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var said lockedText
			cmd := asNobody(t, c.env, c.argv...)
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
			harness.Eventually(t, "the process is past its start", func() bool {
				status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
				if err != nil {
					t.Fatalf("it ended: %s", said.String())
				}
				read := asNobody(t, nil, "cat", fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
				out, err := read.CombinedOutput()
				return bytes.Contains(status, []byte("legwork")) && strings.Contains(said.String(), c.said) && err != nil && !bytes.Contains(out, []byte(secret))
			})
			for _, file := range []string{"environ", "mem", "fd/0", "maps"} {
				path := fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, file)
				if out, err := asNobody(t, nil, "head", "-c", "100", path).CombinedOutput(); err == nil {
					t.Errorf("its user reads %s: %q", path, out)
				}
			}
			initial, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)) // as root
			if name == "runner" && (err != nil || bytes.Contains(initial, []byte(secret))) {
				t.Errorf("the secret is in the initial environment: %q, %v", initial, err)
			}
		})
	}
}
