package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

const (
	endsAtOnce = 8   // containers that are ended side by side
	lastLines  = "5" // of one that ended, for its Note
	mostNote   = 600 // bytes of a Note
)

// Ensure implements launcher.Launcher. A Unit whose container has ended is not given another one: it is reported as stopped.
func (l *Launcher) Ensure(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	if len(task.Units) == 0 {
		return nil, nil // containers share nothing
	}
	e, err := l.connect(ctx, task)
	if err != nil {
		return nil, err
	}
	defer e.close()
	there, err := e.containers(ctx)
	if err != nil {
		return nil, err
	}
	pulled := false
	var reports []work.UnitReport
	for _, unit := range task.Units {
		if !slices.ContainsFunc(there, func(c container.Summary) bool { return unitOf(c) == unit.Name }) && !pulled {
			if err := e.image(ctx); err != nil {
				return reports, err
			}
			pulled = true
		}
		report, err := e.ensure(ctx, unit, there)
		if err != nil {
			return reports, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// ensure has one container be there and be started.
func (e *engine) ensure(ctx context.Context, unit work.Unit, there []container.Summary) (work.UnitReport, error) {
	for _, c := range there {
		if unitOf(c) != unit.Name {
			continue
		}
		report := work.UnitReport{Name: unit.Name, ID: c.ID, State: stateOf(c.State)}
		switch report.State {
		case work.UnitStarting: // whoever made it did not come to start it
			return e.start(ctx, unit, c.ID)
		case work.UnitStopped:
			report.Note = e.note(ctx, c.ID)
		}
		return report, nil
	}
	made, err := e.api.ContainerCreate(ctx, e.containerOf(unit))
	if err != nil {
		return e.taken(ctx, unit, err)
	}
	for _, warning := range made.Warnings {
		e.host.Say(clip("the engine warns: "+warning, mostNote))
	}
	return e.start(ctx, unit, made.ID)
}

func (e *engine) start(ctx context.Context, unit work.Unit, id string) (work.UnitReport, error) {
	report := work.UnitReport{Name: unit.Name, ID: id, State: work.UnitRunning}
	if err := e.trust(ctx, unit, id); err != nil {
		return report, err
	}
	if _, err := e.api.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return report, e.explain(err, "start", "the container "+unit.Name)
	}
	return report, nil
}

// taken goes on when a container was not made because its name is taken: by one that was made for the same Unit in the meantime, or by a
// stranger. Podman answered 500 to that until 2026, so the name is looked up.
func (e *engine) taken(ctx context.Context, unit work.Unit, cause error) (work.UnitReport, error) {
	refused := e.explain(cause, "create", "the container "+unit.Name)
	if cerrdefs.IsNotFound(cause) {
		return work.UnitReport{}, e.noImage(launcher.Image(e.task, e.host), cause)
	}
	if !cerrdefs.IsConflict(cause) && !cerrdefs.IsInternal(cause) {
		return work.UnitReport{}, refused
	}
	found, err := e.api.ContainerInspect(ctx, unit.Name, client.ContainerInspectOptions{})
	if err != nil || found.Container.Config == nil || found.Container.State == nil {
		return work.UnitReport{}, refused
	}
	tags := launcher.Tags(e.task)
	for _, key := range []string{launcher.TagOwner, launcher.TagRunnerID} {
		if found.Container.Config.Labels[key] != tags[key] {
			return work.UnitReport{}, fault.New(fault.Conflict, "launcher_taken", "a container that is not of this Runner is called %s", unit.Name).
				WithHint("remove or rename it with `docker rename`").WithCause(cause)
		}
	}
	same := container.Summary{ID: found.Container.ID, Labels: found.Container.Config.Labels, State: found.Container.State.Status}
	return e.ensure(ctx, unit, []container.Summary{same})
}

// List implements launcher.Launcher. Containers that ended are removed once they are reported.
func (l *Launcher) List(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	e, err := l.connect(ctx, task)
	if err != nil {
		return nil, err
	}
	defer e.close()
	there, err := e.containers(ctx)
	if err != nil {
		return nil, err
	}
	var reports []work.UnitReport
	for _, c := range there {
		report := work.UnitReport{Name: unitOf(c), ID: c.ID, State: stateOf(c.State)}
		if report.State == work.UnitStopped {
			report.Note = e.note(ctx, c.ID)
			if err := e.remove(ctx, c); err != nil {
				e.host.Say(err.Error()) // the next List finds it again
			}
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// Stop implements launcher.Launcher. It returns when the containers are gone.
func (l *Launcher) Stop(ctx context.Context, task *work.RunnerTask, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return l.end(ctx, task, func(c container.Summary) bool { return slices.Contains(names, unitOf(c)) })
}

// Remove implements launcher.Launcher.
func (l *Launcher) Remove(ctx context.Context, task *work.RunnerTask) error {
	return l.end(ctx, task, func(container.Summary) bool { return true })
}

// end stops and removes containers of the Runner, each of them even when another one cannot be.
func (l *Launcher) end(ctx context.Context, task *work.RunnerTask, which func(container.Summary) bool) error {
	e, err := l.connect(ctx, task)
	if err != nil {
		return err
	}
	defer e.close()
	there, err := e.containers(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(endsAtOnce)
	for _, c := range there {
		if which(c) {
			group.Go(func() error {
				if err := e.stop(ctx, c); err != nil {
					return err
				}
				return e.remove(ctx, c)
			})
		}
	}
	return group.Wait()
}

func (e *engine) stop(ctx context.Context, c container.Summary) error {
	seconds := int(grace.Seconds())
	_, err := e.api.ContainerStop(ctx, c.ID, client.ContainerStopOptions{Timeout: &seconds})
	if err == nil || cerrdefs.IsNotFound(err) || cerrdefs.IsNotModified(err) {
		return nil
	}
	return e.explain(err, "stop", "the container "+unitOf(c))
}

// remove deletes a container and its anonymous volumes, even one that runs.
func (e *engine) remove(ctx context.Context, c container.Summary) error {
	_, err := e.api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
	if err == nil || cerrdefs.IsNotFound(err) {
		return nil
	}
	return e.explain(err, "delete", "the container "+unitOf(c))
}

// containers gives all containers of the Runner, those that ended among them.
func (e *engine) containers(ctx context.Context) ([]container.Summary, error) {
	found, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: e.mine()})
	if err != nil {
		return nil, e.explain(err, "list", "containers")
	}
	return slices.DeleteFunc(found.Items, func(c container.Summary) bool { return !e.isMine(c) }), nil
}

// isMine reports whether a container is one of the runner. An engine, or a proxy before it, that passes over the
// filter of a list must not make the launcher remove the containers of others.
func (e *engine) isMine(c container.Summary) bool {
	tags := launcher.Tags(e.task)
	for _, name := range []string{launcher.TagOwner, launcher.TagRunnerID} {
		if c.Labels[name] != tags[name] {
			return false
		}
	}
	return c.ID != "" && unitOf(c) != ""
}

func unitOf(c container.Summary) string { return c.Labels[launcher.TagUnit] }

// note says how a container ended, with its last lines. What cannot be learnt is left out.
func (e *engine) note(ctx context.Context, id string) string {
	found, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil || found.Container.State == nil {
		return "it ended"
	}
	state := found.Container.State
	note := fmt.Sprintf("ended with %d", state.ExitCode)
	switch {
	case state.OOMKilled:
		note += ": it needed more memory than its size has"
	case state.Error != "":
		note += ": " + strings.Join(strings.Fields(state.Error), " ")
	}
	if lines := e.tail(ctx, id); lines != "" {
		note += "; it said last: " + lines
	}
	return clip(note, mostNote)
}

// tail gives the last lines of a container, put into one.
func (e *engine) tail(ctx context.Context, id string) string {
	log, err := e.api.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: lastLines})
	if err != nil {
		return ""
	}
	defer log.Close()
	var out bytes.Buffer
	_, _ = stdcopy.StdCopy(&out, &out, io.LimitReader(log, 64<<10)) // what came is shown even when the rest did not
	var lines []string
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, clip(line, mostNote/3))
		}
	}
	return strings.ToValidUTF8(strings.Join(lines, " | "), "?")
}
