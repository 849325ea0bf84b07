package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func (a *app) moduleCommand() *cobra.Command {
	return parent("module", "Modules: look at them and run them", a.moduleList(), a.moduleShow(), a.moduleDelete(), a.moduleReleaseState(),
		a.moduleRun("plan", work.Plan, "Show what apply would do"),
		a.moduleRun("apply", work.Apply, "Apply a Module"),
		a.moduleRun("destroy", work.Destroy, "Destroy everything that a Module manages"),
		a.moduleRun("run", work.Run, "Run a Module of a script engine"))
}

func (a *app) moduleList() *cobra.Command {
	stack := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Modules", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			modules, err := client.Modules(cmd.Context(), stack)
			if err != nil {
				return err
			}
			namespaces, err := client.Namespaces(cmd.Context(), stack)
			if err != nil {
				return err
			}
			return a.show(modules, func() *table {
				t := &table{head: []string{"MODULE", "STATUS", "ENGINE", "RUNNER", "SOURCE"}}
				for _, listed := range modules {
					m := effective(listed.Module, namespaces)
					status := strings.ReplaceAll(string(listed.Status), "_", " ")
					t.add(m.Path(), status, orDash(string(m.Engine)), orDash(m.Runner), sourceOf(m.Source))
				}
				return t
			})
		},
	})
	cmd.Flags().StringVar(&stack, "stack", "", "only those of this Stack")
	_ = cmd.RegisterFlagCompletionFunc("stack", a.completeStacks) // the flag is there
	return cmd
}

// effective fills in what a Module gets from its Namespace.
func effective(m catalog.Module, namespaces []catalog.Namespace) catalog.Module {
	for _, n := range namespaces {
		if n.ID == m.NamespaceID {
			m.ModuleSpec = catalog.Effective(m.ModuleSpec, n.Defaults)
		}
	}
	return m
}

// sourceOf says in a few words where code comes from.
func sourceOf(s catalog.Source) string {
	switch s.Type {
	case catalog.Git:
		text := s.URL
		if s.Subdirectory != "" {
			text += "//" + s.Subdirectory
		}
		if s.Revision != "" {
			text += "@" + s.Revision
		}
		return text
	case catalog.Inline:
		if len(s.Files) == 1 {
			return "inline (1 file)"
		}
		return fmt.Sprintf("inline (%d files)", len(s.Files))
	}
	return "-"
}

func (a *app) moduleShow() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "show MODULE", Short: "Show one Module; the table with what it gets from its Namespace, the other formats as declared", Args: exactly("MODULE"), ValidArgsFunction: a.completeModules,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			m, err := client.Module(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			namespaces, err := client.Namespaces(cmd.Context(), m.Stack)
			if err != nil {
				return err
			}
			return a.show(m, func() *table { return moduleDetails(m, effective(m.Module, namespaces)) })
		},
	})
}

func moduleDetails(shown api.Module, m catalog.Module) *table {
	t := &table{}
	t.add("module", m.Path())
	t.add("id", m.ID)
	t.add("status", strings.ReplaceAll(string(shown.Status), "_", " "))
	if shown.State != nil {
		t.add("state", control.DescribeState(*shown.State))
	}
	t.add("engine", orDash(string(m.Engine)))
	t.add("runner", orDash(m.Runner))
	t.add("source", sourceOf(m.Source))
	if m.Description != "" {
		t.add("description", m.Description)
	}
	for _, input := range m.Inputs {
		t.add("input", inputLine(input))
	}
	for _, file := range m.ExtraFiles {
		t.add("extra file", file.FileName)
	}
	for _, hook := range m.Hooks {
		t.add("hook", fmt.Sprintf("%s %s", hook.Phase, hook.Task))
	}
	return t
}

func inputLine(input catalog.Input) string {
	line := input.Name
	if input.Kind == catalog.Env {
		line = "$" + line
	}
	switch {
	case input.From == catalog.FromOutput:
		return fmt.Sprintf("%s = output %s of %s", line, input.Output, input.Module)
	case input.Sensitive:
		return line + " = (sensitive)"
	}
	return fmt.Sprintf("%s = %s", line, input.Value)
}

func (a *app) moduleDelete() *cobra.Command {
	force := false
	cmd := a.deletes("module", &cobra.Command{
		Use: "delete MODULE", Short: "Delete a Module's record; run module destroy first",
		Args: exactly("MODULE"), ValidArgsFunction: a.completeModules,
		Long: "Delete a Module's record. Infrastructure is not destroyed: run module destroy first. A Module that manages resources, or whose\n" +
			"outputs other Modules use, is refused unless --force is given.",
		Example: "  legwork module delete prod/network/vpc",
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteModule(ctx, args[0], force)
	})
	cmd.Flags().BoolVar(&force, "force", false, "also a Module that manages resources, or whose outputs others use")
	return cmd
}

func (a *app) moduleReleaseState() *cobra.Command {
	yes, request := false, api.StateRelease{}
	cmd := &cobra.Command{
		Use: "release-state MODULE", Short: "Release the local state, so that jobs can start on any instance",
		Args: exactly("MODULE"), ValidArgsFunction: a.completeModules,
		Long: "A Module whose code declares no remote backend keeps its state on the instance that applied it, and its Jobs start there only.\n" +
			"This command releases it from that instance. Copy the state to another instance before its next Job: a Job is refused where the\n" +
			"state is not found. With --start-empty the next Job may start without it. Everything that the lost state describes is then no\n" +
			"longer managed, and an apply creates it again.",
		Example: "  legwork module release-state prod/network/vpc\n  legwork module release-state prod/network/vpc --start-empty --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			question := "Release the state of " + args[0] + " from its instance? A job is then refused where the state is not found."
			if request.StartEmpty {
				question = "Let the next job of " + args[0] + " start without its state? What the state describes is then no longer managed."
			}
			if err := a.confirm(question, yes); err != nil {
				return err
			}
			was, err := client.ReleaseState(cmd.Context(), args[0], request)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "released the state of module %s%s\n", clean(args[0]), releasedFrom(was.Runner, was.Instance))
			return err
		},
	}
	cmd.Flags().BoolVar(&request.StartEmpty, "start-empty", false, "the next Job may start without the state")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func releasedFrom(runner, instance string) string {
	if instance == "" {
		return ""
	}
	return " from instance " + clean(instance) + " of runner " + clean(runner)
}

