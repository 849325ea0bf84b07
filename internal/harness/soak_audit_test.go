//go:build soak && linux

package harness_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/work"
)

// allowed are the failures that faults explain. Every other one is a defect.
var allowed = map[string]bool{"host_lost": true, "too_many_attempts": true, "outcome_unknown": true}

// effect is what one Attempt did outside.
type effect struct{ begun, ended int }

// audit compares what the Server says of every Job with its log and with what its changing Step did.
func (k *soak) audit() {
	k.auditHosts()
	jobs := k.allJobs()
	effects := k.effects()
	states, failures := map[string]int{}, map[string]int{}
	attempts, losses, lines := 0, 0, 0
	for i := range jobs {
		j := &jobs[i]
		states[string(j.Status)]++
		attempts += j.Attempt
		losses += len(j.Losses)
		if j.Failure != nil {
			failures[j.Failure.Code]++
		}
		k.auditEnd(j)
		k.auditEffects(j, effects[j.ID])
		lines += k.auditLog(j)
		delete(effects, j.ID)
	}
	if most := 4 * k.faults[hostKilled]; failures["host_lost"] > most { // the places of a host
		k.blame("%d Jobs were lost by their host, and what was killed can be %d at most", failures["host_lost"], most)
	}
	for id := range effects {
		k.blame("something was done for job %s, which does not exist", id)
	}
	fmt.Printf("\n%d Jobs (%d submissions refused), %d Attempts, %d lost Attempts, %d lines of logs\n", len(jobs), k.refused, attempts, losses, lines)
	for _, counts := range []map[string]int{states, failures} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Printf("  %5d  %s\n", counts[name], name)
		}
	}
}

// auditHosts waits until no Job is left on any host: what is over was dropped.
func (k *soak) auditHosts() {
	left := func() (folders []string) {
		for _, h := range k.hosts {
			found, err := filepath.Glob(filepath.Join(h.Dir, "jobs", "[^.]*"))
			if err != nil {
				k.t.Fatal(err)
			}
			folders = append(folders, found...)
		}
		return folders
	}
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for len(left()) > 0 {
		select {
		case <-tick.C:
		case <-deadline.C:
			k.blame("Jobs are left on hosts though all are over: %v", left())
			return
		}
	}
}

func (k *soak) allJobs() (jobs []work.Job) {
	for before := ""; ; {
		var page struct {
			Items []work.Job `json:"items"`
			Next  string     `json:"next"`
		}
		if status, err := k.a.call("GET", "/api/v1/jobs?limit=1000"+before, nil, &page); err != nil || status != 200 {
			k.t.Fatalf("jobs: %d %v", status, err)
		}
		jobs = append(jobs, page.Items...)
		if page.Next == "" {
			return jobs
		}
		before = "&before=" + page.Next
	}
}

// auditEnd holds a Job to an end that what happened explains.
func (k *soak) auditEnd(j *work.Job) {
	switch {
	case !j.Status.Terminal(): // told already
	case j.Status == work.Succeeded:
	case j.Cancel != nil:
	case j.Status == work.Superseded:
	case j.Status == work.Failed && j.Failure != nil && allowed[j.Failure.Code]:
	default:
		k.blame("job %d (%s) is %s without a reason: %+v, losses %+v", j.Number, j.Module, j.Status, j.Failure, j.Losses)
	}
}

// effects reads what changing Steps wrote, by Job and Attempt.
func (k *soak) effects() map[string]map[int]*effect {
	b, err := os.ReadFile(k.side)
	if err != nil {
		k.t.Fatal(err)
	}
	all := map[string]map[int]*effect{}
	for line := range strings.Lines(string(b)) {
		var what, id string
		var attempt int
		if _, err := fmt.Sscanf(line, "%s %s %d", &what, &id, &attempt); err != nil {
			k.blame("what a Step wrote outside is broken: %q", line)
			continue
		}
		if all[id] == nil {
			all[id] = map[int]*effect{}
		}
		if all[id][attempt] == nil {
			all[id][attempt] = &effect{}
		}
		if what == "begin" {
			all[id][attempt].begun++
		} else {
			all[id][attempt].ended++
		}
	}
	return all
}

