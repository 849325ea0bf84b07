//go:build bench

package harness_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// figure is one line of the table: what was measured and what it should stay under (or over).
type figure struct {
	what  string
	value float64
	limit float64
	unit  string
	over  bool // the value should be over the limit, not under
	note  string
}

var figures []figure

// put prints a figure at once and keeps it for the table.
func put(f figure) {
	figures = append(figures, f)
	fmt.Println(f)
}

// String is the line of the table.
func (f figure) String() string {
	verdict := "ok"
	if (f.over && f.value < f.limit) || (!f.over && f.value > f.limit) {
		verdict = "FALLS SHORT"
	}
	return fmt.Sprintf("%-58s %9.2f %-3s %8.2f %-3s %7.2fx  %s %s",
		f.what, f.value, f.unit, f.limit, f.unit, f.value/f.limit, verdict, f.note)
}

func printFigures() {
	fmt.Printf("\n%-58s %12s %12s %8s\n", "what", "measured", "limit", "ratio")
	for _, f := range figures {
		fmt.Println(f)
	}
}

// scenario measures one thing. A scenario that fails or panics has no figure, and the others are still measured.
func scenario(t *testing.T, name string, measure func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		defer func() {
			if cause := recover(); cause != nil {
				t.Errorf("it panicked: %v\n%s", cause, debug.Stack())
			}
		}()
		measure(t)
	})
}

func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func latency(what string, d []time.Duration, median, p95 float64) {
	put(figure{what: what + ", median", value: ms(quantile(d, 0.5)), limit: median, unit: "ms"})
	put(figure{what: what + ", p95", value: ms(quantile(d, 0.95)), limit: p95, unit: "ms"})
}

func (a *api) submit(t *testing.T, module string) string { return a.order(t, module, "run") }

func (a *api) order(t *testing.T, module, action string) string {
	t.Helper()
	var j work.Job
	status, err := a.call("POST", "/api/v1/jobs", map[string]string{"module": module, "action": action}, &j)
	if err != nil || status >= 300 {
		t.Fatalf("submit %s: %d %v", module, status, err)
	}
	return j.ID
}

func (a *api) job(t *testing.T, id string) work.Job {
	t.Helper()
	var j work.Job
	if status, err := a.call("GET", "/api/v1/jobs/"+id, nil, &j); err != nil || status != 200 {
		t.Fatalf("job %s: %d %v", id, status, err)
	}
	return j
}

func (a *api) ended(t *testing.T, id string) work.Job {
	t.Helper()
	var j work.Job
	harness.Eventually(t, "job "+id+" is over", func() bool {
		j = a.job(t, id)
		return j.Status.Terminal()
	})
	if j.Status != work.Succeeded {
		t.Fatalf("job %s: %s %+v", id, j.Status, j.Failure)
	}
	return j
}

// follow calls line for each line of a Job's log as it arrives, until the end of the log.
func (a *api) follow(t *testing.T, id string, line func(text string)) {
	t.Helper()
	req, _ := http.NewRequestWithContext(context.Background(), "GET", a.s.URL+"/api/v1/jobs/"+id+"/logs?follow=true", nil)
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Accept", "text/event-stream")
	res, err := a.http.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	scan := bufio.NewScanner(res.Body)
	scan.Buffer(nil, 8<<20)
	for scan.Scan() {
		if text, ok := strings.CutPrefix(scan.Text(), "data:"); ok {
			line(text)
		}
	}
}

func scripts(n int, prefix, run string) string {
	var b strings.Builder
	b.WriteString("kind: Stack\nname: b\n---\nkind: Namespace\nstack: b\nname: " + prefix + "\ndefaults: {engine: script, runner: edge-1}\n")
	for i := range n {
		fmt.Fprintf(&b, "---\nkind: Module\nstack: b\nnamespace: %s\nname: m%d\nsource: {type: inline, files: {x: \"\"}}\nscript: {run: %q}\n", prefix, i, run)
	}
	return b.String()
}