func (a *app) moduleRun(verb string, action work.Action, short string) *cobra.Command {
	var noFollow, raw, yes, force bool
	var priority string
	cmd := &cobra.Command{
		Use: verb + " MODULE", Short: short, Args: exactly("MODULE"), ValidArgsFunction: a.completeModules,
		Long: short + ". The log is followed until the Job is over; the exit status is 0 only when it succeeded.",
		RunE: func(cmd *cobra.Command, args []string) error {
			known, err := priorityFlag(priority)
			if err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if action == work.Destroy {
				if err := a.confirm("Destroy everything that "+args[0]+" manages?", yes); err != nil {
					return err
				}
			}
			job, err := client.SubmitJob(cmd.Context(), api.JobRequest{Module: args[0], Action: action, Priority: known, Force: force})
			if err != nil {
				return err
			}
			if noFollow {
				_, err := fmt.Fprintf(a.Out, "#%d\n", job.Number)
				return err
			}
			fmt.Fprintf(a.Err, "Job #%d: %s %s\n", job.Number, job.Action, clean(job.Module))
			return a.follow(cmd.Context(), client, job, raw)
		},
	}
	cmd.Flags().BoolVar(&noFollow, "no-follow", false, "print the number of the Job and return")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the log as the bytes it is, without headings")
	cmd.Flags().StringVar(&priority, "priority", string(work.PriorityNormal), "low, normal or high: which of those that wait goes first")
	_ = cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions(priorityNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	if action == work.Destroy {
		cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
		cmd.Flags().BoolVar(&force, "force", false, "also when applied Modules use its outputs")
	}
	return cmd
}

func priorityNames() []string {
	names := make([]string, len(work.Priorities))
	for i, p := range work.Priorities {
		names[i] = string(p)
	}
	return names
}

func priorityFlag(text string) (work.Priority, error) {
	p, err := work.ParsePriority(text)
	if err != nil {
		return "", fault.New(fault.Invalid, "usage", "%q is not a priority", text).WithHint("--priority is low, normal or high")
	}
	return p, nil
}

// confirm asks a person, unless yes says that there is no need to. Without a terminal it is an error.
func (a *app) confirm(question string, yes bool) error {
	if yes {
		return nil
	}
	if !isTerminal(a.In) || !a.err.is {
		return fault.New(fault.Invalid, "confirmation_required", "this needs a confirmation, and there is no terminal to ask on").
			WithHint("use --yes")
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", clean(question))
	line, err := bufio.NewReader(io.LimitReader(a.In, 100)).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return fault.New(fault.Conflict, "not_confirmed", "nothing was done").WithHint("answer y, or use --yes")
}

func (a *app) outputCommand() *cobra.Command {
	var sensitive, raw bool
	cmd := a.withFormat(&cobra.Command{
		Use: "output MODULE [NAME]", Short: "Show the latest outputs of a Module",
		Example:           "  legwork output prod/network/vpc\n  curl \"$(legwork output prod/apps/shop --raw url)\"",
		ValidArgsFunction: a.completeOutputs,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactly("MODULE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if raw && len(args) == 1 {
				return fault.New(fault.Invalid, "usage", "--raw prints one output, and none is named").
					WithHint("run: legwork output %s --raw NAME", args[0])
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			set, err := client.Outputs(cmd.Context(), args[0], sensitive)
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return a.oneOutput(args[1], set, sensitive, raw)
			}
			return a.show(set.Values, func() *table { return outputTable(set.Values, sensitive) })
		},
	})
	cmd.Flags().BoolVar(&sensitive, "show-sensitive", false, "show the values of sensitive outputs")
	cmd.Flags().BoolVar(&raw, "raw", false, "with NAME: a text without quotes, and no end of line")
	return cmd
}

func outputTable(values map[string]catalog.OutputValue, sensitive bool) *table {
	t := &table{head: []string{"OUTPUT", "VALUE"}}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := string(plainJSON(values[name].Value))
		if values[name].Sensitive && !sensitive {
			value = "(sensitive)"
		}
		t.add(name, value)
	}
	return t
}

// oneOutput prints one value alone.
func (a *app) oneOutput(name string, set catalog.OutputSet, sensitive, raw bool) error {
	value, ok := set.Values[name]
	if !ok {
		return fault.New(fault.NotFound, "output_not_found", "there is no output %q", name).WithHint("leave the name out to see them all")
	}
	if value.Sensitive && !sensitive {
		return fault.New(fault.Forbidden, "output_sensitive", "the output %q is sensitive", name).WithHint("use --show-sensitive")
	}
	var text string
	if raw {
		if err := json.Unmarshal(value.Value, &text); err != nil {
			text = string(plainJSON(value.Value))
		}
		_, err := io.WriteString(a.Out, text)
		return err
	}
	return a.show(value.Value, func() *table { return &table{rows: [][]string{{string(plainJSON(value.Value))}}} })
}
