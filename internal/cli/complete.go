package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/work"
)

// completionTime bounds how long a shell waits for names from the Server.
const completionTime = 2 * time.Second

// names asks the Server for completions. Without an answer there are none.
func (a *app) names(cmd *cobra.Command, ask func(ctx context.Context, client *api.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	client, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	names, err := ask(ctx, client)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeModules(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
		modules, err := client.Modules(ctx, "")
		names := make([]string, len(modules))
		for i, m := range modules {
			names[i] = m.Path()
		}
		return names, err
	})
}

func (a *app) completeRunners(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
		runners, err := client.Runners(ctx)
		names := make([]string, len(runners))
		for i, r := range runners {
			names[i] = r.Name
		}
		return names, err
	})
}

// completeJobs offers the newest Jobs in some states, or in any.
func (a *app) completeJobs(statuses ...work.Status) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
			page, err := client.Jobs(ctx, api.JobQuery{Statuses: statuses, Limit: 20})
			names := make([]string, len(page.Items))
			for i, job := range page.Items {
				names[i] = fmt.Sprintf("%d\t%s %s, %s", job.Number, job.Action, job.Module, job.Status)
			}
			return names, err
		})
	}
}
