// Package docker launches Runner processes as containers of Docker's engine, or of Podman's through the socket with which it serves the
// same API.
//
// One Unit is one container. It is called as its Unit, bears launcher.Tags and launcher.TagUnit as labels, and runs
// `legwork runner start`, below one init that reaps what Jobs leave behind: that of the image, otherwise the
// engine's. It may not gain privileges, has no kernel capabilities, and has the processors and the memory of its
// catalog.Size. Of its file system it can write to /var/lib/legwork, a volume, where the Runner works, and to /tmp,
// unless hosting says that it can to all. It is root where neither hosting nor the image names another user: Describe
// warns of that. It is not started again when it ends, and stays until it was seen: List gives its exit status and
// its last lines as the Note of its report, and removes it with its anonymous volumes. Images that were pulled stay
// on the host: they are its cache.
//
// # What it asks of the engine
//
// Version, info, containers (list, inspect, create, start, stop, logs, delete, and archive, by which the
// authority of a Server comes in that has one of its own), images (inspect, create, which is pull) and, of a network
// that is named, inspect: calls that are in Docker's API since 1.40 and in what Podman serves. The version is negotiated. Who may use the
// socket of an engine is as good as root on its host, unless the engine runs rootless: that right belongs to the Runner that launches
// and not to the Server.
//
// Registries: the credentials that `docker login` has written into config.json are sent along; programs that keep credentials
// (credsStore, credHelpers) are not asked. Podman looks into a file of its own.
//
// # What was never tried
//
// This launcher was developed without an engine at hand, neither Docker nor Podman: it was run with the vendor's client (moby/client)
// against a local server, in this package's tests, that holds state and answers as the engine's API reference (swagger.yaml, 1.40 to 1.56)
// documents. That server starts no processes. Where its fidelity is in doubt: the wording of errors, by which an image that is denied or
// missing is told from a registry that fails in the middle of a pull; the status 500 with which older Podmans answer a name that is taken
// (both are taken as one); and Podman's names of states, of which all that it documents are known here.
package docker

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

const (
	grace       = 30 * time.Second // that a process has to end when it is told to
	pullSilence = 5 * time.Minute  // of an engine that pulls, before it is given up
)

// Launcher starts containers. It implements launcher.Launcher.
type Launcher struct {
	host    launcher.Host
	silence time.Duration
	dial    func(ctx context.Context, network, addr string) (net.Conn, error) // nil: as the client does
}

// New makes a launcher. It touches nothing: the engine is asked from the first call on.
func New(host launcher.Host) (launcher.Launcher, error) {
	return &Launcher{host: host, silence: pullSilence}, nil
}

// engine is a connection to the engine of a task.
type engine struct {
	*Launcher
	api     *client.Client
	task    *work.RunnerTask
	hosting catalog.DockerHosting
	address string
	hasInit bool // the image begins with an init; known once it was looked at
}

// connect finds the engine and settles in which version it is spoken to. Fault "launcher_unreachable" when nobody answers, and
// "launcher_denied" when its socket may not be used.
func (l *Launcher) connect(ctx context.Context, task *work.RunnerTask) (*engine, error) {
	e := &engine{Launcher: l, task: task}
	if task.Hosting != nil && task.Hosting.Docker != nil {
		e.hosting = *task.Hosting.Docker
	}
	e.address = cmp.Or(e.hosting.Host, os.Getenv(client.EnvOverrideHost), client.DefaultDockerHost)
	if scheme, _, _ := strings.Cut(e.address, "://"); scheme == "ssh" {
		return nil, fault.New(fault.Invalid, "launcher_host", "an engine is not reached by SSH: %s", e.address).
			WithHint("run the Runner that launches on that host, and name it in hosting.through")
	}
	options := []client.Opt{client.WithTLSClientConfigFromEnv(), client.WithHost(e.address), client.WithUserAgent("legwork/" + l.host.Version)}
	if l.dial != nil {
		options = append(options, client.WithDialContext(l.dial))
	}
	api, err := client.New(options...)
	if err != nil {
		return nil, fault.New(fault.Invalid, "launcher_host", "the engine at %s cannot be reached as it is configured: %v", e.address, err).
			WithHint("set hosting.docker.host to unix:///path or tcp://host:port; certificates come by DOCKER_TLS_VERIFY and DOCKER_CERT_PATH")
	}
	e.api = api
	// The client negotiates by itself, but passes over that this failed and then speaks a version which the engine may not know.
	if _, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		api.Close()
		return nil, e.explain(err, "ping", "the engine")
	}
	return e, nil
}

func (e *engine) close() { e.api.Close() }

// mine selects the containers of the task's Runner.
func (e *engine) mine() client.Filters {
	tags := launcher.Tags(e.task)
	filters := client.Filters{}
	for _, key := range []string{launcher.TagOwner, launcher.TagRunnerID} {
		filters.Add("label", key+"="+tags[key])
	}
	return filters
}

// size says what a Size is, for people.
func size(s catalog.Size) string {
	milli, mib := s.Room()
	return fmt.Sprintf("%g processors and %d MiB", float64(milli)/1000, mib)
}
