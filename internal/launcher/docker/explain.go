package docker

import (
	"context"
	"errors"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"legwork/internal/fault"
)

// explain makes a fault of what the client says. verb and resource name the call: "create", "the container x". Those that pass by
// themselves are Retryable.
func (e *engine) explain(err error, verb, resource string) error {
	var known *fault.Fault
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	if client.IsErrConnectionFailed(err) || errors.Is(err, context.DeadlineExceeded) {
		return e.unreachable(err)
	}
	said := saying(err)
	f := func(kind fault.Kind, code string) *fault.Fault {
		return fault.New(kind, code, "the engine at %s does not %s %s: %s", e.address, verb, resource, said).WithCause(err)
	}
	switch {
	case cerrdefs.IsPermissionDenied(err), cerrdefs.IsUnauthorized(err):
		return fault.New(fault.Forbidden, "launcher_denied", "the engine at %s denies to %s %s: %s", e.address, verb, resource, said).WithCause(err).
			WithHint("have the engine's authorization allow this process to %s %s", verb, strings.TrimPrefix(resource, "the "))
	case strings.Contains(said, "range of CPUs"), strings.Contains(said, "No space left"), strings.Contains(said, "no space left"):
		return f(fault.Conflict, "launcher_quota").WithHint("choose a smaller hosting.size or a larger host, or make room on its disk")
	case cerrdefs.IsResourceExhausted(err):
		return f(fault.RateLimited, "launcher_throttled")
	case cerrdefs.IsConflict(err):
		return f(fault.Unavailable, "launcher_conflict")
	case cerrdefs.IsNotFound(err):
		return f(fault.NotFound, "launcher_missing")
	case cerrdefs.IsNotImplemented(err):
		return f(fault.Unsupported, "launcher_unsupported").WithHint("launch with an engine that serves Docker's API 1.40 or newer")
	case cerrdefs.IsInvalidArgument(err), cerrdefs.IsFailedPrecondition(err):
		return f(fault.Invalid, "launcher_refused")
	}
	return f(fault.Unavailable, "launcher_failing")
}

// unreachable tells a socket that may not be opened from one where nobody listens.
func (e *engine) unreachable(err error) error {
	if said := saying(err); strings.Contains(said, "permission denied") {
		return fault.New(fault.Forbidden, "launcher_denied", "this process may not open the engine's socket %s", e.address).WithCause(err).
			WithHint("have the user of the Runner that launches be of the group that owns the socket, or run a rootless engine as that user")
	}
	return fault.New(fault.Unavailable, "launcher_unreachable", "no engine answers at %s", e.address).WithCause(err).
		WithHint("start Docker, or Podman's socket with `systemctl --user start podman.socket`, and name it in hosting.docker.host or DOCKER_HOST")
}

// saying gives the engine's own sentence, bounded, on one line.
func saying(err error) string {
	said := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	return clip(strings.Join(strings.Fields(said), " "), 400)
}

// clip bounds a text; it never splits a character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
