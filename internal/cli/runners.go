package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func (a *app) runnerCommand() *cobra.Command {
	cmd := parent("runner", "Runners: the records, and the process itself", a.runnerCreate(), a.runnerUpdate(), a.runnerCredential(), a.runnerWebhook(), a.runnerList(), a.runnerShow(),
		a.runnerDelete(), a.runnerSwitch("disable", true, "Let a Runner take no Jobs"), a.runnerSwitch("enable", false, "Let a Runner take Jobs again"),
		a.runnerDrain(), a.runnerResume(), parent("instance", "Instances of Runners", a.instanceRemove()), a.runnerStart(), a.runnerKeep(),
		a.runnerSetup(), a.runnerRegister(), a.runnerUnregister(), a.runnerToken(), a.runnerDeploy(), a.runnerRemove(), a.runnerLaunches(), a.runnerDemand())
	cmd.AddCommand(a.runnerTasks()...)
	return cmd
}

func (a *app) runnerCreate() *cobra.Command {
	settings := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "create NAME", Short: "Create a Runner and show its credentials, this once", Args: exactly("NAME"), ValidArgsFunction: cobra.NoFileCompletions,
	})
	given := a.runnerSpecFlags(cmd)
	cmd.Flags().StringVar(&settings, "write-config", "", "also write the settings that 'legwork runner start' needs to this new `file`, with mode 0600")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec := catalog.RunnerSpec{Name: args[0]}
		if err := given(cmd.Context(), &spec); err != nil {
			return err
		}
		return a.credential(settings, func(client *api.Client) (api.CreatedRunner, error) { return client.CreateRunner(cmd.Context(), spec) })
	}
	return cmd
}

// runnerCredential is for Runners that a manifest made, or whose secret is lost.
func (a *app) runnerCredential() *cobra.Command {
	settings, disconnect := "", false
	cmd := a.withFormat(&cobra.Command{
		Use: "credential RUNNER", Short: "Give a Runner a new client secret and show it, this once; earlier ones end", Args: exactly("RUNNER"), ValidArgsFunction: a.completeRunners,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.credential(settings, func(client *api.Client) (api.CreatedRunner, error) {
				return client.RotateCredential(cmd.Context(), args[0], disconnect)
			})
		},
	})
	cmd.Flags().StringVar(&settings, "write-config", "", "also write the settings that 'legwork runner start' needs to this new `file`, with mode 0600")
	cmd.Flags().BoolVar(&disconnect, "disconnect", false, "also end the Sessions of its processes, which then have to log in with the new secret")
	return cmd
}

// credential has a credential made, and shows it and writes it to a settings file if there shall be one.
func (a *app) credential(settings string, have func(*api.Client) (api.CreatedRunner, error)) (err error) {
	client, err := a.client()
	if err != nil {
		return err
	}
	var file *os.File
	if settings != "" { // before the secret is made that is shown only once
		if file, err = newSettingsFile(settings); err != nil {
			return err
		}
		defer func() {
			if err = errors.Join(err, file.Close()); err != nil {
				os.Remove(settings)
			}
		}()
	}
	made, err := have(client)
	if err != nil {
		return err
	}
	if file != nil {
		if err := writeJSON(file, runnerSettings(client.Server(), made)); err != nil {
			return err
		}
	}
	return a.show(made, func() *table {
		t := &table{}
		t.add("name", made.Name)
		t.add("id", made.ID)
		t.add("organization_id", made.OrganizationID)
		t.add("client_id", made.ClientID)
		if made.ClientSecret != "" {
			t.add("client_secret", made.ClientSecret+"  (shown this once)")
		}
		if settings != "" && made.ClientSecret == "" {
			t.add("settings", settings+"  (without Runner.Credentials.ClientSecret: put a secret of that Service principal there)")
		} else if settings != "" {
			t.add("settings", settings)
		}
		return t
	})
}

func newSettingsFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fault.New(fault.Conflict, "file_exists", "the file %s is there already", path).WithHint("name another one, or remove it")
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "file", "the file %s cannot be written", path).WithCause(err)
	}
	return file, nil
}

