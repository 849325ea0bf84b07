package storetest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

func transactions(t *testing.T, w *world) {
	broken := errors.New("no")
	t.Run("an error undoes its own writes", func(t *testing.T) {
		err := w.s.Update(t.Context(), func(tx *store.Tx) error {
			if _, err := tx.CreateOrganization("undone"); err != nil {
				return err
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		w.fails(fault.NotFound, "an undone record", func(tx *store.Tx) error {
			_, err := tx.OrganizationByName("undone")
			return err
		})
	})
	t.Run("a panic undoes its writes and reaches the caller", func(t *testing.T) {
		func() {
			defer func() { same(t, "panic", recover(), any("out")) }()
			_ = w.s.Update(t.Context(), func(tx *store.Tx) error {
				if _, err := tx.CreateOrganization("undone"); err != nil {
					return err
				}
				panic("out")
			})
		}()
		w.update(func(tx *store.Tx) error { _, err := tx.CreateOrganization("undone"); return err })
	})
	t.Run("after a conflict the transaction goes on", func(t *testing.T) {
		w.update(func(tx *store.Tx) error {
			if _, err := tx.CreateOrganization("a"); !fault.Is(err, fault.Conflict) {
				t.Errorf("a second a gives %v", err)
			}
			renamed := w.a.vpc
			renamed.Name = "dns"
			if err := tx.PutModule(&renamed); !fault.Is(err, fault.Conflict) {
				t.Errorf("renaming over another gives %v", err)
			}
			if err := tx.DeleteStack(w.a.org.ID, w.a.stack.ID); !fault.Is(err, fault.Conflict) {
				t.Errorf("deleting a full Stack gives %v", err)
			}
			_, err := tx.CreateOrganization("c")
			return err
		})
	})
	t.Run("now stands still", func(t *testing.T) {
		w.update(func(tx *store.Tx) error {
			now := tx.Now()
			same(t, "now", tx.Now(), now)
			same(t, "location", now.Location(), time.UTC)
			same(t, "precision", now.Truncate(time.Microsecond), now)
			if d := time.Since(now); d < -time.Second || d > time.Minute {
				t.Errorf("now is %v away", d)
			}
			return nil
		})
	})
	t.Run("a view does not write", func(t *testing.T) {
		err := w.s.View(t.Context(), func(tx *store.Tx) error { _, err := tx.CreateOrganization("viewed"); return err })
		if err == nil {
			t.Error("a View wrote")
		}
		w.fails(fault.NotFound, "what a View wrote", func(tx *store.Tx) error { _, err := tx.OrganizationByName("viewed"); return err })
	})
	t.Run("a view sees one state", func(t *testing.T) {
		w.view(func(tx *store.Tx) error {
			before, err := tx.Organizations()
			if err != nil {
				return err
			}
			w.update(func(tx *store.Tx) error { _, err := tx.CreateOrganization("meanwhile"); return err })
			after, err := tx.Organizations()
			same(t, "organizations", len(after), len(before))
			return err
		})
	})
	t.Run("server keys are given once", func(t *testing.T) {
		w.fails(fault.NotFound, "a missing key", func(tx *store.Tx) error { _, err := tx.ServerKey("jwt"); return err })
		w.update(func(tx *store.Tx) error {
			first, err := tx.PutServerKey("jwt", []byte("one\x00"))
			if err != nil {
				return err
			}
			second, err := tx.PutServerKey("jwt", []byte("two"))
			same(t, "first", string(first), "one\x00")
			same(t, "second", string(second), "one\x00")
			return err
		})
	})
}

func catalogRecords(t *testing.T, w *world) {
	org := w.a.org.ID
	t.Run("what is put is read back", func(t *testing.T) {
		off, window := false, catalog.Duration(90*time.Second)
		m := catalog.Module{Identity: catalog.Identity{OrganizationID: org}, StackID: w.a.stack.ID, NamespaceID: w.a.namespace.ID, ModuleSpec: catalog.ModuleSpec{
			Stack: "prod", Namespace: "net", Name: "ünï", Engine: catalog.OpenTofu, Runner: "edge", RunnerLabels: map[string]string{"zone": "1"},
			Source: catalog.Source{Type: catalog.Inline, Files: map[string]string{"main.tf": "a\x00b\n<&>"}},
			Inputs: []catalog.Input{{Name: "n", Value: json.RawMessage(`{"a":[1,2.50,"x"]}`), Sensitive: true}},
			Limits: catalog.Limits{RecoveryWindow: &window, MaxAttempts: 3}, TriggerOnUpstreamOutputChanged: &off,
		}}
		w.update(func(tx *store.Tx) error { return tx.PutModule(&m) })
		w.view(func(tx *store.Tx) error {
			got, err := tx.Module(org, m.ID)
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(m)
			same(t, "module", string(a), string(b))
			same(t, "created", got.CreatedAt, m.CreatedAt)
			return err
		})
	})
	t.Run("a replacement keeps id and time of creation", func(t *testing.T) {
		s := w.a.stack
		s.Description, s.CreatedAt = "new", time.Time{}
		w.update(func(tx *store.Tx) error { return tx.PutStack(&s) })
		same(t, "created", s.CreatedAt, w.a.stack.CreatedAt)
		if !s.UpdatedAt.After(w.a.stack.UpdatedAt) {
			t.Error("the time of change did not move")
		}
		w.view(func(tx *store.Tx) error {
			got, err := tx.Stack(org, "prod")
			same(t, "stack", got, s)
			return err
		})
	})
	t.Run("a renamed Stack shows in the paths below it", func(t *testing.T) {
		s := w.b.stack
		s.Name = "live"
		assignment := catalog.Assignment{Identity: catalog.Identity{OrganizationID: w.b.org.ID}, RunnerID: w.b.runner.ID, StackID: s.ID, NamespaceID: w.b.namespace.ID, ModuleID: w.b.vpc.ID}
		w.update(func(tx *store.Tx) error { return errors.Join(tx.PutStack(&s), tx.PutAssignment(&assignment)) })
		w.view(func(tx *store.Tx) error {
			m, err := tx.Module(w.b.org.ID, "live/net/vpc")
			same(t, "path", m.Path(), "live/net/vpc")
			all, listErr := tx.Assignments(w.b.org.ID, w.b.runner.ID)
			if len(all) != 1 || all[0].Scope != "live/net/vpc" || all[0].Runner != "edge" || all[0].ID != assignment.ID {
				t.Errorf("assignments: %+v", all)
			}
			return errors.Join(err, listErr)
		})
	})
	t.Run("listings are narrowed and in order", func(t *testing.T) {
		w.view(func(tx *store.Tx) error {
			all, err := tx.Modules(org, store.ModuleFilter{StackID: w.a.stack.ID, NamespaceID: w.a.namespace.ID})
			var names []string
			for _, m := range all {
				names = append(names, m.Name)
			}
			same(t, "modules", strings.Join(names, " "), "dns vpc ünï")
			none, noneErr := tx.Modules(org, store.ModuleFilter{StackID: "other"})
			same(t, "modules of another Stack", len(none), 0)
			namespaces, nsErr := tx.Namespaces(org, "")
			same(t, "namespaces", len(namespaces), 1)
			return errors.Join(err, noneErr, nsErr)
		})
	})
	t.Run("deleting goes from the leaves", func(t *testing.T) {
		o := w.b
		w.fails(fault.Conflict, "a full Namespace", func(tx *store.Tx) error { return tx.DeleteNamespace(o.org.ID, o.namespace.ID) })
		w.update(func(tx *store.Tx) error {
			return errors.Join(tx.DeleteModule(o.org.ID, o.vpc.ID), tx.DeleteModule(o.org.ID, o.dns.ID), tx.DeleteNamespace(o.org.ID, o.namespace.ID),
				tx.DeleteStack(o.org.ID, o.stack.ID), tx.DeleteRunner(o.org.ID, o.runner.ID))
		})
		w.fails(fault.NotFound, "deleting twice", func(tx *store.Tx) error { return tx.DeleteStack(o.org.ID, o.stack.ID) })
		w.view(func(tx *store.Tx) error {
			left, err := tx.Assignments(o.org.ID, "")
			same(t, "assignments", len(left), 0)
			return err
		})
	})
	t.Run("what is missing", func(t *testing.T) {
		for what, fn := range map[string]func(tx *store.Tx) error{
			"Stack":     func(tx *store.Tx) error { _, err := tx.Stack(org, "x"); return err },
			"Namespace": func(tx *store.Tx) error { _, err := tx.Namespace(org, "prod/x"); return err },
			"Module":    func(tx *store.Tx) error { _, err := tx.Module(org, "prod/net/x"); return err },
			"Module id": func(tx *store.Tx) error { _, err := tx.Module(org, "x"); return err },
			"Runner":    func(tx *store.Tx) error { _, err := tx.Runner(org, "x"); return err },
			"replacing": func(tx *store.Tx) error {
				return tx.PutRunner(&catalog.Runner{Identity: catalog.Identity{ID: "x", OrganizationID: org}})
			},
			"Stack of a Namespace": func(tx *store.Tx) error {
				return tx.PutNamespace(&catalog.Namespace{Identity: catalog.Identity{OrganizationID: org}, NamespaceSpec: catalog.NamespaceSpec{Stack: "x", Name: "n"}})
			},
		} {
			w.fails(fault.NotFound, what, fn)
		}
	})
}

// tenants tries to cross from one Organization into the other, where everything has the same name.
func tenants(t *testing.T, w *world) {
	a, b := w.a, w.b
	job := w.newJob(b.vpc)
	w.view(func(tx *store.Tx) error {
		s, err := tx.Stack(a.org.ID, "prod")
		same(t, "stack", s.ID, a.stack.ID)
		m, moduleErr := tx.Module(a.org.ID, "prod/net/vpc")
		same(t, "module", m.ID, a.vpc.ID)
		all, jobsErr := tx.Jobs(a.org.ID, store.JobFilter{})
		same(t, "jobs", len(all), 0)
		modules, modulesErr := tx.Modules(a.org.ID, store.ModuleFilter{StackID: b.stack.ID})
		same(t, "modules by the other's Stack", len(modules), 0)
		queued, queuedErr := tx.QueuedOf(a.org.ID, b.vpc.ID, work.Apply)
		same(t, "a Job of the other's Module is found", queued != nil, false)
		return errors.Join(err, moduleErr, jobsErr, modulesErr, queuedErr)
	})
	theirs := catalog.Identity{OrganizationID: a.org.ID}
	for what, fn := range map[string]func(tx *store.Tx) error{
		"Stack by id":     func(tx *store.Tx) error { _, err := tx.Stack(a.org.ID, b.stack.ID); return err },
		"Namespace by id": func(tx *store.Tx) error { _, err := tx.Namespace(a.org.ID, b.namespace.ID); return err },
		"Module by id":    func(tx *store.Tx) error { _, err := tx.Module(a.org.ID, b.vpc.ID); return err },
		"Runner by id":    func(tx *store.Tx) error { _, err := tx.Runner(a.org.ID, b.runner.ID); return err },
		"Job by id":       func(tx *store.Tx) error { _, err := tx.Job(a.org.ID, job.ID); return err },
		"Job for update":  func(tx *store.Tx) error { _, err := tx.JobForUpdate(a.org.ID, job.ID); return err },
		"Job by number":   func(tx *store.Tx) error { _, err := tx.Job(a.org.ID, "1"); return err },
		"deleting a Module": func(tx *store.Tx) error {
			return tx.DeleteModule(a.org.ID, b.vpc.ID)
		},
		"deleting a Runner": func(tx *store.Tx) error { return tx.DeleteRunner(a.org.ID, b.runner.ID) },
		"replacing a Module": func(tx *store.Tx) error {
			m := b.vpc
			m.OrganizationID, m.StackID, m.NamespaceID = a.org.ID, a.stack.ID, a.namespace.ID
			return tx.PutModule(&m)
		},
		"outputs": func(tx *store.Tx) error { _, err := tx.LatestOutputs(a.org.ID, b.vpc.ID); return err },
		"outputs of its Module": func(tx *store.Tx) error {
			return tx.PutOutputSet(a.org.ID, &catalog.OutputSet{ModuleID: b.vpc.ID})
		},
		"an Instance of its Runner": func(tx *store.Tx) error {
			return tx.PutInstance(&store.Instance{OrganizationID: a.org.ID, RunnerID: b.runner.ID, Name: "i"})
		},
	} {
		w.fails(fault.NotFound, what, fn)
	}
	for what, fn := range map[string]func(tx *store.Tx) error{
		"a Namespace in its Stack": func(tx *store.Tx) error {
			return tx.PutNamespace(&catalog.Namespace{Identity: theirs, StackID: b.stack.ID, NamespaceSpec: catalog.NamespaceSpec{Name: "in"}})
		},
		"a Module in its Namespace": func(tx *store.Tx) error {
			return tx.PutModule(&catalog.Module{Identity: theirs, StackID: b.stack.ID, NamespaceID: b.namespace.ID, ModuleSpec: catalog.ModuleSpec{Name: "in"}})
		},
		"a Module in its Namespace below an own Stack": func(tx *store.Tx) error {
			return tx.PutModule(&catalog.Module{Identity: theirs, StackID: a.stack.ID, NamespaceID: b.namespace.ID, ModuleSpec: catalog.ModuleSpec{Name: "in"}})
		},
		"moving a Module there": func(tx *store.Tx) error {
			m := a.vpc
			m.StackID, m.NamespaceID = b.stack.ID, b.namespace.ID
			return tx.PutModule(&m)
		},
		"assigning its Runner": func(tx *store.Tx) error {
			return tx.PutAssignment(&catalog.Assignment{Identity: theirs, RunnerID: b.runner.ID, StackID: a.stack.ID})
		},
		"assigning an own Runner to its Stack": func(tx *store.Tx) error {
			return tx.PutAssignment(&catalog.Assignment{Identity: theirs, RunnerID: a.runner.ID, StackID: b.stack.ID})
		},
	} {
		w.fails(fault.Conflict, what, fn)
	}
}

func outputs(t *testing.T, w *world) {
	org, module := w.a.org.ID, w.a.vpc.ID
	w.fails(fault.NotFound, "no outputs yet", func(tx *store.Tx) error { _, err := tx.LatestOutputs(org, module); return err })
	for serial := int64(1); serial <= 2; serial++ {
		set := catalog.OutputSet{ModuleID: module, JobID: "j", Values: map[string]catalog.OutputValue{
			"id": {Value: json.RawMessage(`"v"`), Type: json.RawMessage(`"string"`), Sensitive: serial == 2},
		}}
		w.update(func(tx *store.Tx) error { return tx.PutOutputSet(org, &set) })
		same(t, "serial", set.Serial, serial)
		w.view(func(tx *store.Tx) error {
			got, err := tx.LatestOutputs(org, module)
			sameText(t, "outputs", got, set)
			return err
		})
	}
	w.fails(fault.NotFound, "outputs of another Module", func(tx *store.Tx) error { _, err := tx.LatestOutputs(org, w.a.dns.ID); return err })
}
