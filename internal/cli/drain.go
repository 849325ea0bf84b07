package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/fault"
)

// drainLook is how often a command that waits for a drain looks.
const drainLook = 500 * time.Millisecond

func (a *app) runnerDrain() *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "drain RUNNER[/INSTANCE]", Short: "Let a Runner, or one Instance, take no further Job", Args: exactly("RUNNER[/INSTANCE]"), ValidArgsFunction: a.completeRunners,
		Long: "Let a Runner, or one Instance of it, take no further Job. Jobs that it has go on. It holds over restarts of the\n" +
			"processes, until 'legwork runner resume'. Instances that connect to a draining Runner drain, too.\n" +
			"When the command ends no further Job comes; with --wait, none is running there either.",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if err := setDraining(cmd.Context(), client, args[0], true); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s takes no new jobs\n", clean(args[0]))
			if !wait {
				return nil
			}
			return waitDrained(cmd.Context(), client, args[0], timeout)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until no Job is running there")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: give up waiting after this time; it drains on")
	return cmd
}

func (a *app) runnerResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume RUNNER[/INSTANCE]", Short: "Let a Runner, or one Instance, take Jobs again after a drain", Args: exactly("RUNNER[/INSTANCE]"),
		ValidArgsFunction: a.completeRunners,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if err := setDraining(cmd.Context(), client, args[0], false); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s takes jobs again\n", clean(args[0]))
			return nil
		},
	}
}

func (a *app) instanceRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove RUNNER/INSTANCE", Short: "Forget an Instance that will not come back", Args: exactly("RUNNER/INSTANCE"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			runner, name, ok := strings.Cut(args[0], "/")
			if !ok || name == "" {
				return fault.New(fault.Invalid, "usage", "%q names no Instance", args[0]).WithHint("write RUNNER/INSTANCE; 'legwork runner show %s' lists its Instances", runner)
			}
			i, err := instanceNamed(cmd.Context(), client, runner, name)
			if err != nil {
				return err
			}
			if err := client.RemoveInstance(cmd.Context(), i.ID); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "removed instance %s\n", clean(args[0]))
			return nil
		},
	}
}

// instanceNamed finds an Instance by its name among those of a Runner.
func instanceNamed(ctx context.Context, client *api.Client, runner, name string) (api.Instance, error) {
	all, err := client.Instances(ctx, runner)
	if err != nil {
		return api.Instance{}, err
	}
	for _, i := range all {
		if i.Name == name {
			return i, nil
		}
	}
	return api.Instance{}, fault.New(fault.NotFound, "instance_not_found", "the runner %s has no Instance %q", runner, name).
		WithHint("'legwork runner show %s' lists its Instances", runner)
}

func setDraining(ctx context.Context, client *api.Client, target string, drain bool) error {
	runner, name, one := strings.Cut(target, "/")
	if !one {
		return client.SetRunnerDraining(ctx, runner, drain)
	}
	i, err := instanceNamed(ctx, client, runner, name)
	if err != nil {
		return err
	}
	return client.SetDraining(ctx, i.ID, drain)
}

// waitDrained waits until no Job takes a place at a Runner or one of its Instances.
func waitDrained(ctx context.Context, client *api.Client, target string, timeout time.Duration) error {
	looks := ctx // of which the first is not cut short by the time: what still runs is said in any case
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errDrainLate)
		defer cancel()
	}
	for active := 0; ; looks = ctx {
		now, err := activeAt(looks, client, target)
		if err == nil {
			active = now
		}
		if err == nil && active == 0 {
			return nil
		}
		if err != nil && context.Cause(looks) == nil {
			return err
		}
		timer := time.NewTimer(drainLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if context.Cause(ctx) != errDrainLate {
				return ctx.Err()
			}
			return errDrainLate.WithHint("%s: it takes no further Job; wait again with the same command", stillRunning(target, active))
		}
	}
}

// activeAt counts the Jobs that take a place at a Runner or one of its Instances.
func activeAt(ctx context.Context, client *api.Client, target string) (active int, err error) {
	runner, name, one := strings.Cut(target, "/")
	all, err := client.Instances(ctx, runner)
	for _, i := range all {
		if !one || i.Name == name {
			active += i.Active
		}
	}
	return active, err
}

var errDrainLate = fault.New(fault.Conflict, "drain_timeout", "Jobs are still running there after the time that --timeout gives")

func stillRunning(target string, active int) string {
	return fmt.Sprintf("%d at %s", active, target)
}
