package store_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/store/storetest"
	"legwork/internal/work"
)

// fillForCopy makes records of many kinds: every type of column, references, values that are null.
func fillForCopy(t *testing.T, s *store.Store) {
	t.Helper()
	err := s.Update(context.Background(), func(tx *store.Tx) error {
		org, err := tx.CreateOrganization("default")
		if err != nil {
			return err
		}
		runner := catalog.Runner{Identity: catalog.Identity{OrganizationID: org.ID}, RunnerSpec: catalog.RunnerSpec{Name: "edge"}}
		if err := tx.PutRunner(&runner); err != nil {
			return err
		}
		instance := store.Instance{OrganizationID: org.ID, RunnerID: runner.ID, Name: "edge-1", KeyHash: []byte{0, 1, 255}, ServerID: "s", Connected: true, LastSeen: tx.Now()}
		if err := tx.PutInstance(&instance); err != nil {
			return err
		}
		for i := range 2500 { // more than one statement takes
			j := work.Job{OrganizationID: org.ID, Kind: work.ModuleJob, Action: work.Run, ModuleID: fmt.Sprint("m", i), Module: "prod/net/ä", Status: work.Queued}
			if err := tx.InsertJob(&j, store.JobSnapshot{}); err != nil {
				return err
			}
		}
		if err := tx.PutInstallation(store.Installation{ID: "installation"}); err != nil {
			return err
		}
		return tx.AppendEvent(store.Event{OrganizationID: org.ID, Kind: "job.queued", Subject: "x", Data: []byte(`{"a":1}`)})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func openSnapshot(t *testing.T, url string) *store.Snapshot {
	t.Helper()
	s, err := store.OpenSnapshot(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// load copies the rows of a snapshot that the loader does not have yet, but no more than most of each table.
func load(t *testing.T, s *store.Snapshot, l *store.Loader, most int64) {
	t.Helper()
	ctx := context.Background()
	for _, table := range s.Tables {
		have, done := l.Loaded(table.Name)
		if done {
			continue
		}
		var rows [][]any
		at := int64(0)
		err := s.Rows(ctx, table, func(values []any) error {
			if at++; at <= have || at > most {
				return nil
			}
			encoded, err := store.EncodeRow(values)
			if err != nil {
				return err
			}
			decoded, rest, err := store.DecodeRow(append(encoded, 7))
			if !bytes.Equal(rest, []byte{7}) {
				t.Errorf("table %s: rest of a row: got %v, want [7]", table.Name, rest)
			}
			rows = append(rows, decoded)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(ctx, table, rows, at <= most); err != nil {
			t.Fatal(err)
		}
	}
}

func sums(t *testing.T, url string) map[string]store.TableSum {
	t.Helper()
	s := openSnapshot(t, url)
	all := map[string]store.TableSum{}
	for _, table := range s.Tables {
		sum, err := s.Sum(context.Background(), table)
		if err != nil {
			t.Fatal(err)
		}
		all[table.Name] = sum
	}
	return all
}

func TestCopyToAnyDatabase(t *testing.T) {
	kinds := map[string]func(t *testing.T) string{"sqlite": func(t *testing.T) string { return newFile(t) }, "postgres": func(t *testing.T) string { return storetest.Postgres(t) }}
	for from, source := range kinds {
		for to, target := range kinds {
			t.Run(from+" to "+to, func(t *testing.T) { copyDatabase(t, source(t), target(t)) })
		}
	}
}

func copyDatabase(t *testing.T, from, to string) {
	ctx := context.Background()
	source := openAt(t, from)
	fillForCopy(t, source)
	snapshot := openSnapshot(t, from)
	// What the source stores from here on is not part of the snapshot.
	err := source.Update(ctx, func(tx *store.Tx) error { _, err := tx.CreateOrganization("late"); return err })
	if err != nil {
		t.Fatal(err)
	}
	first, err := store.OpenLoader(ctx, to, "a", snapshot.Schema)
	if err != nil {
		t.Fatal(err)
	}
	load(t, snapshot, first, 1700)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(ctx, to, slog.New(slog.DiscardHandler)); fault.Code(err) != "import_unfinished" {
		t.Errorf("opening a database that is filled in part: got %v, want import_unfinished", err)
	}
	if _, err := store.OpenLoader(ctx, to, "b", snapshot.Schema); fault.Code(err) != "import_other" {
		t.Errorf("filling it from another source: got %v, want import_other", err)
	}
	again, err := store.OpenLoader(ctx, to, "a", snapshot.Schema)
	if err != nil {
		t.Fatal(err)
	}
	load(t, snapshot, again, 1<<40)
	for _, table := range snapshot.Tables {
		want, err := snapshot.Sum(ctx, table)
		if err != nil {
			t.Fatal(err)
		}
		if rows, done := again.Loaded(table.Name); rows != want.Rows || !done {
			t.Errorf("table %s: got %d rows, done %v; want %d, true", table.Name, rows, done, want.Rows)
		}
	}
	if err := again.Finish(ctx, "restored"); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	target := openAt(t, to)
	compareCopy(t, snapshot, sums(t, to))
	err = target.View(ctx, func(tx *store.Tx) error {
		i, err := tx.Installation()
		if err == nil && (i.ID != "installation" || i.Hold == nil || i.Hold.Reason != "restored" || i.Hold.Applied) {
			t.Errorf("installation: got %+v %+v", i, i.Hold)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	eventsFollow(t, target)
	if _, err := store.OpenLoader(ctx, to, "a", snapshot.Schema); err == nil {
		t.Error("a database that is in use was filled again")
	}
}

// compareCopy compares all tables that are the same in a copy.
func compareCopy(t *testing.T, source *store.Snapshot, target map[string]store.TableSum) {
	t.Helper()
	for _, table := range source.Tables {
		if table.Name == "installation" || table.Name == "instances" {
			continue
		}
		want, err := source.Sum(context.Background(), table)
		if err != nil {
			t.Fatal(err)
		}
		if got := target[table.Name]; got != want {
			t.Errorf("table %s: got %+v, want %+v", table.Name, got, want)
		}
	}
}

// eventsFollow checks that new events get higher ids than those that were copied.
func eventsFollow(t *testing.T, s *store.Store) {
	t.Helper()
	var before, after int64
	err := s.Update(context.Background(), func(tx *store.Tx) (err error) {
		if before, err = tx.Position(); err != nil {
			return err
		}
		if err := tx.AppendEvent(store.Event{OrganizationID: "x", Kind: "k", Subject: "s", Data: []byte("{}")}); err != nil {
			return err
		}
		after, err = tx.Position()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if after <= before {
		t.Errorf("id of the next event: got %d, want more than %d", after, before)
	}
}

func TestClearedDatabaseCanBeFilled(t *testing.T) {
	for name, url := range map[string]string{"sqlite": newFile(t), "postgres": storetest.Postgres(t)} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s, err := store.Open(ctx, url, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			fillForCopy(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			snapshot := openSnapshot(t, url)
			if err := snapshot.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := store.OpenLoader(ctx, url, "a", snapshot.Schema); fault.Code(err) != "database_not_empty" {
				t.Errorf("filling a database that is in use: got %v, want database_not_empty", err)
			}
			if _, err := store.Clear(ctx, url); err != nil {
				t.Fatal(err)
			}
			l, err := store.OpenLoader(ctx, url, "a", snapshot.Schema)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
