package process

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkTrue runs /bin/true through the keeper, one after the other.
func BenchmarkTrue(b *testing.B) {
	bench := newBench(b)
	n := 0
	for b.Loop() {
		n++
		runTrue(bench, n)
	}
}

// BenchmarkTrueDirect is the same without a keeper, for comparison.
func BenchmarkTrueDirect(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTrueParallel runs ten at once.
func BenchmarkTrueParallel(b *testing.B) {
	bench := newBench(b)
	var next atomic.Int64
	b.ResetTimer()
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				runTrue(bench, int(n))
			}
		})
	}
	workers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}

func runTrue(b *bench, n int) {
	spec := shellSpec(b.dir, fmt.Sprint(n), "")
	spec.Argv = []string{"/bin/true"}
	if err := b.client.Start(b.ctx(), spec); err != nil {
		b.Error(err)
		return
	}
	if exit, err := b.client.Wait(b.ctx(), spec.ID, spec.ExitFile); err != nil || exit.Code != 0 {
		b.Errorf("%+v, %v", exit, err)
	}
}

// BenchmarkFlood stores 100,000 lines of 80 bytes and reports what that costs the keeper: printed in
// large pieces, and by a program that writes each line by itself.
func BenchmarkFlood(b *testing.B) {
	for name, script := range map[string]string{
		"pieces": `yes "$(printf 'x%.0s' {1..79})" | head -n 100000`,
		"lines":  `l="$(printf 'x%.0s' {1..79})"; for ((i = 0; i < 100000; i++)); do echo "$l"; done`,
	} {
		b.Run(name, func(b *testing.B) {
			bench := newBench(b)
			pid, _ := bench.client.Keeper()
			before, n := cpuOf(b, pid), 0
			for b.Loop() {
				n++
				bench.run(fmt.Sprint(n), script)
			}
			b.ReportMetric((cpuOf(b, pid)-before).Seconds()*1000/float64(n), "keeper-cpu-ms/op")
		})
	}
}

// cpuOf returns the processor time that a process has used, threads included.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		t.Fatal("unknown form")
	}
	return time.Duration(user+system) * 10 * time.Millisecond // the kernel counts 100 a second
}