// runnerSettings are the settings that a Runner process needs at least, under their kept names.
func runnerSettings(server string, made api.CreatedRunner) any {
	credentials := map[string]any{"ClientId": made.ClientID}
	if made.ClientSecret != "" {
		credentials["ClientSecret"] = made.ClientSecret
	}
	return map[string]any{
		"Server": map[string]any{"Url": server},
		"Runner": map[string]any{
			"Id": made.ID, "OrganizationId": made.OrganizationID,
			"Credentials": credentials,
		},
	}
}

// shownRunner is a Runner with its Instances.
type shownRunner struct {
	api.RunnerView
	Instances []api.Instance `json:"instances"`
}

// connectionLost returns when the last connection of a runner was lost whose instances still count as online; zero while one is connected.
func (r shownRunner) connectionLost() (at time.Time) {
	for _, i := range r.Instances {
		if i.Connected {
			return time.Time{}
		}
		if i.State != string(work.InstanceOffline) && i.DisconnectedAt.After(at) {
			at = i.DisconnectedAt
		}
	}
	return at
}

// state returns the status in a few words, for a table.
func (r shownRunner) state(now time.Time) string {
	word := r.stateWord()
	if at := r.connectionLost(); r.Status == string(work.StatusOnline) && !at.IsZero() {
		word += ", connection lost " + since(at, now)
	}
	unavailable := 0
	for _, i := range r.Instances {
		if i.UnavailableReason != "" && i.State == string(work.InstanceOnline) {
			unavailable++
		}
	}
	if unavailable > 0 {
		word += fmt.Sprintf(", %d of %d take no new jobs", unavailable, r.Present)
	}
	return word
}

func (r shownRunner) stateWord() string {
	switch {
	case r.IsDisabled:
		return "disabled"
	case r.Health == string(work.RunnerDegraded):
		return strings.ToLower(r.Status) + ", degraded"
	case r.Status == string(work.StatusScaledToZero):
		return "scaled to zero"
	}
	return strings.ToLower(r.Status)
}

// counted gives how many Instances are there and, where somebody starts them, of how many that are known: those of a hosted Runner come and go.
func (r shownRunner) counted() string {
	if r.Hosting != nil {
		return fmt.Sprint(r.Present)
	}
	return fmt.Sprintf("%d/%d", r.Present, len(r.Instances))
}

func (a *app) runnerList() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "list", Short: "List Runners", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			runners, err := client.Runners(cmd.Context())
			if err != nil {
				return err
			}
			instances, err := client.Instances(cmd.Context(), "")
			if err != nil {
				return err
			}
			shown := make([]shownRunner, len(runners))
			for i, r := range runners {
				shown[i] = shownRunner{RunnerView: r, Instances: []api.Instance{}}
				for _, instance := range instances {
					if instance.RunnerID == r.ID {
						shown[i].Instances = append(shown[i].Instances, instance)
					}
				}
			}
			return a.show(shown, func() *table {
				return runnerTable(shown, time.Now())
			})
		},
	})
}

func runnerTable(shown []shownRunner, now time.Time) *table {
	t := &table{head: []string{"RUNNER", "TYPE", "REGION", "STATE", "INSTANCES", "ACTIVE", "VERSION", "ALL MODULES", "ID"}}
	for _, r := range shown {
		active, versions := 0, map[string]string{}
		for _, i := range r.Instances {
			active += i.Active
			if i.Connected {
				versions[i.Version] = i.Version
			}
		}
		version := orDash(cmp.Or(strings.Join(sortedKeys(versions), ", "), r.Version.Version)) // with none online, what was known last
		if r.Version.Outdated {
			version += " (outdated)"
		}
		t.add(r.Name, r.Type, orDash(r.Region), r.state(now), r.counted(), fmt.Sprint(active),
			version, yesNo(r.IsAssignedToAllModules), r.ID)
	}
	return t
}

func (a *app) runnerShow() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "show RUNNER", Short: "Show one Runner with its Instances", Args: exactly("RUNNER"), ValidArgsFunction: a.completeRunners,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			runner, err := client.Runner(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			instances, err := client.Instances(cmd.Context(), runner.ID)
			if err != nil {
				return err
			}
			shown := shownRunner{RunnerView: runner, Instances: instances}
			return a.show(shown, func() *table { return runnerDetails(shown, time.Now()) })
		},
	})
}

