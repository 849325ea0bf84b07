package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// runnerDeploy makes a Runner hosted, or changes how it is, and has it deployed.
func (a *app) runnerDeploy() *cobra.Command {
	var noFollow, raw, fresh bool
	cmd := &cobra.Command{
		Use: "deploy RUNNER", Short: "Have Legwork start and stop the Instances of a Runner, and deploy it", Args: exactly("RUNNER"), ValidArgsFunction: a.completeRunners,
		Long: "Deploy a hosted Runner. What flags say of its hosting is written into its record, which is made when there is none; the rest\n" +
			"stays as it is. The Job is followed until it is over; the exit status is 0 only when it succeeded. Deploying again is no\n" +
			"harm: it finishes what broke off.\n\n" +
			"  legwork runner deploy pool --launcher process --through gate --max 5 --all-modules\n" +
			"  legwork runner deploy cloud-eu --launcher ecs --region eu-central-1 --size medium --cloud-identity aws-prod\n\n" +
			"What no flag speaks of (environment, subnets, the script of launcher exec) is said in a manifest: docs/HOSTING.md.",
	}
	hosting := a.hostingFlags(cmd)
	cmd.Flags().BoolVar(&fresh, "all-modules", false, "of a record that is made: every Module may use it, without Assignments")
	cmd.Flags().BoolVar(&noFollow, "no-follow", false, "print the number of the Job and return")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the log as the bytes it is, without headings")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		if err := hosting.write(cmd, client, args[0], fresh); err != nil {
			return err
		}
		job, err := client.DeployRunner(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return a.followRunner(cmd.Context(), client, job, noFollow, raw)
	}
	return cmd
}

// followRunner shows a Runner Job until it is over, or its number alone.
func (a *app) followRunner(ctx context.Context, client *api.Client, job *work.Job, noFollow, raw bool) error {
	if noFollow {
		_, err := fmt.Fprintf(a.Out, "#%d\n", job.Number)
		return err
	}
	fmt.Fprintf(a.Err, "Job #%d: %s %s\n", job.Number, job.Action, clean(job.Runbook))
	return a.follow(ctx, client, job, raw)
}

// hostingFlags are the flags that say how a Runner is hosted.
type hostingFlags struct {
	given               catalog.Hosting
	launcher, size      string
	idle, launchTimeout time.Duration
}

// hostingFlagNames are the flags of hostingFlags.
var hostingFlagNames = []string{"launcher", "through", "cloud-identity", "region", "size", "min", "max", "warm", "idle", "jobs-per-instance", "one-off",
	"launch-timeout", "image", "auto-update"}

func (a *app) hostingFlags(cmd *cobra.Command) *hostingFlags {
	h := &hostingFlags{}
	flags := cmd.Flags()
	flags.StringVar(&h.launcher, "launcher", "", "what starts the Instances: process, docker, kubernetes, ecs or exec")
	flags.StringVar(&h.given.Through, "through", "", "the self-hosted `Runner` that does the launcher's work; empty: the Server's own")
	flags.StringVar(&h.given.CloudIdentity, "cloud-identity", "", "the `name` of the Cloud identity that ecs works as; empty: as what its host is")
	flags.StringVar(&h.given.Region, "region", "", "of ecs, such as eu-central-1; not of process")
	flags.StringVar(&h.size, "size", "", "of an Instance's host: small (default), medium, large or xlarge; not of process")
	flags.IntVar(&h.given.Min, "min", 0, "Instances that are there always; 0: scale to zero")
	flags.IntVar(&h.given.Max, "max", catalog.DefaultMaxInstances, "most Instances at once; 0: the default")
	flags.IntVar(&h.given.Warm, "warm", 0, "free places that are kept ready")
	flags.DurationVar(&h.idle, "idle", time.Duration(catalog.DefaultIdle), "how long an Instance without a Job goes on")
	flags.IntVar(&h.given.JobsPerInstance, "jobs-per-instance", 1, "Jobs at once at one Instance")
	flags.BoolVar(&h.given.OneOff, "one-off", false, "each Instance takes one Job and ends")
	flags.DurationVar(&h.launchTimeout, "launch-timeout", time.Duration(catalog.DefaultLaunchTimeout), "in which an Instance that was started has to be online; of processes 1m")
	flags.StringVar(&h.given.Image, "image", "", "of docker, kubernetes and ecs; {version} stands for the release")
	flags.BoolVar(&h.given.AutoUpdate, "auto-update", false, "roll out a stable release as soon as it is published")
	completeWords(cmd, "launcher", catalog.LauncherKinds)
	completeWords(cmd, "size", catalog.Sizes)
	_ = cmd.RegisterFlagCompletionFunc("through", func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return a.completeRunners(cmd, nil, part)
	})
	_ = cmd.RegisterFlagCompletionFunc("cloud-identity", func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return a.completeIdentities()(cmd, nil, part)
	})
	return h
}

