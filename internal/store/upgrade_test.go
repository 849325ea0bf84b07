package store_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"legwork/internal/store"
	"legwork/internal/work"
)

// TestUpgradeKeepsTheQueue: a database of version 4, with a Job that came back to the queue and one that is bound, goes on
// under this program: the queue can be read page by page to its end, and both Jobs have their place in it.
func TestUpgradeKeepsTheQueue(t *testing.T) {
	for name, url := range map[string]func(t testing.TB) string{"sqlite": newFile, "postgresql": postgresURL} {
		t.Run(name, func(t *testing.T) {
			at := url(t)
			created := time.Now().UTC().Add(-time.Hour).Truncate(time.Microsecond)
			came, bound := oldJob("01a1", 1, work.Queued, created), oldJob("01a2", 2, work.Running, created.Add(time.Minute))
			came.QueuedAt = created.Add(30 * time.Minute)
			old, err := store.OpenOld(t.Context(), at, 4)
			if err != nil {
				t.Fatal(err)
			}
			exec := func(query string, args ...any) {
				t.Helper()
				if _, err := old.Exec(query, args...); err != nil {
					t.Fatal(err)
				}
			}
			exec("INSERT INTO organizations (id, name, created_at) VALUES ('o', 'default', 0)")
			for phase, j := range []*work.Job{came, bound} {
				doc, err := json.Marshal(j)
				if err != nil {
					t.Fatal(err)
				}
				exec(`INSERT INTO jobs (id, org, number, module_id, action, phase, status, attempt, runner_id, instance_id, queued_at, doc)
					VALUES ($1, 'o', $2, $3, 'apply', $4, $5, 1, '', '', $6, $7)`,
					j.ID, j.Number, j.ModuleID, phase, string(j.Status), j.QueuedAt.UnixMicro(), string(doc))
			}
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			s := openAt(t, at)
			if got := pages(t, s); !slices.Equal(got, []string{came.ID}) {
				t.Fatalf("the queue is %v", got)
			}
			err = s.Update(t.Context(), func(tx *store.Tx) error { // its Instance was lost
				j, err := tx.JobForUpdate("o", bound.ID)
				if err != nil {
					return err
				}
				j.Status, j.QueuedAt = work.Queued, tx.Now()
				return tx.SaveJob(j)
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := pages(t, s); !slices.Equal(got, []string{came.ID, bound.ID}) && !slices.Equal(got, []string{bound.ID, came.ID}) {
				t.Fatalf("the queue is %v", got)
			}
		})
	}
}

func oldJob(id string, number int64, status work.Status, created time.Time) *work.Job {
	return &work.Job{ID: id, OrganizationID: "o", Number: number, Kind: work.ModuleJob, Action: work.Apply, ModuleID: "m" + id, Module: "a/b/" + id,
		Status: status, Attempt: 1, Steps: work.StepsOf("opentofu", work.Apply, false, false), CreatedAt: created, QueuedAt: created}
}

// pages reads the queue one Job at a time; each is there once.
func pages(t *testing.T, s *store.Store) (ids []string) {
	t.Helper()
	err := s.View(t.Context(), func(tx *store.Tx) error {
		for mark := (store.QueueMark{}); len(ids) < 10; {
			page, next, err := tx.QueuedJobs(mark, 1)
			if err != nil || len(page) == 0 {
				return err
			}
			ids, mark = append(ids, page[0].ID), next
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestUpgradeBindsJobsToTheKeyOfTheirInstance: a job that is bound when the server is upgraded belongs to the key that its
// instance proved last.
func TestUpgradeBindsJobsToTheKeyOfTheirInstance(t *testing.T) {
	for name, url := range map[string]func(t testing.TB) string{"sqlite": newFile, "postgresql": postgresURL} {
		t.Run(name, func(t *testing.T) {
			at := url(t)
			bound := oldJob("01a2", 2, work.Running, time.Now().UTC().Truncate(time.Microsecond))
			bound.Binding = &work.Binding{RunnerID: "r", InstanceID: "i", Instance: `"binding":{`}
			bound.CreatedBy = `"binding":{`
			doc, err := json.Marshal(bound)
			if err != nil {
				t.Fatal(err)
			}
			old, err := store.OpenOld(t.Context(), at, 24)
			if err != nil {
				t.Fatal(err)
			}
			for _, statement := range []struct {
				query string
				args  []any
			}{
				{"INSERT INTO organizations (id, name, created_at) VALUES ('o', 'default', 0)", nil},
				{`INSERT INTO runners (id, org, name, principal_id, doc, created_at, updated_at)
					VALUES ('r', 'o', 'edge', 'p', '{}', 0, 0)`, nil},
				{`INSERT INTO instances (id, org, runner_id, name, key_hash, session_id, server_id, connected, last_seen, created_at, doc)
					VALUES ('i', 'o', 'r', 'edge-1', $1, '', '', FALSE, 0, 0, '{}')`, []any{[]byte("0123456789abcdefghijklmnopqrstuv")}},
				{`INSERT INTO jobs (id, org, number, module_id, action, phase, status, attempt, runner_id, instance_id, queued_at, doc)
					VALUES ($1, 'o', 2, 'm', 'apply', 1, 'running', 1, 'r', 'i', 0, $2)`, []any{bound.ID, string(doc)}},
			} {
				if _, err := old.Exec(statement.query, statement.args...); err != nil {
					t.Fatalf("%s: %v", statement.query, err)
				}
			}
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			err = openAt(t, at).View(t.Context(), func(tx *store.Tx) error {
				j, err := tx.Job("o", bound.ID)
				if err != nil {
					return err
				}
				if want := "30313233343536373839616263646566"; j.Binding.Fingerprint != want {
					t.Errorf("fingerprint: got %q, want %q", j.Binding.Fingerprint, want)
				}
				if j.CreatedBy != bound.CreatedBy || j.Binding.Instance != bound.Binding.Instance {
					t.Errorf("texts changed: %q, %q", j.CreatedBy, j.Binding.Instance)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
