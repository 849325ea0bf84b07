package docker

import (
	"maps"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"legwork/internal/launcher"
	"legwork/internal/work"
)

// containerOf describes the container of a Unit.
func (e *engine) containerOf(unit work.Unit) client.ContainerCreateOptions {
	labels := launcher.Tags(e.task)
	labels[launcher.TagUnit] = unit.Name
	told := launcher.Environment(e.task, unit)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(told)) {
		env = append(env, name+"="+told[name])
	}
	milli, mib := e.task.Hosting.Size.Room()
	reap, seconds := true, int(grace.Seconds())
	return client.ContainerCreateOptions{
		Name: unit.Name,
		Config: &container.Config{
			Image:       launcher.Image(e.task, e.host),
			Cmd:         []string{"runner", "start"},
			Env:         env,
			User:        e.hosting.User,
			Labels:      labels,
			StopTimeout: &seconds, // when the engine itself goes down
		},
		HostConfig: &container.HostConfig{
			NetworkMode:   container.NetworkMode(e.hosting.Network),
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			CapDrop:       []string{"ALL"},
			SecurityOpt:   []string{"no-new-privileges"},
			Init:          &reap,
			Resources:     container.Resources{NanoCPUs: int64(milli) * 1e6, Memory: int64(mib) << 20},
		},
	}
}

// stateOf gives what a state of Docker or Podman means. One that is not known is taken as alive, so that it is neither made twice nor removed.
func stateOf(s container.ContainerState) work.UnitState {
	switch s {
	case container.StateCreated, "configured", "initialized":
		return work.UnitStarting
	case container.StateExited, container.StateDead, container.StateRemoving, "stopped":
		return work.UnitStopped
	}
	return work.UnitRunning
}
