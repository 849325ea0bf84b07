//go:build linux

package confine_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"legwork/internal/confine"
)

// TestMain is also the program that the tests start: it confines itself and becomes what follows.
func TestMain(m *testing.M) {
	if i := slices.Index(os.Args, "--"); i > 3 && os.Args[1] == "runner" && os.Args[2] == "confine" {
		policy, err := confine.Parse(os.Args[3])
		if err == nil {
			err = confine.Exec(policy, os.Args[i+1:], os.Environ())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(127)
	}
	os.Exit(m.Run())
}

// host is a folder of a server with secrets in it, readable by everybody, so that only the Policy protects it.
func host(t *testing.T) (data string, policy confine.Policy) {
	t.Helper()
	if err := confine.Supported(); err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	data = filepath.Join(root, "data")
	for _, dir := range []string{root, filepath.Dir(root), data, filepath.Join(data, "jobs"), filepath.Join(root, "other")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"data/master-key", "data/jobs/mine", "other/readable"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("the content"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(data, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	return data, confine.Policy{Hidden: []string{data}, Write: []string{filepath.Join(data, "jobs")}, Home: filepath.Join(data, "jobs", "home")}
}

// run runs a script confined, as root or as nobody.
func run(t *testing.T, policy confine.Policy, uid uint32, script string) (out string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := policy.Command(self, "sh", "-c", script)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "SERVER="+strconv.Itoa(os.Getpid()))
	if uid != 0 {
		allowEntry(t, filepath.Dir(self)) // that user starts the test's program
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func users(t *testing.T, do func(t *testing.T, uid uint32)) {
	if os.Geteuid() != 0 {
		do(t, uint32(os.Geteuid()))
		return
	}
	for name, uid := range map[string]uint32{"root": 0, "nobody": 65534} {
		t.Run(name, func(t *testing.T) { do(t, uid) })
	}
}

// allowEntry lets other users enter a folder and those above it. It changes nothing else of their modes.
func allowEntry(t *testing.T, dir string) {
	t.Helper()
	const enter = 0o011
	for ; dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&enter == enter {
			continue
		}
		if err := os.Chmod(dir, info.Mode()|enter); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHiddenFolderIsInvisible(t *testing.T) {
	users(t, func(t *testing.T, uid uint32) {
		data, policy := host(t)
		root := filepath.Dir(data)
		for _, script := range []string{
			"cat " + data + "/master-key", "ls " + data, "ls " + root, "cat " + root + "/link/master-key",
			"cp " + data + "/master-key " + data + "/jobs/copy", "ln " + data + "/master-key " + data + "/jobs/copy",
			"mv " + data + "/master-key " + data + "/jobs/copy", "echo x > " + data + "/master-key", "echo x > " + data + "/new",
			"rm " + data + "/master-key", "echo x > " + root + "/new", "echo x > /usr/legwork-test",
			"cat /proc/$SERVER/environ", "readlink /proc/$SERVER/fd/0", "readlink /proc/$SERVER/cwd", "cat /proc/$SERVER/root" + data + "/master-key",
			"cat " + data + "/jobs/../master-key", "cat /dev/sda /dev/vda /dev/mem", "mount -t tmpfs none " + data,
			"unshare -Urm cat " + data + "/master-key", "sh -c 'sh -c \"cat " + data + "/master-key\"'",
			"chroot " + data + " /master-key", "echo x > /proc/sys/kernel/core_pattern", "cat $(printf " + data + "/m%s aster-key)",
		} {
			if out, err := run(t, policy, uid, script); err == nil || strings.Contains(out, "the content") {
				t.Errorf("%s: got %q, want a refusal", script, out)
			}
		}
		if text, err := os.ReadFile(filepath.Join(data, "master-key")); err != nil || string(text) != "the content" {
			t.Errorf("the hidden file holds %q, %v", text, err)
		}
	})
}

func TestWhatIsNotHiddenWorks(t *testing.T) {
	users(t, func(t *testing.T, uid uint32) {
		data, policy := host(t)
		if err := os.MkdirAll(policy.Home, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(policy.Home, 0o777); err != nil {
			t.Fatal(err)
		}
		root := filepath.Dir(data)
		for _, script := range []string{
			"cat " + data + "/jobs/mine", "echo x > " + data + "/jobs/new && mkdir " + data + "/jobs/d && mv " + data + "/jobs/new " + data + "/jobs/d",
			"cat " + root + "/other/readable", "echo x > /dev/null", "echo x | cat | grep x", "cd ~ && echo x > file && cat file",
			"[ \"$HOME\" = " + policy.Home + " ]", "sleep 10 & kill $!", "cat /etc/passwd /proc/self/status > /dev/null",
			"cat < /dev/stdin < /etc/passwd > /dev/null", "bash -c 'cat <(echo x)'",
			// Programs differ in which of two entries they take, so there must be one.
			"[ \"$(tr '\\0' '\\n' < /proc/$$/environ | grep -c ^HOME=)\" = 1 ]",
		} {
			if out, err := run(t, policy, uid, script); err != nil {
				t.Errorf("%s: got %q, %v", script, out, err)
			}
		}
	})
}

// TestParentThatCannotBeListed hides a folder inside one that the user may enter but not list.
func TestParentThatCannotBeListed(t *testing.T) {
	users(t, func(t *testing.T, uid uint32) {
		data, policy := host(t)
		root := filepath.Dir(data)
		if err := os.Chmod(root, 0o311); err != nil {
			t.Fatal(err)
		}
		policy.Home = ""
		if out, err := run(t, policy, uid, "cat "+data+"/jobs/mine"); err != nil || out != "the content" {
			t.Errorf("what may be read: got %q, %v", out, err)
		}
		if out, err := run(t, policy, uid, "cat "+data+"/master-key"); err == nil {
			t.Errorf("what is hidden: got %q, want a refusal", out)
		}
	})
}

func TestNoSignalsToProcessesOutside(t *testing.T) {
	_, policy := host(t)
	outside := exec.Command("sleep", "60")
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = outside.Process.Kill(); _ = outside.Wait() }()
	if out, err := run(t, policy, 0, fmt.Sprintf("kill -0 %d", outside.Process.Pid)); err == nil {
		t.Errorf("it may signal a process outside: %s", out)
	}
}

func TestHides(t *testing.T) {
	data, policy := host(t)
	for path, want := range map[string]bool{
		data: true, data + "/": true, data + "/master-key": true, data + "/jobs": false, data + "/jobs/mine": false, data + "/not/there": true,
		filepath.Dir(data): false, filepath.Dir(data) + "/link/master-key": true, data + "-other": false, data + "/jobs/../master-key": true,
	} {
		if got := policy.Hides(path); got != want {
			t.Errorf("Hides(%q): got %v, want %v", path, got, want)
		}
	}
}
