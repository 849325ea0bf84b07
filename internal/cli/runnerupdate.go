package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// upgradeFlags is what the command runner update does where no flag says what to change in a record.
type upgradeFlags struct {
	version  string
	all      bool
	noFollow bool
}

func (r *upgradeFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.version, "version", "", "take it to this release instead of the newest that its host allows")
	cmd.Flags().BoolVar(&r.all, "all", false, "take every outdated Runner to the newest release that its host allows")
	cmd.Flags().BoolVar(&r.noFollow, "no-follow", false, "print the numbers of the update Jobs and return")
}

// wanted checks that one thing alone is asked for: that a record changes, or that programs do.
func (r *upgradeFlags) wanted(cmd *cobra.Command, args []string, record bool) (bool, error) {
	refuse := func(format string, more ...any) (bool, error) {
		return false, fault.New(fault.Invalid, "usage", format, more...).WithHint("see legwork runner update --help")
	}
	asked := slices.ContainsFunc([]string{"version", "all", "no-follow"}, cmd.Flags().Changed)
	switch {
	case record && asked:
		return refuse("a release and what changes in the record cannot be given at once")
	case r.all && len(args) > 0:
		return refuse("--all is for every Runner, and %s is one", args[0])
	case r.all && r.version != "":
		return refuse("--all takes Runners to the newest release, and --version names one")
	case !r.all && len(args) == 0:
		return refuse("RUNNER is missing, or --all")
	}
	return !record, nil
}

// updateReleases queues the update Jobs and follows them together: a line for each Runner, and an error when one failed.
func (a *app) updateReleases(ctx context.Context, r upgradeFlags, args []string) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	var updates api.Updates
	if r.all {
		updates, err = client.UpdateRunners(ctx)
	} else {
		updates, err = client.UpdateRunner(ctx, args[0], r.version)
	}
	if err != nil {
		return err
	}
	for _, runner := range slices.Sorted(maps.Keys(updates.Skipped)) {
		fmt.Fprintf(a.Err, "%s: left out: %s\n", clean(runner), clean(updates.Skipped[runner]))
	}
	if len(updates.Items) == 0 {
		fmt.Fprintln(a.Err, "Nothing is to be updated.")
		return nil
	}
	if r.noFollow {
		for _, job := range updates.Items {
			fmt.Fprintf(a.Out, "#%d\n", job.Number)
		}
		return nil
	}
	return a.followUpdates(ctx, client, updates.Items)
}

// followUpdates prints a line for each Runner as soon as all of its Jobs are over.
func (a *app) followUpdates(ctx context.Context, client *api.Client, jobs []*work.Job) error {
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	said, failed := map[string]bool{}, 0
	for {
		of := map[string][]*work.Job{}
		for i, job := range jobs {
			if !job.Status.Terminal() {
				found, err := client.Job(ctx, job.ID)
				if err != nil && ctx.Err() == nil && !fault.Is(err, fault.Unavailable) {
					return err
				}
				if err == nil {
					jobs[i] = found
				}
			}
			of[job.Runbook] = append(of[job.Runbook], jobs[i])
		}
		for _, runner := range slices.Sorted(maps.Keys(of)) {
			if said[runner] || slices.ContainsFunc(of[runner], func(j *work.Job) bool { return !j.Status.Terminal() }) {
				continue
			}
			said[runner] = true
			line, good := updated(of[runner])
			if !good {
				failed++
			}
			fmt.Fprintf(a.Out, "%s: %s\n", clean(runner), clean(line))
		}
		if len(said) == len(of) {
			break
		}
		select {
		case <-ctx.Done():
			fmt.Fprintln(a.Err, "The updates go on without being followed: legwork job list --action update")
			return alreadySaid{errInterrupted}
		case <-tick.C:
		}
	}
	if failed > 0 {
		return fault.New(fault.Conflict, "update_failed", "%d of %d runners could not be updated", failed, len(said)).WithHint("legwork job list --action update, and legwork job logs of those that failed")
	}
	return nil
}

// updated says what came of the update Jobs of one Runner.
func updated(jobs []*work.Job) (line string, good bool) {
	good = true
	var parts []string
	for _, job := range jobs {
		if job.Status == work.Succeeded {
			continue
		}
		good = false
		why := ""
		if job.Failure != nil {
			why = ": " + cmp.Or(job.Failure.Message, job.Failure.Code)
		}
		parts = append(parts, fmt.Sprintf("job #%d %s%s", job.Number, job.Status, why))
	}
	if good {
		return fmt.Sprintf("updated (job #%d)", jobs[len(jobs)-1].Number), true
	}
	return strings.Join(parts, "; "), false
}