// TestFigures measures what the design promises and prints one table.
func TestFigures(t *testing.T) {
	defer printFigures()
	s := harness.StartServer(t)
	r := s.StartRunner("edge-1", capacity(10))
	a := newAPI(s)
	scenario(t, "idle memory", func(t *testing.T) { idleMemory(t, s, r) })
	scenario(t, "latency", func(t *testing.T) { createdToRunning(t, s, a) })
	scenario(t, "first line", func(t *testing.T) { createdToFirstLine(t, s, a) })
	scenario(t, "printed to seen", func(t *testing.T) { printedToSeen(t, s, a) })
	scenario(t, "trivial jobs", func(t *testing.T) { trivialJobs(t, s, a, r) })
	scenario(t, "50 clients", func(t *testing.T) { fiftyClients(t, s, a) })
	scenario(t, "flood", func(t *testing.T) { flood(t, s, a) })
	scenario(t, "tofu", func(t *testing.T) { tofuOverhead(t, s, a) })
	scenario(t, "100 instances", hundredInstances)
	scenario(t, "1,000 instances", func(t *testing.T) { manyInstances(t, 1000) })
	scenario(t, "10,000 instances", func(t *testing.T) { manyInstances(t, 10_000) })
	scenario(t, "hosted runner", hostedStart)
	scenario(t, "lost runner", lostRunner)
	scenario(t, "100 browsers", hundredBrowsers)
	scenario(t, "200 nodes", execOnNodes)
}

func resident(t *testing.T, pid int) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(b)
	kib, _ := strconv.Atoi(string(m[1]))
	return float64(kib) / 1024
}

func idleMemory(t *testing.T, s *harness.Server, r *harness.Runner) {
	put(figure{what: "Server idle, resident", value: resident(t, s.PID()), limit: 60, unit: "MiB"})
	put(figure{what: "Runner idle, resident", value: resident(t, r.PID()), limit: 25, unit: "MiB"})
}

func createdToRunning(t *testing.T, s *harness.Server, a *api) {
	s.Apply(scripts(1, "lat", ":"))
	var toFirst, toRun []time.Duration
	for range 100 {
		j := a.ended(t, a.submit(t, "b/lat/m0"))
		toFirst = append(toFirst, j.Steps[0].StartedAt.Sub(j.CreatedAt))
		toRun = append(toRun, j.Steps[1].StartedAt.Sub(j.CreatedAt))
	}
	latency("created -> first Step running", toFirst, 10, 25)
	latency("created -> script running (fetch done)", toRun, 10, 25)
}

func createdToFirstLine(t *testing.T, s *harness.Server, a *api) {
	s.Apply(scripts(1, "line", "echo hello"))
	var d []time.Duration
	for range 50 {
		begin, once := time.Now(), sync.Once{}
		id := a.submit(t, "b/line/m0")
		a.follow(t, id, func(text string) {
			if strings.Contains(text, "hello") {
				once.Do(func() { d = append(d, time.Since(begin)) })
			}
		})
		a.ended(t, id)
	}
	latency("created -> first line at a follower", d, 25, 60)
}

var stamp = regexp.MustCompile(`at=(\d+)\.(\d{6})`)

func printedToSeen(t *testing.T, s *harness.Server, a *api) {
	for _, c := range []struct{ what, name, run string }{
		{"a line printed -> seen, one every 10 ms", "slow", `for i in $(seq 300); do echo "at=$EPOCHREALTIME"; sleep 0.01; done`},
		{"a line printed -> seen, output never pauses", "fast", `end=$((SECONDS+3)); while (( SECONDS < end )); do echo "at=$EPOCHREALTIME"; done`},
	} {
		s.Apply(scripts(1, c.name, c.run))
		var d []time.Duration
		id := a.submit(t, "b/"+c.name+"/m0")
		a.follow(t, id, func(text string) {
			now := time.Now()
			m := stamp.FindStringSubmatch(text) // the oldest line of a batch: the one that waited longest
			if m != nil {
				sec, _ := strconv.ParseInt(m[1], 10, 64)
				usec, _ := strconv.ParseInt(m[2], 10, 64)
				d = append(d, now.Sub(time.Unix(sec, usec*1000)))
			}
		})
		if len(d) < 50 {
			t.Fatalf("%s: saw %d lines", c.what, len(d))
		}
		put(figure{what: c.what + ", p95", value: ms(quantile(d, 0.95)), limit: 100, unit: "ms", note: fmt.Sprintf("(%d lines, median %.1f ms)", len(d), ms(quantile(d, 0.5)))})
		a.ended(t, id)
	}
}