// completeWords offers the values of a flag that takes only some.
func completeWords[T ~string](cmd *cobra.Command, flag string, words []T) {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// write has the record say what flags do. Without flags it has to say it already.
func (h *hostingFlags) write(cmd *cobra.Command, client *api.Client, name string, allModules bool) error {
	changes := slices.ContainsFunc(hostingFlagNames, cmd.Flags().Changed)
	_, err := client.Runner(cmd.Context(), name)
	switch {
	case fault.Is(err, fault.NotFound) && changes:
		spec := catalog.RunnerSpec{Name: name, IsAssignedToAllModules: allModules}
		h.over(cmd, &spec)
		_, err := client.CreateRunner(cmd.Context(), spec)
		return err
	case err != nil || !changes:
		return err
	}
	_, err = client.ChangeRunner(cmd.Context(), name, func(spec *catalog.RunnerSpec) error {
		h.over(cmd, spec)
		return nil
	})
	return err
}

// over takes into a RunnerSpec what flags gave.
func (h *hostingFlags) over(cmd *cobra.Command, spec *catalog.RunnerSpec) {
	var hosting catalog.Hosting
	if spec.Hosting != nil {
		hosting = *spec.Hosting
	} else if spec.Lifetime == catalog.Persistent {
		spec.Lifetime = "" // of a Runner that was self-hosted
	}
	take(cmd, "launcher", catalog.LauncherKind(h.launcher), &hosting.Launcher)
	take(cmd, "through", h.given.Through, &hosting.Through)
	take(cmd, "cloud-identity", h.given.CloudIdentity, &hosting.CloudIdentity)
	take(cmd, "region", h.given.Region, &hosting.Region)
	take(cmd, "size", catalog.Size(h.size), &hosting.Size)
	take(cmd, "min", h.given.Min, &hosting.Min)
	take(cmd, "max", h.given.Max, &hosting.Max)
	take(cmd, "warm", h.given.Warm, &hosting.Warm)
	take(cmd, "idle", catalog.Duration(h.idle), &hosting.Idle)
	take(cmd, "jobs-per-instance", h.given.JobsPerInstance, &hosting.JobsPerInstance)
	take(cmd, "one-off", h.given.OneOff, &hosting.OneOff)
	take(cmd, "launch-timeout", catalog.Duration(h.launchTimeout), &hosting.LaunchTimeout)
	take(cmd, "image", h.given.Image, &hosting.Image)
	take(cmd, "auto-update", h.given.AutoUpdate, &hosting.AutoUpdate)
	spec.Hosting = &hosting
}

// runnerRemove takes a hosted Runner down.
func (a *app) runnerRemove() *cobra.Command {
	var noFollow, raw, yes bool
	cmd := &cobra.Command{
		Use: "remove RUNNER", Short: "Drain a hosted Runner, take down all that was launched for it, and delete it", Args: exactly("RUNNER"), ValidArgsFunction: a.completeRunners,
		Long: "Drain a hosted Runner, end its Instances, take down what was made for it, and delete its record. Where nothing was ever launched,\n" +
			"because its launcher never worked, 'legwork runner delete RUNNER' deletes the record alone.",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if err := a.confirm("Take down all Instances of "+args[0]+" and delete it?", yes); err != nil {
				return err
			}
			job, err := client.RemoveRunner(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.followRunner(cmd.Context(), client, job, noFollow, raw)
		},
	}
	cmd.Flags().BoolVar(&noFollow, "no-follow", false, "print the number of the Job and return")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the log as the bytes it is, without headings")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) runnerLaunches() *cobra.Command {
	limit := 0
	cmd := a.withFormat(&cobra.Command{
		Use: "launches RUNNER", Short: "List what was started for a hosted Runner, the newest first", Args: exactly("RUNNER"), ValidArgsFunction: a.completeRunners,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			launches, err := client.Launches(cmd.Context(), args[0], limit)
			if err != nil {
				return err
			}
			return a.show(launches, func() *table { return launchTable(launches, time.Now()) })
		},
	})
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "most lines, at most 1000")
	return cmd
}

