package docker

import (
	"context"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// Describe implements launcher.Launcher.
func (l *Launcher) Describe(ctx context.Context, task *work.RunnerTask) ([]string, error) {
	e, err := l.connect(ctx, task)
	if err != nil {
		return nil, err
	}
	defer e.close()
	var said []string
	for _, look := range []func(context.Context) ([]string, error){e.describeEngine, e.describeRoom, e.describeNetwork, e.describeImage, e.describeProcesses} {
		lines, err := look(ctx)
		said = append(said, lines...)
		if err != nil {
			return said, err
		}
	}
	return said, nil
}

func (e *engine) describeEngine(ctx context.Context) ([]string, error) {
	version, err := e.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return nil, e.explain(err, "tell", "its version")
	}
	name := "Docker"
	for _, c := range version.Components {
		if strings.Contains(c.Name, "Podman") {
			name = "Podman"
		}
	}
	line := fmt.Sprintf("%s %s at %s, spoken to as of API %s", name, version.Version, e.address, e.api.ClientVersion())
	if version.Os != "" && version.Os != "linux" {
		return []string{line}, fault.New(fault.Unsupported, "launcher_unsupported", "the engine at %s runs containers of %s", e.address, version.Os).
			WithHint("launch with an engine that runs containers of Linux")
	}
	return []string{line}, nil
}

// describeRoom looks whether one container finds room on an empty host.
func (e *engine) describeRoom(ctx context.Context) ([]string, error) {
	found, err := e.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, e.explain(err, "tell", "what its host has")
	}
	milli, mib := e.task.Hosting.Size.Room()
	line := fmt.Sprintf("the host has %d processors and %d MiB; each container gets %s", found.Info.NCPU, found.Info.MemTotal>>20, size(e.task.Hosting.Size))
	if (found.Info.NCPU > 0 && milli > found.Info.NCPU*1000) || (found.Info.MemTotal > 0 && int64(mib) > found.Info.MemTotal>>20) {
		return nil, fault.New(fault.Conflict, "launcher_quota", "a container of the size %s needs %s, and the host of the engine at %s has %d processors and %d MiB",
			e.task.Hosting.Size, size(e.task.Hosting.Size), e.address, found.Info.NCPU, found.Info.MemTotal>>20).WithHint("choose a smaller hosting.size, or a larger host")
	}
	return []string{line}, nil
}

func (e *engine) describeNetwork(ctx context.Context) ([]string, error) {
	var said []string
	if launcher.Loopback(e.task.ServerURL) && e.hosting.Network != "host" {
		said = append(said, fmt.Sprintf("beware: %s leads to the host itself, and containers do not reach it there: set the Server's public_url, or hosting.docker.network to host", e.task.ServerURL))
	}
	if e.hosting.Network == "" || strings.HasPrefix(e.hosting.Network, "container:") {
		return said, nil
	}
	_, err := e.api.NetworkInspect(ctx, e.hosting.Network, client.NetworkInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err):
		return said, fault.New(fault.NotFound, "launcher_network", "the engine at %s has no network %s", e.address, e.hosting.Network).
			WithHint("make it with `docker network create %s`, or name another one in hosting.docker.network", e.hosting.Network)
	case err != nil:
		return said, e.explain(err, "inspect", "the network "+e.hosting.Network)
	}
	return append(said, "containers join the network "+e.hosting.Network), nil
}

func (e *engine) describeImage(ctx context.Context) ([]string, error) {
	image := launcher.Image(e.task, e.host)
	found, err := e.api.ImageInspect(ctx, image)
	switch {
	case cerrdefs.IsNotFound(err):
		return []string{"the image " + image + " is not here yet: it is pulled with the first launch"}, nil
	case err != nil:
		return nil, e.explain(err, "inspect", "the image "+image)
	}
	said := []string{"the image " + image + " is here"}
	if found.Config != nil && e.hosting.User == "" && isRoot(found.Config.User) {
		said = append(said, "beware: it runs as root: name another user in the image, or in hosting.docker.user")
	}
	return said, nil
}

// isRoot tells whether the user of an image, name or number, perhaps with a group, is root.
func isRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	return name == "" || name == "root" || name == "0"
}

func (e *engine) describeProcesses(ctx context.Context) ([]string, error) {
	there, err := e.containers(ctx)
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("%d containers of %s are there", len(there), e.task.Runner)}, nil
}
