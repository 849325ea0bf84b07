package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// specFlags are the flags of runnerSpecFlags.
var specFlags = []string{"all-modules", "multiple", "disabled", "label", "description", "os", "lifetime", "selection", "max-parallel-jobs", "webhook",
	"service-principal", "node-filter", "node-priority"}

// runnerSpecFlags gives a command the flags that say what a Runner's record holds, and what writes those that were given into a
// RunnerSpec. What no flag speaks of stays as it is.
func (a *app) runnerSpecFlags(cmd *cobra.Command) func(context.Context, *catalog.RunnerSpec) error {
	var given catalog.RunnerSpec
	var system, selection, lifetime, principal string
	var filters []string
	flags := cmd.Flags()
	flags.BoolVar(&given.IsAssignedToAllModules, "all-modules", false, "every Module may use it, without Assignments")
	flags.BoolVar(&given.AllowMultipleInstances, "multiple", false, "several processes may connect as this Runner, each as an Instance of its own")
	flags.BoolVar(&given.IsDisabled, "disabled", false, "it takes no Jobs")
	flags.StringToStringVar(&given.Labels, "label", nil, "labels, as key=value")
	flags.StringVar(&given.Description, "description", "", "what it is for")
	flags.StringVar(&system, "os", "", "operating system of its Instances, others are refused; empty: that of the first one")
	flags.StringVar(&lifetime, "lifetime", "", "of its Instances: persistent (default) or ephemeral, gone when its work is done; ephemeral sets --multiple")
	flags.StringVar(&selection, "selection", "", "which Instance takes a Job: first_response (default), least_loaded or random")
	flags.IntVar(&given.MaxParallelJobs, "max-parallel-jobs", 0, "most Jobs at once over all Instances; 0 for no limit")
	flags.StringVar(&given.Webhook, "webhook", "", "`URL` that is called, signed, when a Job waits and no Instance is online; empty: none")
	flags.StringArrayVar(&filters, "node-filter", nil, "`STACK=FILTER`: which Nodes of a Stack it takes, repeatable; an empty filter takes the Stack's away")
	flags.IntVar(&given.NodePriority, "node-priority", 0, "of several Runners that would take a Node the lowest number does, then the first by name")
	flags.StringVar(&principal, "service-principal", "", "log in as this Service principal, of role runner, instead of one of its own")
	a.completeRunnerSpec(cmd)
	return func(ctx context.Context, spec *catalog.RunnerSpec) error {
		given.OS, given.Selection, given.Lifetime = catalog.OS(system), catalog.Selection(selection), catalog.Lifetime(lifetime)
		overwrite(cmd, given, spec)
		if err := filterNodes(filters, spec); err != nil {
			return err
		}
		return a.findPrincipal(ctx, principal, spec)
	}
}