// auditEffects holds what a job did outside to what the server knows: a step runs once in an attempt, unless it may be started
// again and was cut off; the attempt whose changes count did all of them, and none after it; every other one that began is known as lost.
func (k *soak) auditEffects(j *work.Job, done map[int]*effect) {
	lost := map[int]work.Loss{}
	for _, l := range j.Losses {
		lost[l.Attempt] = l
	}
	applied := appliedBy(j)
	for attempt, e := range done {
		if (e.begun != 1 || e.ended > 1) && !k.again[j.Module] {
			k.blame("job %d: attempt %d began %d times and ended %d times", j.Number, attempt, e.begun, e.ended)
		}
		if _, known := lost[attempt]; !known && attempt != j.Attempt {
			k.blame("job %d: attempt %d changed something and nobody knows that it was lost: %+v", j.Number, attempt, j.Losses)
		}
		if l, known := lost[attempt]; known && l.Step != work.StepRun && l.Step != work.StepApply && attempt != applied {
			k.blame("job %d: attempt %d changed something and was lost in %q", j.Number, attempt, l.Step)
		}
		if attempt > applied {
			k.blame("job %d: attempt %d changed something although attempt %d had made all changes", j.Number, attempt, applied)
		}
	}
	if j.Status == work.Succeeded {
		if e := done[applied]; e == nil || e.ended == 0 {
			k.blame("job %d succeeded with the changes of attempt %d, which did %+v", j.Number, applied, e)
		}
	}
}

// appliedBy returns the attempt whose changes count: the last one, or an earlier one that was lost in a step after the changes, which
// leaves only that step to the attempts after it.
func appliedBy(j *work.Job) int {
	for _, l := range j.Losses {
		if l.Step == work.StepOutput {
			return l.Attempt
		}
	}
	return j.Attempt
}

// logLine is what is read of a line.
type logLine struct {
	Pos     int64  `json:"pos"`
	Attempt int    `json:"attempt"`
	Step    int    `json:"step"`
	Seq     uint64 `json:"seq"`
	Text    string `json:"text"`
}

// auditLog holds a log to be gapless: positions, sequence numbers, and what the script printed; and to be whole for the Attempt
// that succeeded. It gives the number of lines.
func (k *soak) auditLog(j *work.Job) int {
	var last int64
	seqs, printed, over := map[[2]int]uint64{}, map[int]int{}, map[int]bool{}
	for n := 0; ; {
		var page struct {
			Lines []logLine `json:"lines"`
			Last  int64     `json:"last"`
		}
		if status, err := k.a.call("GET", fmt.Sprintf("/api/v1/jobs/%s/logs?limit=10000&after=%d", j.ID, last), nil, &page); err != nil || status != 200 {
			k.blame("job %d: its log cannot be read: %d %v", j.Number, status, err)
			return n
		}
		for _, l := range page.Lines {
			k.auditLine(j, l, &last, seqs, printed, over)
		}
		n += len(page.Lines)
		if len(page.Lines) == 0 || last >= page.Last {
			if want := k.lines[j.Module]; j.Status == work.Succeeded && want > 0 && (printed[j.Attempt] != want || !over[j.Attempt]) {
				k.blame("job %d: attempt %d succeeded and its log has %d lines of %d", j.Number, j.Attempt, printed[j.Attempt], want)
			}
			return n
		}
	}
}

func (k *soak) auditLine(j *work.Job, l logLine, last *int64, seqs map[[2]int]uint64, printed map[int]int, over map[int]bool) {
	if l.Pos != *last+1 {
		k.blame("job %d: position %d follows %d in its log", j.Number, l.Pos, *last)
	}
	*last = l.Pos
	at := [2]int{l.Attempt, l.Step}
	if l.Seq != seqs[at]+1 {
		k.blame("job %d: record %d follows %d in attempt %d, step %d", j.Number, l.Seq, seqs[at], l.Attempt, l.Step)
	}
	seqs[at] = l.Seq
	if number, ok := strings.CutPrefix(l.Text, "line "); ok && k.lines[j.Module] > 0 {
		if number == "1" && k.again[j.Module] {
			printed[l.Attempt] = 0
		}
		if printed[l.Attempt]++; number != strconv.Itoa(printed[l.Attempt]) {
			printed[l.Attempt], _ = strconv.Atoi(number) // told once
			k.blame("job %d: line %s of attempt %d does not stand in its place", j.Number, number, l.Attempt)
		}
	}
	over[l.Attempt] = over[l.Attempt] || l.Text == "over"
}
