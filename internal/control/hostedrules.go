package control

import (
	"fmt"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// launchedThrough refuses to have Runner r be hosted when somebody's processes are at work for it, and a hosted Runner whose launcher's work
// nobody would do: it is done by a Runner that somebody starts.
func launchedThrough(tx *store.Tx, org string, r catalog.Runner, spec catalog.RunnerSpec) error {
	if spec.Hosting == nil {
		return nil
	}
	if err := nobodys(tx, org, r); err != nil {
		return err
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

// nobodys refuses to host a Runner that is not hosted yet while Instances of it are connected that no launcher started: none could end them.
func nobodys(tx *store.Tx, org string, r catalog.Runner) error {
	if r.ID == "" || r.Hosting != nil {
		return nil
	}
	instances, err := tx.Instances(org, r.ID)
	if err != nil {
		return err
	}
	var names []string
	for _, i := range instances {
		if !i.Connected {
			continue
		}
		_, launched, err := tx.LaunchNamed(org, r.ID, i.Name)
		if err != nil {
			return err
		}
		if !launched {
			names = append(names, i.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	said := strings.Join(names[:min(len(names), 3)], ", ")
	if more := len(names) - 3; more > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	return fault.New(fault.Conflict, "runner_self_hosted", "runner %s has processes that somebody started, which are connected: %s", r.Name, said).
		WithHint("name another Runner, or stop its processes first").
		WithDetails(fault.Problem{Field: "hosting", Message: "is not for a Runner whose processes somebody starts"})
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
