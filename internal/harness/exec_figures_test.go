//go:build bench

package harness_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"legwork/internal/harness"
)

// execOnNodes runs `true` on 200 Nodes, each time by all three, one after the other, so that whatever else the machine does hits all of them.
func execOnNodes(t *testing.T) {
	const many, threads, rounds = 200, 50, 3
	nodes := harness.StartNodeNames(t, many)
	w := newNodeWorld(t, nodes, 1)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var inventory, names bytes.Buffer
	for _, n := range nodes.List {
		fmt.Fprintf(&inventory, "%s ansible_host=%s ansible_port=%d ansible_user=%s ansible_ssh_private_key_file=%s\n", n.Name, n.Address, n.Port, nodes.User, nodes.Key)
		fmt.Fprintln(&names, n.Address)
	}
	known := write("known_hosts", nodes.KnownHosts())
	if err := os.MkdirAll(filepath.Join(w.Home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Home, ".ssh", "known_hosts"), []byte(nodes.KnownHosts()), 0o600); err != nil {
		t.Fatal(err)
	}
	hosts := write("hosts.ini", inventory.String())
	ssh := fmt.Sprintf("ssh -n -F none -o BatchMode=yes -o UserKnownHostsFile=%s -o StrictHostKeyChecking=yes -i %s -p %d %s@{} true", known, nodes.Key, nodes.List[0].Port, nodes.User)
	timed := func(f func() error) time.Duration {
		begin := time.Now()
		if err := f(); err != nil {
			t.Fatal(err)
		}
		return time.Since(begin)
	}
	var ours, ansible, xargs []time.Duration
	for range rounds {
		ours = append(ours, timed(func() error {
			if r := w.exec("tags: web", "--concurrency", fmt.Sprint(threads), "--", "true"); r.Status != 0 {
				return fmt.Errorf("legwork exec: %d %s", r.Status, r.Err)
			}
			return nil
		}))
		xargs = append(xargs, timed(func() error {
			cmd := exec.Command("xargs", "-P", fmt.Sprint(threads), "-I", "{}", "sh", "-c", ssh)
			cmd.Stdin = bytes.NewReader(names.Bytes())
			out, err := cmd.CombinedOutput()
			return wrap("ssh by xargs", out, err)
		}))
		ansible = append(ansible, timed(func() error {
			cmd := exec.Command("ansible", "-i", hosts, "-m", "raw", "-a", "true", "-f", fmt.Sprint(threads), "all")
			cmd.Env = append(os.Environ(), "HOME="+dir, "ANSIBLE_SSH_ARGS=-F none -o ControlMaster=no -o UserKnownHostsFile="+known)
			out, err := cmd.CombinedOutput()
			return wrap("ansible", out, err)
		}))
	}
	mine := quantile(ours, 0.5)
	note := fmt.Sprintf("%d Nodes, %d at once", many, threads)
	put(figure{what: "exec true on 200 Nodes, beside ssh by xargs", value: mine.Seconds(), limit: quantile(xargs, 0.5).Seconds(), unit: "s", note: note})
	put(figure{what: "exec true on 200 Nodes, beside ansible -m raw", value: mine.Seconds(), limit: quantile(ansible, 0.5).Seconds(), unit: "s", note: note})
}

func wrap(what string, out []byte, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", what, err, out[max(0, len(out)-2000):])
	}
	return nil
}

// TestExecFigures measures commands on Nodes alone.
func TestExecFigures(t *testing.T) {
	execOnNodes(t)
	printFigures()
}
