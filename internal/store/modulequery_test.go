package store

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// The lists of Modules read indices alone: of a thousand Modules with a hundred thousand Jobs each is one look-up.
func TestModuleQueriesUseIndexes(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "legwork.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for query, want := range map[string][]string{
		selectModuleHead + " ORDER BY s.name, n.name, m.name":                     {"INDEX jobs_of_module (org=? AND module_id=?)", "INDEX jobs_settled (org=? AND module_id=?)"},
		selectModuleHead + " AND m.stack_id = $2 ORDER BY s.name, n.name, m.name": {"INDEX modules_of_stack (org=? AND stack_id=?)", "INDEX jobs_settled (org=? AND module_id=?)"},
		selectModuleHead + " AND m.namespace_id = $2":                             {"INDEX jobs_of_module (org=? AND module_id=?)"},
		selectModuleHead + " AND m.id = $2":                                       {"INDEX jobs_settled (org=? AND module_id=?)"},
		selectOpenHead:                                                            {"module_id=?"},
		selectOpenHeads:                                                           {"INDEX jobs_alive (org=?)"},
		selectJob + " WHERE org = $1 AND number IN ($2, $3)":                      {"(org=? AND number=?)"},
		fmt.Sprintf(selectLatestOutputs, "$2, $3"):                                {"INDEX output_sets_of_module (org=? AND module_id=?"},
	} {
		err := s.View(t.Context(), func(tx *Tx) error {
			scan := func(r row) (text string, err error) {
				var id, parent, unused int
				err = r.Scan(&id, &parent, &unused, &text)
				return text, err
			}
			steps, err := list(tx, scan, "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "$"))...)
			plan := strings.Join(steps, "\n")
			for _, w := range want {
				if !strings.Contains(plan, w) {
					t.Errorf("%s: no %s in\n%s", query, w, plan)
				}
			}
			for _, step := range steps {
				if strings.HasPrefix(step, "SCAN") && !strings.HasPrefix(step, "SCAN s") { // Stacks are few
					t.Errorf("%s: %s", query, step)
				}
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// BenchmarkModuleHeads: a thousand Modules, ten thousand Jobs.
func BenchmarkModuleHeads(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "legwork.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var org, stack string
	err = s.Update(b.Context(), func(tx *Tx) error {
		o, err := tx.CreateOrganization("default")
		if err != nil {
			return err
		}
		org = o.ID
		st := catalog.Stack{Identity: catalog.Identity{OrganizationID: org}, StackSpec: catalog.StackSpec{Name: "prod"}}
		if err := tx.PutStack(&st); err != nil {
			return err
		}
		stack = st.ID
		for n := range 20 {
			ns := catalog.Namespace{Identity: st.Identity, NamespaceSpec: catalog.NamespaceSpec{Stack: "prod", Name: fmt.Sprint("n", n)}}
			ns.ID = ""
			if err := tx.PutNamespace(&ns); err != nil {
				return err
			}
			for i := range 50 {
				m := catalog.Module{Identity: catalog.Identity{OrganizationID: org}, ModuleSpec: catalog.ModuleSpec{Stack: "prod", Namespace: ns.Name, Name: fmt.Sprint("m", i)}}
				if err := tx.PutModule(&m); err != nil {
					return err
				}
				for k := range 10 {
					j := &work.Job{OrganizationID: org, Kind: work.ModuleJob, Action: work.Apply, ModuleID: m.ID, Module: m.Path(), Status: work.Succeeded}
					if k == 9 && i%10 == 0 {
						j.Status = work.Queued
					}
					if err := tx.InsertJob(j, JobSnapshot{}); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		begun := time.Now()
		err := s.View(b.Context(), func(tx *Tx) error {
			heads, err := tx.ModuleHeads(org, ModuleFilter{StackID: stack})
			if len(heads) != 1000 {
				b.Fatalf("%d after %s", len(heads), time.Since(begun))
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
