package control

import (
	"context"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// TestRunnerOfSomebodyIsNotHosted: a record whose processes somebody started becomes hosted only when they are gone, whoever asks.
func TestRunnerOfSomebodyIsNotHosted(t *testing.T) {
	s, ctx := newWorld(t).serve(Limits{}), context.Background()
	r := s.runner(s.owner(), catalog.RunnerSpec{Name: "edge"})
	f := s.fake(r, "host-1").online(s)
	spec := r.RunnerSpec
	spec.Hosting, spec.Lifetime = &catalog.Hosting{Launcher: catalog.LaunchProcess}, ""

	_, err := s.c.UpdateRunner(ctx, s.owner(), r.ID, spec)
	if fault.Code(err) != "runner_self_hosted" || !strings.Contains(err.Error(), "host-1") || !strings.Contains(fault.Of(err).Hint, "name another Runner") {
		t.Errorf("by its record: %v", err)
	}
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "m.yaml", Data: []byte("kind: Runner\nname: edge\nis_assigned_to_all_modules: true\nhosting: {launcher: process}\n")}})
	s.must(err)
	if _, err = s.c.ApplyManifest(ctx, s.owner(), m, false); fault.Code(err) != "runner_self_hosted" {
		t.Errorf("by a manifest: %v", err)
	}

	f.cut()
	eventually(t, "it is gone, and the Runner is hosted", func() bool {
		_, err = s.c.UpdateRunner(ctx, s.owner(), r.ID, spec)
		return err == nil
	})
	spec.Description = "of nobody"
	if _, err := s.c.UpdateRunner(ctx, s.owner(), r.ID, spec); err != nil {
		t.Errorf("changed while it is hosted: %v", err)
	}
}
