package storetest

import (
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// among asks for what is stored of several Runners at once, of one Organization and with the ids of another.
func among(t *testing.T, w *world) {
	a, b := w.a, w.b
	var hosted catalog.Runner
	w.update(func(tx *store.Tx) error {
		p := store.ServicePrincipal{OrganizationID: a.org.ID, Name: "cloud", ClientID: "cloud", Role: "runner"}
		if err := tx.PutPrincipal(&p); err != nil {
			return err
		}
		hosted = catalog.Runner{Identity: catalog.Identity{OrganizationID: a.org.ID}, ServicePrincipalID: p.ID, RunnerSpec: catalog.RunnerSpec{
			Name: "cloud", AllowMultipleInstances: true, Lifetime: catalog.Ephemeral, Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess}}}
		if err := tx.PutRunner(&hosted); err != nil {
			return err
		}
		for _, i := range []store.Instance{{OrganizationID: a.org.ID, RunnerID: hosted.ID, Name: "one"}, {OrganizationID: a.org.ID, RunnerID: hosted.ID, Name: "two"}} {
			if err := tx.PutInstance(&i); err != nil {
				return err
			}
		}
		for _, l := range []store.Launch{{Name: "one", State: store.LaunchOnline}, {Name: "two", State: store.LaunchStarting}, {Name: "old", State: store.LaunchEnded}} {
			l.OrganizationID, l.RunnerID = a.org.ID, hosted.ID
			if err := tx.InsertLaunch(&l); err != nil {
				return err
			}
		}
		if err := tx.PutRunnerState(a.org.ID, hosted.ID, store.RunnerState{Draining: true}); err != nil {
			return err
		}
		return tx.PutHosting(a.org.ID, hosted.ID, store.HostingState{Version: "1.2.3"})
	})
	ids := []string{hosted.ID, a.runner.ID, b.runner.ID}
	counts := func(tx *store.Tx, org string, ids []string) [5]int {
		runners, err1 := tx.HostedOf(org, ids)
		states, err2 := tx.StatesAmong(org, ids)
		hosting, err3 := tx.HostingAmong(org, ids)
		open, err4 := tx.OpenLaunchesAmong(org, ids)
		instances, err5 := tx.InstancesAmong(org, ids)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if err != nil {
				t.Fatal(err)
			}
		}
		draining := 0
		if states[hosted.ID].Draining {
			draining = 1
		}
		return [5]int{len(runners), draining, len(hosting), len(open[hosted.ID]), len(instances[hosted.ID])}
	}
	for _, in := range []func(func(*store.Tx) error){w.view, w.update} {
		in(func(tx *store.Tx) error {
			same(t, "of its own", counts(tx, a.org.ID, ids), [5]int{1, 1, 1, 2, 2})
			same(t, "of none", counts(tx, a.org.ID, []string{}), [5]int{})
			same(t, "of others", counts(tx, b.org.ID, ids), [5]int{})
			all, err := tx.HostedOf(a.org.ID, nil)
			same(t, "all that are hosted", len(all), 1)
			return err
		})
	}
}
