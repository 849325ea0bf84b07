package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
)

func (a *app) nodeSourceCommand() *cobra.Command {
	return parent("node-source", "Node sources: where Nodes are found", a.nodeSourceList(), a.nodeSourceShow(), a.nodeSourceRefresh(), a.nodeSourceDelete())
}

func (a *app) completeNodeSources(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
	return completeNames(a, func(ctx context.Context, client *api.Client) ([]catalog.NodeSource, error) {
		return client.NodeSources(ctx, "")
	},
		func(s catalog.NodeSource) string { return s.Path() })(cmd, args, part)
}

func (a *app) nodeSourceList() *cobra.Command {
	stack := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Node sources, with how old their Nodes are", Args: exactly(), Aliases: []string{"ls"},
		Example: "  legwork node-source list --stack prod",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			sources, err := client.NodeSources(cmd.Context(), stack)
			if err != nil {
				return err
			}
			return a.show(sources, func() *table {
				t := &table{head: []string{"SOURCE", "TYPE", "RUNNER", "NODES", "REFRESHED", "PROBLEM"}}
				for _, s := range sources {
					t.add(s.Path(), string(s.Type), orDash(s.Runner), fmt.Sprint(s.Nodes), since(s.SucceededAt, time.Now()), orDash(s.LastError))
				}
				return t
			})
		},
	})
	a.stackFlag(cmd, &stack, "only those of this Stack")
	return cmd
}

func (a *app) nodeSourceShow() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "show SOURCE", Short: "Show one Node source, by stack/name", Args: exactly("SOURCE"), ValidArgsFunction: a.completeNodeSources,
		Long:    "Show one Node source, by stack/name: the table with its conflicts with others, the other formats as it is declared.",
		Example: "  legwork node-source show prod/inventory",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := client.NodeSource(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.format != asTable {
				return a.show(s, nil)
			}
			status, err := client.NodeSourceStatus(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(s, func() *table { return nodeSourceDetails(s, status, time.Now()) })
		},
	})
}

func nodeSourceDetails(s catalog.NodeSource, status api.NodeSourceStatus, now time.Time) *table {
	t := &table{}
	t.add("source", s.Path())
	t.add("id", s.ID)
	t.add("type", string(s.Type))
	add := func(name, value string) {
		if value != "" {
			t.add(name, value)
		}
	}
	add("description", s.Description)
	add("runner", s.Runner)
	add("path", s.File)
	add("module", s.Module)
	add("output", s.Output)
	add("region", s.Region)
	add("selector", s.Selector)
	if s.Interval > 0 {
		t.add("interval", time.Duration(s.Interval).String())
	}
	t.add("nodes", fmt.Sprint(s.Nodes))
	t.add("refreshed", since(s.SucceededAt, now))
	if s.LastError != "" {
		t.add("problem", fmt.Sprintf("%s (%s)", s.LastError, since(s.RefreshedAt, now)))
	}
	if !s.NextAt.IsZero() {
		t.add("next", s.NextAt.UTC().Format(time.RFC3339))
	}
	for _, c := range status.Conflicts {
		t.add("conflict", c.String())
	}
	return t
}

func (a *app) nodeSourceRefresh() *cobra.Command {
	noFollow := false
	cmd := &cobra.Command{
		Use: "refresh SOURCE", Short: "Ask a Node source, by stack/name, for its Nodes now", Args: exactly("SOURCE"), ValidArgsFunction: a.completeNodeSources,
		Long:    "Ask a Node source for its Nodes now. The log is followed until the Job is over; the exit status is 0 only when it succeeded.",
		Example: "  legwork node-source refresh prod/inventory",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			job, err := client.RefreshNodeSource(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if noFollow {
				_, err := fmt.Fprintf(a.Out, "#%d\n", job.Number)
				return err
			}
			fmt.Fprintf(a.Err, "Job #%d: %s %s\n", job.Number, job.Kind, clean(job.Runbook))
			return a.follow(cmd.Context(), client, job, false)
		},
	}
	cmd.Flags().BoolVar(&noFollow, "no-follow", false, "print the number of the Job and return")
	return cmd
}

func (a *app) nodeSourceDelete() *cobra.Command {
	return a.deletes("node source", &cobra.Command{
		Use: "delete SOURCE", Short: "Delete a Node source, by stack/name, with what it found", Args: exactly("SOURCE"), ValidArgsFunction: a.completeNodeSources,
		Example: "  legwork node-source delete prod/inventory",
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteNodeSource(ctx, args[0])
	})
}