func launchTable(launches []api.Launch, now time.Time) *table {
	t := &table{head: []string{"INSTANCE", "STATE", "LAUNCHED", "STARTUP", "LIFETIME", "VERSION", "WHY", "ENDED"}}
	for _, l := range launches {
		online, lasted := "-", "-"
		if !l.OnlineAt.IsZero() {
			online = took(l.OnlineAt.Sub(l.StartedAt))
		}
		if !l.EndedAt.IsZero() {
			lasted = took(l.EndedAt.Sub(l.StartedAt))
		}
		t.add(l.Name, l.State, since(l.StartedAt, now), online, lasted, orDash(l.Version), l.Why, orDash(l.EndedWhy))
	}
	return t
}

func (a *app) runnerDemand() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "demand RUNNER", Short: "Show what the Jobs of a Runner want, and what is there", Args: exactly("RUNNER"), ValidArgsFunction: a.completeRunners,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			d, err := client.Demand(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(d, func() *table { return demandDetails(d) })
		},
	})
}

func demandDetails(d api.Demand) *table {
	seconds := func(s float64) string { return took(time.Duration(s * float64(time.Second))) }
	t := &table{}
	t.add("runner", d.Runner)
	t.add("jobs waiting", fmt.Sprint(d.Waiting))
	t.add("jobs running", fmt.Sprint(d.Running))
	t.add("oldest wait", seconds(d.Oldest))
	t.add("wait", fmt.Sprintf("half of them at most %s, 95%% at most %s (of the last hour)", seconds(d.Wait.P50), seconds(d.Wait.P95)))
	i := d.Instances
	t.add("instances", fmt.Sprintf("%d online (%d idle, %d busy), %d draining, %d starting", i.Online, i.Idle, i.Busy, i.Draining, i.Starting))
	t.add("places", fmt.Sprint(d.Places))
	t.add("desired", fmt.Sprint(d.Desired))
	return t
}

// addHosting says how a Runner is hosted, and how its program stands to the newest release.
func addHosting(t *table, r api.RunnerView) {
	t.add("type", r.Type)
	if r.Hosting != nil {
		h := r.Hosting.Filled()
		t.add("launcher", string(h.Launcher)+" through "+cmp.Or(h.Through, "the Server's own runner"))
		if r.Region != "" {
			t.add("region", r.Region)
		}
		if h.CloudIdentity != "" {
			t.add("cloud identity", h.CloudIdentity)
		}
		t.add("size", string(h.Size))
		scale := fmt.Sprintf("%d to %d instances of %d, %d warm, idle for %s", h.Min, h.Max, h.JobsPerInstance, h.Warm, time.Duration(h.Idle))
		if h.OneOff {
			scale += ", one-off"
		}
		t.add("scale", scale)
	}
	t.add("version", versionMark(r.Version))
	if r.Version.Consent != "" {
		t.add("updates", r.Version.Consent)
	}
	if r.Version.UpdateHeld != "" {
		t.add("no update", r.Version.UpdateHeld)
	}
}

// versionMark is a version, with the one that it is behind, and the one that an update takes it to where that is another.
func versionMark(v api.RunnerVersion) string {
	switch {
	case v.Outdated && v.UpdateTo != "" && v.UpdateTo != v.Newest:
		return orDash(v.Version) + " (outdated: " + v.Newest + "; an update takes it to " + v.UpdateTo + ")"
	case v.Outdated:
		return orDash(v.Version) + " (outdated: " + v.Newest + ")"
	}
	return orDash(v.Version)
}
