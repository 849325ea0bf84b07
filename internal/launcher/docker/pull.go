package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/lazyregexp"
)

// The pauses between two lines about a pull: they grow, so that a long one does not fill the log.
const (
	firstProgress   = 5 * time.Second
	longestProgress = time.Minute
)

// image has the engine hold the image, and pulls it where it does not. Fault "launcher_image" names an image that cannot be had.
func (e *engine) image(ctx context.Context) error {
	image := launcher.Image(e.task, e.host)
	found, err := e.api.ImageInspect(ctx, image)
	if cerrdefs.IsNotFound(err) {
		e.host.Say("the image " + image + " is not here yet: pulling it")
		if err := e.pull(ctx, image); err != nil {
			return err
		}
		found, err = e.api.ImageInspect(ctx, image)
	}
	if err != nil {
		return e.explain(err, "inspect", "the image "+image)
	}
	e.hasInit = found.Config != nil && startsInit(found.Config.Entrypoint)
	return nil
}

// inits are programs that reap what others leave behind.
var inits = []string{"tini", "tini-static", "dumb-init", "catatonit", "docker-init", "s6-svscan", "init"}

// startsInit reports whether an entrypoint begins with an init. Its container needs none of the engine's: the image's
// would not be the first process, and complain.
func startsInit(entrypoint []string) bool {
	return len(entrypoint) > 0 && slices.Contains(inits, path.Base(entrypoint[0]))
}

func (e *engine) pull(ctx context.Context, image string) error {
	awake, give := context.WithCancelCause(ctx)
	defer give(nil)
	silent := time.AfterFunc(e.silence, func() { give(errSilent) })
	defer silent.Stop()
	stream, err := e.api.ImagePull(awake, image, client.ImagePullOptions{RegistryAuth: credentials(image)})
	if err == nil {
		err = e.follow(awake, stream, image, func() { silent.Reset(e.silence) })
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case context.Cause(awake) == errSilent:
		return fault.New(fault.Unavailable, "launcher_image", "the engine at %s said nothing for %s while it pulled the image %s", e.address, e.silence, image).
			WithHint("pull it on that host with `docker pull %s` and see what holds it up", image)
	case err == nil:
		e.host.Say("the image " + image + " is here")
		return nil
	}
	return e.noImage(image, err)
}

var errSilent = errors.New("the engine fell silent")

// follow reads what the engine says of a pull up to its end, and says some of it.
func (e *engine) follow(ctx context.Context, stream client.ImagePullResponse, image string, heard func()) error {
	p := progress{layers: map[string]layer{}, next: time.Now().Add(firstProgress), pause: firstProgress}
	for m, err := range stream.JSONMessages(ctx) {
		if err != nil {
			return err
		}
		heard()
		if m.Error != nil {
			return m.Error
		}
		if line := p.take(m, time.Now()); line != "" {
			e.host.Say("pulling " + image + ": " + line)
		}
	}
	return nil
}

// progress is what is known of the layers that are pulled.
type progress struct {
	layers map[string]layer
	next   time.Time
	pause  time.Duration
}

type layer struct {
	current, total int64
	done           bool
}

// take notes a message, and gives a line when the time for one has come.
func (p *progress) take(m jsonstream.Message, now time.Time) string {
	if m.ID != "" && !strings.HasPrefix(m.Status, "Pulling from") {
		l := p.layers[m.ID]
		if m.Progress != nil && m.Status == "Downloading" {
			l.current, l.total = m.Progress.Current, max(m.Progress.Total, l.total)
		}
		l.done = l.done || m.Status == "Pull complete" || m.Status == "Already exists"
		p.layers[m.ID] = l
	}
	if now.Before(p.next) {
		return ""
	}
	p.pause = min(p.pause*2, longestProgress)
	p.next = now.Add(p.pause)
	var done int
	var current, total int64
	for _, l := range p.layers {
		if l.done {
			done++
			l.current = l.total
		}
		current, total = current+l.current, total+l.total
	}
	return fmt.Sprintf("%d of %d layers, %d of %d MiB", done, len(p.layers), current>>20, total>>20)
}

// denial is how engines and registries say that an image is missing, or not for this user: they do not tell which.
var denial = lazyregexp.New(`(?i)not found|manifest unknown|no such image|denied|unauthorized|authentication required|does not exist|name unknown|no matching manifest|invalid reference format`)

// noImage explains why an image cannot be had. What registries and networks do for a while is Retryable.
func (e *engine) noImage(image string, err error) error {
	said := saying(err)
	switch {
	case client.IsErrConnectionFailed(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return e.explain(err, "pull", "the image "+image)
	case cerrdefs.IsResourceExhausted(err), strings.Contains(said, "toomanyrequests"), strings.Contains(said, "rate limit"):
		return fault.New(fault.RateLimited, "launcher_image", "the registry limits how often the image %s is pulled: %s", image, said).WithCause(err).
			WithHint("log in to the registry on the launcher's host, or pull the image there beforehand")
	case cerrdefs.IsNotFound(err), cerrdefs.IsPermissionDenied(err), cerrdefs.IsUnauthorized(err), cerrdefs.IsInvalidArgument(err), denial.MatchString(said):
		return fault.New(fault.NotFound, "launcher_image", "there is no image %s for the engine at %s: %s", image, e.address, said).WithCause(err).
			WithHint("build or push it, name another one in hosting.image, or log in to its registry on the launcher's host (credential helpers are not asked)")
	}
	return fault.New(fault.Unavailable, "launcher_image", "the image %s could not be pulled: %s", image, said).WithCause(err).
		WithHint("check from the launcher's host that the registry answers; the default image is in no registry: build it on that host, or push it " +
			"to a registry and name it in hosting.image")
}

// credentials gives what `docker login` has written down for the registry of an image, as the engine wants it; "" without.
func credentials(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	home, _ := os.UserHomeDir()
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		dir = filepath.Join(home, ".docker")
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return ""
	}
	var config struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
	}
	if json.Unmarshal(text, &config) != nil {
		return ""
	}
	domain := reference.Domain(named)
	keys := []string{domain, "https://" + domain}
	if domain == "docker.io" {
		keys = []string{"https://index.docker.io/v1/", "index.docker.io", "docker.io"}
	}
	for _, key := range keys {
		entry, ok := config.Auths[key]
		pair, err := base64.StdEncoding.DecodeString(entry.Auth)
		if user, password, cut := strings.Cut(string(pair), ":"); ok && err == nil && cut {
			auth, _ := authconfig.Encode(registry.AuthConfig{Username: user, Password: password, IdentityToken: entry.IdentityToken, ServerAddress: key})
			return auth
		}
	}
	return ""
}