// trivialJobs measures Jobs that do nothing: while they are being submitted, and with all of them queued before the Runner
// may take the first, as xargs has its list before it begins.
func trivialJobs(t *testing.T, s *harness.Server, a *api, r *harness.Runner) {
	const n = 1000
	s.Apply(scripts(n, "many", ":"))
	before := 0.0
	var together, queued, xargs []float64
	for round := range 4 {
		begin := time.Now()
		submitAll(t, a, n, 10)
		allOver(t, a)
		whole := n / time.Since(begin).Seconds()
		s.Do("runner", "disable", "edge-1")
		submitAll(t, a, n, 10)
		begin = time.Now()
		s.Do("runner", "enable", "edge-1")
		allOver(t, a)
		drained := n / time.Since(begin).Seconds()
		if round == 0 { // the folders of the Modules were made
			before = resident(t, s.PID()) + resident(t, r.PID())
			continue
		}
		together, queued, xargs = append(together, whole), append(queued, drained), append(xargs, xargsRate(t, n))
	}
	grown := resident(t, s.PID()) + resident(t, r.PID()) - before
	beside := func(rates []float64) figure {
		return figure{what: "  beside xargs -P 10 of the same command", value: middle(rates) / middle(xargs), limit: 0.5, unit: "x", over: true, note: fmt.Sprintf("(xargs %.0f/s)", middle(xargs))}
	}
	put(figure{what: "trivial Jobs, capacity 10, while they are submitted", value: middle(together), limit: 200, unit: "/s", over: true})
	put(beside(together))
	put(figure{what: "trivial Jobs, capacity 10, all queued before", value: middle(queued), limit: 200, unit: "/s", over: true})
	put(beside(queued))
	put(figure{what: "Server and Runner grown by 6,000 Jobs more", value: max(0, grown), limit: 10, unit: "MiB"})
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func allOver(t *testing.T, a *api) {
	harness.Eventually(t, "all jobs are over", func() bool { return openJobs(t, a) == 0 })
}

func submitAll(t *testing.T, a *api, n, clients int) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				a.submit(t, fmt.Sprintf("b/many/m%d", i))
			}
		})
	}
	wg.Wait()
}

func openJobs(t *testing.T, a *api) int {
	var page struct {
		Items []work.Job `json:"items"`
	}
	if status, err := a.call("GET", "/api/v1/jobs?status=queued,claimed,running&limit=1", nil, &page); err != nil || status != 200 {
		t.Fatalf("jobs: %d %v", status, err)
	}
	return len(page.Items)
}

