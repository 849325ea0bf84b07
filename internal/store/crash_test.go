package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"legwork/internal/store"
	"legwork/internal/work"
)

// crashRounds is how often the child is killed.
const crashRounds = 12

// TestCrash kills a process in the middle of its Updates, again and again: what it was told to be stored is there
// afterwards, whole, and the database opens without complaint.
func TestCrash(t *testing.T) {
	path := newFile(t)
	acknowledged, rounds := map[string]uint64{}, crashRounds
	for round := range rounds {
		acks := crash(t, path, time.Duration(20+rand.IntN(150))*time.Millisecond)
		for job, next := range acks {
			acknowledged[job] = next
		}
		verify(t, path, acknowledged)
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
	if len(acknowledged) == 0 {
		t.Error("nothing was ever acknowledged")
	}
}

// crash runs the child for a while after its first word and gives what it acknowledged: how much of the log of which Job.
func crash(t *testing.T, path string, after time.Duration) map[string]uint64 {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), "LEGWORK_CRASH_DATABASE="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acks := map[string]uint64{}
	lines := bufio.NewReader(out)
	var kill *time.Timer
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // a line that was cut is no word
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		if kill == nil {
			kill = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
		job, next, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(next, 10, 64)
		if !ok || err != nil {
			t.Fatalf("the child said %q", line)
		}
		acks[job] = n
	}
	if err := cmd.Wait(); err == nil || kill == nil {
		t.Fatalf("the child was not killed: %v", err)
	}
	return acks
}

// verify looks for everything that was acknowledged.
func verify(t *testing.T, path string, acknowledged map[string]uint64) {
	t.Helper()
	s := openAt(t, path)
	err := s.View(t.Context(), func(tx *store.Tx) error {
		orgs, err := tx.Organizations()
		if err != nil {
			return err
		}
		for job, next := range acknowledged {
			j, err := tx.Job(orgs[0].ID, job)
			if err != nil {
				return err
			}
			heads, err := tx.LogHeads(job, 0, 1)
			if err != nil {
				return err
			}
			if len(heads) != 1 || heads[0].Next < next || uint64(j.Attempt) != heads[0].Next-1 {
				t.Errorf("of Job %d %d records were acknowledged; stored is %+v, the Job says %d", j.Number, next-1, heads, j.Attempt)
			}
			last, err := tx.ReadLog(job, int64(next)-2, 1)
			if err != nil {
				return err
			}
			if len(last) != 1 || string(last[0].Data) != fmt.Sprint("line ", next-1) {
				t.Errorf("the last record of Job %d is %+v", j.Number, last)
			}
		}
		events, err := tx.EventsAfter(orgs[0].ID, 0, 1)
		if len(acknowledged) > 0 && len(events) == 0 {
			t.Error("there is no event")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestCrashChild is the process that TestCrash kills. Many goroutines write a Job each, with an event, a log record and
// the Job's own document in one Update, and say so when it is stored.
func TestCrashChild(t *testing.T) {
	path := os.Getenv("LEGWORK_CRASH_DATABASE")
	if path == "" {
		t.Skip("TestCrash runs this")
	}
	s, err := store.Open(context.Background(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	org := ""
	err = s.Update(context.Background(), func(tx *store.Tx) error {
		all, err := tx.Organizations()
		if err == nil && len(all) == 0 {
			o, createErr := tx.CreateOrganization("default")
			all, err = append(all, o), createErr
		}
		org = all[0].ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	for range 12 {
		go func() { failed <- writeForEver(s, org) }()
	}
	t.Fatal(<-failed)
}

func writeForEver(s *store.Store, org string) error {
	j := &work.Job{OrganizationID: org, Status: work.Queued}
	if err := s.Update(context.Background(), func(tx *store.Tx) error { return tx.InsertJob(j, store.JobSnapshot{}) }); err != nil {
		return err
	}
	for next := uint64(1); ; {
		err := s.Update(context.Background(), func(tx *store.Tx) (err error) {
			record := work.Record{Time: tx.Now(), Stream: work.Stdout, Data: fmt.Append(nil, "line ", next)}
			a, err := tx.AppendLog(j.ID, store.LogKey{Attempt: 1}, next, []work.Record{record})
			if err != nil {
				return err
			}
			next = a.Next
			stored, err := tx.JobForUpdate(j.OrganizationID, j.ID)
			if err != nil {
				return err
			}
			stored.Attempt = int(next - 1)
			return errors.Join(tx.SaveJob(stored), tx.AppendEvent(store.Event{OrganizationID: org, Kind: "line", Subject: j.ID}))
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("%s %d\n", j.ID, next); err != nil {
			return err
		}
	}
}
