package control

import (
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// launchedThrough refuses a hosted Runner whose launcher's work nobody would do: it is done by a Runner that somebody starts.
func launchedThrough(tx *store.Tx, org string, spec catalog.RunnerSpec) error {
	if spec.Hosting == nil {
		return nil
	}
	all, err := tx.Runners(org)
	if err != nil {
		return err
	}
	through := spec.Hosting.Through
	known := through == ""
	for _, r := range all {
		switch {
		case r.Hosting != nil && r.Hosting.Through == spec.Name && r.Name != spec.Name:
			return throughFault("the runner %s is launched through %s, which so cannot be hosted", r.Name, spec.Name)
		case through != r.Name:
		case r.Hosting != nil || r.Name == spec.Name:
			return throughFault("the runner %s is hosted itself", through)
		default:
			known = true
		}
	}
	if !known {
		return throughFault("there is no runner %s", through)
	}
	return regionOf(tx, org, *spec.Hosting)
}

// regionOf refuses a hosted Runner whose launcher would not know where to work. That the identity is there is for identityKnown to say.
func regionOf(tx *store.Tx, org string, h catalog.Hosting) error {
	if h.CloudIdentity == "" {
		return nil
	}
	i, err := tx.CloudIdentity(org, h.CloudIdentity)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err == nil && h.Launcher == catalog.LaunchECS && h.Region == "" && i.Region == "":
		return fault.New(fault.Invalid, "runner_region", "neither the hosting nor the cloud identity %s names a region", i.Name).
			WithHint("say hosting.region, such as eu-central-1").WithDetails(fault.Problem{Field: "hosting.region", Message: "is missing"})
	}
	return err
}

func throughFault(format string, args ...any) error {
	f := fault.New(fault.Invalid, "runner_through", format, args...)
	return f.WithHint("hosting.through names a Runner that somebody starts; left out, the Server's own does the work").
		WithDetails(fault.Problem{Field: "hosting.through", Message: f.Message})
}
