package control

import (
	"testing"
)

// TestMaintenanceHasAVersion: of two changes with the same version of the maintenance mode, the second is refused.
func TestMaintenanceHasAVersion(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	for _, c := range []struct {
		name   string
		on     bool
		reason string
	}{{"on", true, "first"}, {"another reason", true, "second"}, {"off", false, ""}} {
		ctx, err := s.c.RequireUnchanged(t.Context(), s.owner(), "maintenance", "")
		s.must(err)
		_, err = s.c.SetMaintenance(ctx, s.owner(), c.on, c.reason)
		wantCode(t, c.name, err, "")
		ctx, err = s.c.RequireUnchanged(t.Context(), s.owner(), "maintenance", "")
		s.must(err)
		_, err = s.c.SetMaintenance(t.Context(), s.owner(), true, "meanwhile "+c.name)
		s.must(err)
		_, err = s.c.SetMaintenance(ctx, s.owner(), c.on, c.reason)
		wantCode(t, c.name+" with the version before", err, "precondition_failed")
	}
}