func runnerDetails(r shownRunner, now time.Time) *table {
	t := &table{}
	t.add("runner", r.Name)
	t.add("id", r.ID)
	t.add("organization_id", r.OrganizationID)
	t.add("state", r.state(now))
	if r.Status != string(work.StatusScaledToZero) {
		t.add("health", r.Health)
		t.add("reason", r.Reason)
	}
	addHosting(t, r.RunnerView)
	for _, w := range r.Warnings {
		t.add("warning", w)
	}
	t.add("service principal", r.Runner.ServicePrincipalID)
	t.add("lifetime", cmp.Or(string(r.Lifetime), string(catalog.Persistent)))
	if r.HostOS != "" {
		t.add("os", r.HostOS)
	}
	t.add("selection", cmp.Or(string(r.Selection), string(catalog.FirstResponse)))
	t.add("multiple instances", yesNo(r.AllowMultipleInstances))
	most := "no limit"
	if r.MaxParallelJobs > 0 {
		most = fmt.Sprint(r.MaxParallelJobs)
	}
	t.add("parallel jobs", most)
	if r.Webhook != "" {
		t.add("webhook", "at "+hostOf(r.Webhook))
	}
	t.add("all modules", yesNo(r.IsAssignedToAllModules))
	addNodeFilters(t, r.RunnerSpec)
	if r.Description != "" {
		t.add("description", r.Description)
	}
	for _, key := range sortedKeys(r.Labels) {
		t.add("label", key+"="+r.Labels[key])
	}
	for _, i := range r.Instances {
		if r.Hosting != nil && !i.Connected && i.State == string(work.InstanceOffline) {
			continue // it ended: legwork runner launches
		}
		engines := make([]string, 0, len(i.Engines))
		for _, name := range sortedKeys(i.Engines) {
			engines = append(engines, strings.TrimSpace(name+" "+i.Engines[name]))
		}
		state := i.State
		if i.Leaving && i.State == string(work.InstanceDraining) {
			state += " to leave"
		} else if !i.Connected && i.State != string(work.InstanceOffline) && !i.DisconnectedAt.IsZero() {
			state += ", connection lost " + since(i.DisconnectedAt, now)
		} else if i.UnavailableReason != "" && i.State == string(work.InstanceOnline) {
			state += ", takes no new jobs"
		}
		t.add("instance", fmt.Sprintf("%s: %s, %s (%d of %d), seen %s, %s/%s, legwork %s, %s", i.Name, state, i.Load, i.Active, i.Capacity,
			since(i.LastSeen, now), i.OS, i.Arch, i.Version, orDash(strings.Join(engines, ", "))))
	}
	return t
}

// hostOf gives the host of a URL, whose path or query may hold a token.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "a URL"
	}
	return u.Host
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (a *app) runnerDelete() *cobra.Command {
	return a.deletes("runner", &cobra.Command{
		Use: "delete RUNNER", Short: "Delete a Runner with its credentials", Args: exactly("RUNNER"), ValidArgsFunction: a.completeRunners,
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteRunner(ctx, args[0])
	})
}

func (a *app) runnerSwitch(verb string, disabled bool, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " RUNNER", Short: short, Args: exactly("RUNNER"), ValidArgsFunction: a.completeRunners,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			_, err = client.ChangeRunner(cmd.Context(), args[0], func(spec *catalog.RunnerSpec) error {
				spec.IsDisabled = disabled
				return nil
			})
			return err
		},
	}
}