// completeRunnerSpec offers the values of the flags that take only some.
func (a *app) completeRunnerSpec(cmd *cobra.Command) {
	systems := make([]string, len(catalog.OSes))
	for i, system := range catalog.OSes {
		systems[i] = string(system)
	}
	for flag, values := range map[string][]string{
		"os":        systems,
		"lifetime":  {string(catalog.Persistent), string(catalog.Ephemeral)},
		"selection": {string(catalog.FirstResponse), string(catalog.LeastLoaded), string(catalog.Random)},
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
	_ = cmd.RegisterFlagCompletionFunc("service-principal", a.completePrincipals) // the flag is there
}

// filterNodes takes over "STACK=FILTER" by "STACK=FILTER". The Server says what is wrong with a filter.
func filterNodes(given []string, spec *catalog.RunnerSpec) error {
	filters := maps.Clone(spec.NodeFilters)
	if filters == nil {
		filters = map[string]string{}
	}
	for _, text := range given {
		stack, filter, ok := strings.Cut(text, "=")
		if !ok || stack == "" {
			return fault.New(fault.Invalid, "usage", "--node-filter %q is no STACK=FILTER", text).WithHint("write --node-filter 'prod=tags: web', or 'prod=*' for all Nodes of the Stack")
		}
		if filters[stack] = filter; strings.TrimSpace(filter) == "" {
			delete(filters, stack)
		}
	}
	spec.NodeFilters = filters
	return nil
}

// overwrite takes into a RunnerSpec what flags gave. Labels are added to those that are there.
func overwrite(cmd *cobra.Command, given catalog.RunnerSpec, spec *catalog.RunnerSpec) {
	take(cmd, "all-modules", given.IsAssignedToAllModules, &spec.IsAssignedToAllModules)
	take(cmd, "multiple", given.AllowMultipleInstances, &spec.AllowMultipleInstances)
	take(cmd, "disabled", given.IsDisabled, &spec.IsDisabled)
	take(cmd, "description", given.Description, &spec.Description)
	take(cmd, "os", given.OS, &spec.OS)
	take(cmd, "lifetime", given.Lifetime, &spec.Lifetime)
	if given.Lifetime == catalog.Ephemeral && !cmd.Flags().Changed("multiple") { // as when it registers itself
		spec.AllowMultipleInstances = true
	}
	take(cmd, "selection", given.Selection, &spec.Selection)
	take(cmd, "max-parallel-jobs", given.MaxParallelJobs, &spec.MaxParallelJobs)
	take(cmd, "webhook", given.Webhook, &spec.Webhook)
	take(cmd, "node-priority", given.NodePriority, &spec.NodePriority)
	if len(given.Labels) > 0 {
		labels := maps.Clone(given.Labels)
		for key, value := range spec.Labels {
			if _, ok := labels[key]; !ok {
				labels[key] = value
			}
		}
		spec.Labels = labels
	}
}

// take sets what a flag stands for, if it was given.
func take[T any](cmd *cobra.Command, flag string, given T, field *T) {
	if cmd.Flags().Changed(flag) {
		*field = given
	}
}

// runnerUpdate takes a Runner to another release, or changes its record. The Server replaces a record as a whole, so the rest of
// it is read before.
func (a *app) runnerUpdate() *cobra.Command {
	var without []string
	var to upgradeFlags
	cmd := a.withFormat(&cobra.Command{
		Use: "update [RUNNER | --all]", Short: "Take a Runner to another release, or change what flags say of its record", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeRunners,
		Long: "Take the program of a Runner to the newest stable release, or to --version; with --all that of every outdated one. A line tells what came\n" +
			"of each; the exit status is 1 when one failed. Jobs that run go on.\n\n" +
			"  legwork runner update edge\n" +
			"  legwork runner update --all\n\n" +
			"With a flag that says something of its record, that alone changes, and no program: what is given by a flag. --label adds a label or changes its value, --remove-label removes\n" +
			"one. An empty text is as if it had never been said: --webhook '' --os ''. A switch is turned off with =false: --disabled=false.",
	})
	spec := a.runnerSpecFlags(cmd)
	to.flags(cmd)
	cmd.Flags().StringArrayVar(&without, "remove-label", nil, "`key` of a label to remove; may be given more than once")
	_ = cmd.RegisterFlagCompletionFunc("remove-label", a.completeLabels) // the flag is there
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		programs, err := to.wanted(cmd, args, len(without) > 0 || slices.ContainsFunc(specFlags, cmd.Flags().Changed))
		if err != nil {
			return err
		}
		if programs {
			return a.updateReleases(cmd.Context(), to, args)
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		changed, err := client.ChangeRunner(cmd.Context(), args[0], func(record *catalog.RunnerSpec) error {
			for _, key := range without {
				delete(record.Labels, key)
			}
			return spec(cmd.Context(), record)
		})
		if err != nil {
			return err
		}
		return a.show(changed, func() *table { return recordDetails(changed) })
	}
	return cmd
}

// recordDetails shows what a Runner's record holds, without how the Runner is.
func recordDetails(r catalog.Runner) *table {
	t := &table{}
	t.add("runner", r.Name)
	t.add("id", r.ID)
	t.add("description", orDash(r.Description))
	t.add("disabled", yesNo(r.IsDisabled))
	t.add("all modules", yesNo(r.IsAssignedToAllModules))
	t.add("multiple", yesNo(r.AllowMultipleInstances))
	t.add("os", orDash(string(r.OS)))
	t.add("lifetime", string(cmp.Or(r.Lifetime, catalog.Persistent)))
	t.add("selection", string(cmp.Or(r.Selection, catalog.FirstResponse)))
	t.add("max parallel jobs", strconv.Itoa(r.MaxParallelJobs))
	t.add("webhook", yesNo(r.Webhook != "")) // its URL may hold a token
	t.add("service principal", r.ServicePrincipalID)
	addNodeFilters(t, r.RunnerSpec)
	for _, key := range sortedKeys(r.Labels) {
		t.add("label", key+"="+r.Labels[key])
	}
	return t
}

// addNodeFilters says which Nodes a Runner takes.
func addNodeFilters(t *table, spec catalog.RunnerSpec) {
	for _, stack := range sortedKeys(spec.NodeFilters) {
		t.add("node filter", stack+"="+spec.NodeFilters[stack])
	}
	if len(spec.NodeFilters) > 0 || spec.NodePriority != 0 {
		t.add("node priority", strconv.Itoa(spec.NodePriority))
	}
}

// completeLabels offers the keys of the labels that the Runner has which the command names.
func (a *app) completeLabels(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
		runner, err := client.Runner(ctx, args[0])
		return sortedKeys(runner.Labels), err
	})
}
