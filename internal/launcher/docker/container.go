package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"maps"
	"os"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

const (
	// workDir is the home of the image's user, with the working directory of the Runner: see deploy/Dockerfile. It, a volume that goes with
	// its container, and /tmp, in memory, are all that a container can write to.
	workDir = "/var/lib/legwork"

	authorityFile = "server-ca.pem" // in workDir: where a container finds the authority of its Server
)

// mostProcesses bounds the processes and threads of a container, so that a Job which only ever starts more takes no place on the host away
// from others.
const mostProcesses = int64(4096)

// containerOf describes the container of a Unit.
func (e *engine) containerOf(unit work.Unit) client.ContainerCreateOptions {
	labels := launcher.Tags(e.task)
	labels[launcher.TagUnit] = unit.Name
	told := launcher.Environment(e.task, unit)
	if e.host.CAFile != "" {
		told["LEGWORK_SERVER__CAFILE"] = workDir + "/" + authorityFile
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(told)) {
		env = append(env, name+"="+told[name])
	}
	milli, mib := e.task.Hosting.Size.Room()
	reap, seconds, most := !e.hasInit, int(grace.Seconds()), mostProcesses
	return client.ContainerCreateOptions{
		Name: unit.Name,
		Config: &container.Config{
			Image:       launcher.Image(e.task, e.host),
			Cmd:         []string{"runner", "start"},
			Env:         env,
			User:        e.hosting.User,
			Labels:      labels,
			Volumes:     map[string]struct{}{workDir: {}},
			StopTimeout: &seconds, // when the engine itself goes down
		},
		HostConfig: &container.HostConfig{
			ReadonlyRootfs: !e.hosting.Writable,
			Tmpfs:          map[string]string{"/tmp": "rw,exec,nosuid,nodev,mode=1777"},
			NetworkMode:    container.NetworkMode(e.hosting.Network),
			RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
			CapDrop:        []string{"ALL"},
			SecurityOpt:    []string{"no-new-privileges"},
			Init:           &reap,
			Resources: container.Resources{
				NanoCPUs: int64(milli) * 1e6, Memory: int64(mib) << 20, MemorySwap: int64(mib) << 20, // both together: no swap
				PidsLimit: &most,
			},
		},
	}
}

// trust puts the authority that this host trusts when it asks the Server into a container that was not started yet.
func (e *engine) trust(ctx context.Context, unit work.Unit, id string) error {
	if e.host.CAFile == "" {
		return nil
	}
	pem, err := os.ReadFile(e.host.CAFile)
	if err != nil {
		return fault.New(fault.Failed, "launcher_authority", "the authority of the Server cannot be read from %s", e.host.CAFile).WithCause(err).
			WithHint("correct Server.CaFile of the Runner that launches")
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header := tar.Header{Name: authorityFile, Mode: 0o644, Size: int64(len(pem)), Typeflag: tar.TypeReg}
	for _, write := range []func() error{func() error { return w.WriteHeader(&header) }, func() error { _, err := w.Write(pem); return err }, w.Close} {
		if err := write(); err != nil {
			return err
		}
	}
	_, err = e.api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: workDir, Content: &archive})
	return e.explain(err, "copy the Server's authority into", "the container "+unit.Name)
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