func xargsRate(t *testing.T, n int) float64 {
	script := filepath.Join(t.TempDir(), "script.sh")
	if err := os.WriteFile(script, []byte(":\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	cmd := exec.Command("bash", "-c", fmt.Sprintf("seq %d | xargs -P 10 -n 1 bash -euo pipefail %s", n, script))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return float64(n) / time.Since(begin).Seconds()
}

func fiftyClients(t *testing.T, s *harness.Server, a *api) {
	s.Apply(scripts(50, "fifty", ":"))
	var bad, good atomic.Int64
	var wg sync.WaitGroup
	for c := range 50 {
		wg.Go(func() {
			for range 20 {
				status, err := a.call("POST", "/api/v1/jobs", map[string]string{"module": fmt.Sprintf("b/fifty/m%d", c), "action": "run"}, nil)
				if err != nil || status >= 500 {
					bad.Add(1)
				} else {
					good.Add(1)
				}
			}
		})
	}
	wg.Wait()
	put(figure{what: "50 clients creating Jobs at once: refused", value: float64(bad.Load()), limit: 0, unit: "", note: fmt.Sprintf("(%d accepted)", good.Load())})
	allOver(t, a)
}

const floodScript = `awk 'BEGIN { for (i = 0; i < 79; i++) line = line "x"; for (i = 0; i < 100000; i++) print line }'`

func flood(t *testing.T, s *harness.Server, a *api) {
	s.Apply(scripts(1, "flood", floodScript))
	var own, whole []time.Duration
	for range 5 {
		begin := time.Now()
		file := filepath.Join(t.TempDir(), "out")
		cmd := exec.Command("bash", "-c", floodScript+" > "+file)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		own = append(own, time.Since(begin))
		begin = time.Now()
		id := a.submit(t, "b/flood/m0")
		a.follow(t, id, func(string) {})
		j := a.ended(t, id)
		whole = append(whole, j.FinishedAt.Sub(j.Steps[1].StartedAt))
		if n := lines(t, a, id); n < 100000 {
			t.Fatalf("%d lines are readable", n)
		}
	}
	put(figure{what: "100,000 lines of 80 bytes: stored after the script's own time", value: (quantile(whole, 0.5) - quantile(own, 0.5)).Seconds(), limit: 0.5, unit: "s",
		note: fmt.Sprintf("(own %.2f s)", quantile(own, 0.5).Seconds())})
}

// lines counts the lines of a Job's log as they are read from the Server.
func lines(t *testing.T, a *api, id string) int {
	req, _ := http.NewRequest("GET", a.s.URL+"/api/v1/jobs/"+id+"/logs", nil)
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Accept", "text/plain")
	res, err := a.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("\n"))
}

const smallCode = `
resource "terraform_data" "x" {
  count = 20
  input = "${count.index}-${timestamp()}"
}
output "n" { value = length(terraform_data.x) }
`

// realCode takes the time that real resources take: ten that are made at once, a second each.
const realCode = `
resource "terraform_data" "x" {
  count            = 10
  triggers_replace = timestamp()
  provisioner "local-exec" { command = "sleep 1" }
}
output "n" { value = length(terraform_data.x) }
`

// tofuOverhead compares a Job with the same commands run by hand, in turn, on the same code.
func tofuOverhead(t *testing.T, s *harness.Server, a *api) {
	s.Apply("kind: Stack\nname: t\n---\nkind: Namespace\nstack: t\nname: n\n")
	hand, job := tofuPairs(t, s, a, "small", smallCode, 20)
	put(figure{what: "tofu apply of nothing that takes time: added by the Job", value: (middle(job) - middle(hand)) * 1000, limit: 50, unit: "ms",
		note: fmt.Sprintf("(by hand %.2f s, Job %.2f s; the design sets no limit)", middle(hand), middle(job))})
	hand, job = tofuPairs(t, s, a, "real", realCode, 7)
	put(figure{what: "tofu apply of ten resources of 1 s: added by the Job", value: (middle(job)/middle(hand) - 1) * 100, limit: 3, unit: "%",
		note: fmt.Sprintf("(by hand %.2f s, Job %.2f s)", middle(hand), middle(job))})
}

// tofuPairs gives the seconds that the commands took by hand and as Jobs.
func tofuPairs(t *testing.T, s *harness.Server, a *api, name, code string, pairs int) (hand, job []float64) {
	s.Apply("kind: Module\nstack: t\nnamespace: n\nname: " + name + "\nengine: opentofu\nrunner: edge-1\nsource:\n  type: inline\n  files:\n    main.tf: |\n" +
		"      " + strings.ReplaceAll(strings.TrimSpace(code), "\n", "\n      ") + "\n")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range pairs + 2 {
		h := byHand(t, dir)
		j := a.ended(t, a.order(t, "t/n/"+name, "apply")) // by HTTP: a command line that asks again and again would take from the Job
		if i >= 2 {                                       // warmed up
			hand, job = append(hand, h.Seconds()), append(job, j.FinishedAt.Sub(j.CreatedAt).Seconds())
		}
	}
	return hand, job
}

func byHand(t *testing.T, dir string) time.Duration {
	begin := time.Now()
	for _, args := range [][]string{
		{"init", "-input=false"}, {"validate"}, {"plan", "-input=false", "-detailed-exitcode", "-out=plan.bin"},
		{"show", "-json", "plan.bin"}, {"apply", "-input=false", "plan.bin"}, {"output", "-json"},
	} {
		cmd := exec.Command(harness.Tool(t, "opentofu"), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE=/dev/null", "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1")
		if out, err := cmd.CombinedOutput(); err != nil && !(args[0] == "plan" && cmd.ProcessState.ExitCode() == 2) {
			t.Fatalf("tofu %v: %v\n%s", args, err, out)
		}
	}
	return time.Since(begin)
}