func (a *app) runnerStart() *cobra.Command {
	cmd := &cobra.Command{
		Use: "start", Short: "Run a Runner process", Args: exactly(),
		Long: "Run a Runner process until it is stopped. The first interrupt drains it: it takes no further\n" +
			"Job and ends after those under way. A second one cancels these gracefully, a third kills them.\n" +
			"Settings come from the file, then the environment (LEGWORK_RUNNER__ID), then flags. `legwork schema runner` prints all keys.",
	}
	options := settingFlags(cmd, []settingFlag{
		{"instance", "Runner.Instance", "name of this process among those of its Runner record"},
		{"capacity", "Runner.Capacity", "most Jobs at once"},
		{"url", "Server.Url", "base URL of the Server"},
		{"working-directory", "WorkingDirectory.WorkingDirectory", "folder for sources, state, and what is needed to resume"},
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		return a.programs.Runner(cmd.Context(), o, a.Out)
	}
	return cmd
}

func (a *app) runnerKeep() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "keep --dir FOLDER", Short: "Run the keeper of a Runner's processes; the Runner starts it by itself", Args: exactly(), Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return fault.New(fault.Invalid, "usage", "--dir is missing").WithHint("a Runner starts its keeper by itself")
			}
			return a.programs.Keep(cmd.Context(), dir)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the keeper's folder")
	return cmd
}

// runnerTasks are the programs that a Runner's keeper starts.
func (a *app) runnerTasks() []*cobra.Command {
	var all []*cobra.Command
	for _, name := range slices.Sorted(maps.Keys(a.programs.Tasks)) {
		all = append(all, &cobra.Command{
			Use: name + " FILE", Short: "Do what a file says; a Runner starts this by itself", Args: cobra.ExactArgs(1), Hidden: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				if status := a.programs.Tasks[name](cmd.Context(), args[0]); status != 0 {
					return taskStatus(status)
				}
				return nil
			},
		})
	}
	return append(all, a.confineCommand())
}

func (a *app) confineCommand() *cobra.Command {
	return &cobra.Command{
		Use: "confine POLICY -- COMMAND...", Short: "Run a command confined; a server starts this by itself", Args: cobra.MinimumNArgs(2), Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error { return a.programs.Confine(args[0], args[1:]) },
	}
}

func (a *app) assignmentCommand() *cobra.Command {
	runner := ""
	list := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Assignments", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			assignments, err := client.Assignments(cmd.Context(), runner)
			if err != nil {
				return err
			}
			return a.show(assignments, func() *table {
				t := &table{head: []string{"RUNNER", "SCOPE", "ID"}}
				for _, s := range assignments {
					t.add(s.Runner, s.Scope, s.ID)
				}
				return t
			})
		},
	})
	list.Flags().StringVar(&runner, "runner", "", "only those of this Runner")
	_ = list.RegisterFlagCompletionFunc("runner", a.completeRunners) // the flag is there
	create := a.withFormat(&cobra.Command{
		Use: "create RUNNER SCOPE", Short: "Let a Stack, a Namespace (stack/namespace) or a Module (stack/namespace/module) use a Runner",
		Args: exactly("RUNNER", "SCOPE"), ValidArgsFunction: a.completeAssignment,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			made, err := client.CreateAssignment(cmd.Context(), catalog.AssignmentSpec{Runner: args[0], Scope: args[1]})
			if err != nil {
				return err
			}
			return a.show(made, func() *table { return &table{rows: [][]string{{"id", made.ID}}} })
		},
	})
	remove := a.deletes("assignment", &cobra.Command{
		Use: "delete RUNNER SCOPE | ID", Short: "Delete an assignment", ValidArgsFunction: a.completeAssignment,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return exactly("ID")(cmd, args)
			}
			return exactly("RUNNER", "SCOPE")(cmd, args)
		},
	}, func(ctx context.Context, client *api.Client, args []string) (err error) {
		id := args[0]
		if len(args) == 2 {
			if id, err = assignmentID(ctx, client, args[0], args[1]); err != nil {
				return err
			}
		}
		return client.DeleteAssignment(ctx, id)
	})
	return parent("assignment", "Assignments: who may use which Runner", create, list, remove)
}

// assignmentID finds an Assignment by its Runner and its scope.
func assignmentID(ctx context.Context, client *api.Client, runner, scope string) (string, error) {
	all, err := client.Assignments(ctx, runner)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if s.Scope == scope {
			return s.ID, nil
		}
	}
	return "", fault.New(fault.NotFound, "assignment_not_found", "%s is not assigned to %s", runner, scope).WithHint("see legwork assignment list --runner %s", runner)
}
