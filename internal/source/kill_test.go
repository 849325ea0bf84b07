package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/leaktest"
	"legwork/internal/source"
)

// fetchVariable makes this test program do one fetch, so that it can be killed.
const fetchVariable = "LEGWORK_TEST_FETCH"

type killable struct {
	Mirrors string
	Request source.Request
}

func TestMain(m *testing.M) {
	if text := os.Getenv(fetchVariable); text != "" {
		os.Exit(fetchOnce(text))
	}
	leaktest.Main(m)
}

func fetchOnce(text string) int {
	var k killable
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Println("ready")
	if _, err := source.New(source.Config{MirrorsDir: k.Mirrors}).Fetch(context.Background(), k.Request, func(string) {}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestKilled kills fetches at any moment, with and without the git that they run, and checks that the next one
// finds its way: nothing is missing, nothing is left over, the state is there.
func TestKilled(t *testing.T) {
	r := newRepository(t)
	var trees []map[string]string
	var commits []string
	for i := range 4 {
		tree := map[string]string{"same": "same", "main.tf": fmt.Sprint("main ", i)}
		for f := range 150 {
			tree[fmt.Sprintf("d%d/f%d", (f*7+i)%20, f+i*40)] = strings.Repeat(fmt.Sprint(i, f), 50)
		}
		trees = append(trees, tree)
		commits = append(commits, r.commit(tree))
	}
	inline := map[string]string{"inline.tf": "i", "d1/x": "x", "same": "other"}
	h := newHost(t, source.Config{})
	h.must(gitSource(r.url(), commits[0]))
	h.put("terraform.tfstate", "state")
	h.put("d3/.terraform/x", "provider")

	extra := []catalog.ExtraFile{{FileName: "extra", Contents: "e"}, {FileName: "main.tf", Contents: "over", Overwrite: true}}
	whole := 60 * time.Millisecond
	for round := range 25 {
		k := killable{Mirrors: h.MirrorsDir, Request: source.Request{ModuleDir: h.module, Source: gitSource(r.url(), commits[round%4]), ExtraFiles: extra}}
		if round%5 == 4 {
			k.Request.Source = catalog.Source{Type: catalog.Inline, Files: inline}
		}
		if round%7 == 0 { // a host that has seen nothing yet
			if err := os.RemoveAll(h.MirrorsDir); err != nil {
				t.Fatal(err)
			}
		}
		killFetch(t, k, time.Duration(rand.Int64N(int64(whole))), round%2 == 0)
		if round%3 == 0 {
			continue // killed twice in a row
		}
		next := (round + 1) % 4
		began := time.Now()
		h.must(gitSource(r.url(), commits[next]))
		whole = max(whole, min(2*time.Since(began), 300*time.Millisecond))
		want := map[string]string{"terraform.tfstate": "state", "d3/.terraform/x": "provider"}
		for name, text := range trees[next] {
			want[name] = text
		}
		h.holds(want)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

// killFetch starts a fetch in a process of its own and kills it after a while, and what it has started
// when all is set.
func killFetch(t *testing.T, k killable, after time.Duration, all bool) {
	t.Helper()
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fetchVariable+"="+string(text), "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	<-time.After(after) // the moment of the kill is the point of the test
	victims := []int{cmd.Process.Pid}
	if all {
		victims = append(victims, descendants(cmd.Process.Pid)...)
	}
	for _, pid := range victims {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = cmd.Wait()
}

// descendants gives the processes below one, by what /proc says of their parents.
func descendants(of int) []int {
	parents := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])); len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	var found []int
	for pid := range parents {
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == of {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// TestEndsWithContext ends git, and all that it has started, with the context.
func TestEndsWithContext(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	slow := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(slow, []byte("#!/bin/sh\ntrap '' TERM\necho $$ > "+pidFile+"\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, source.Config{Env: []string{"GIT_SSH_COMMAND=" + slow}})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("canceled by the test")
	done := make(chan error, 1)
	go func() {
		_, err := h.Fetch(ctx, source.Request{ModuleDir: h.module, Source: gitSource("ssh://h/x", "")}, h.log.say)
		done <- err
	}()
	pid := 0
	until(t, func() bool {
		text, _ := os.ReadFile(pidFile)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	until(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})

	short := newHost(t, source.Config{Timeout: 200 * time.Millisecond, Env: []string{"GIT_SSH_COMMAND=sleep 600;:"}})
	short.refused("source_timeout", gitSource("ssh://h/x", ""))
}

// until polls for a condition, for a bounded time.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("it does not come true")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestLockIsWaitedFor: a fetch waits for another one on the same Module, and gives up with its context.
func TestLockIsWaitedFor(t *testing.T) {
	h := newHost(t, source.Config{})
	inline := catalog.Source{Type: catalog.Inline, Files: map[string]string{"a": "1"}}
	h.must(inline)
	lock, err := os.OpenFile(filepath.Join(h.module, "source.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	busy := source.New(source.Config{MirrorsDir: h.MirrorsDir, Timeout: 100 * time.Millisecond})
	if _, err := busy.Fetch(t.Context(), source.Request{ModuleDir: h.module, Source: inline}, h.log.say); fault.Code(err) != "source_timeout" {
		t.Errorf("%v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := h.fetch(inline)
		done <- err
	}()
	_ = lock.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestDiskFull fills a real, small disk.
func TestDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	r := newRepository(t)
	noise := make([]byte, 900<<10)
	other := make([]byte, len(noise))
	for i := range noise {
		noise[i], other[i] = byte(rand.Uint32()), byte(rand.Uint32())
	}
	r.commit(map[string]string{"small": "1"})
	h := newHost(t, source.Config{})
	h.module = filepath.Join(disk, "module")
	h.must(gitSource(r.url(), "main"))
	h.put("terraform.tfstate", "state")
	r.commit(map[string]string{"large": string(noise), "larger": string(noise) + "!"})
	h.refused("disk_full", gitSource(r.url(), "main"))
	h.refused("disk_full", catalog.Source{Type: catalog.Inline, Files: map[string]string{"a": string(noise), "b": string(noise)}})
	r.commit(map[string]string{"small": "2"})
	h.must(gitSource(r.url(), "main"))
	h.holds(map[string]string{"small": "2", "terraform.tfstate": "state"})

	full := newHost(t, source.Config{MirrorsDir: filepath.Join(disk, "mirrors")})
	r.commit(map[string]string{"large": string(noise), "larger": string(other)})
	full.refused("disk_full", gitSource(r.url(), "main"))
}
