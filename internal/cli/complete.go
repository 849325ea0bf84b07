package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
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

// completeNames offers, for the first argument, the name of each of what is listed.
func completeNames[T any](a *app, list func(context.Context, *api.Client) ([]T, error), name func(T) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
			items, err := list(ctx, client)
			names := make([]string, len(items))
			for i, item := range items {
				names[i] = name(item)
			}
			return names, err
		})
	}
}

func (a *app) completeStacks(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
	return completeNames(a, func(ctx context.Context, client *api.Client) ([]catalog.Stack, error) { return client.Stacks(ctx) },
		func(s catalog.Stack) string { return s.Name })(cmd, args, part)
}

func (a *app) completeNamespaces(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
	return completeNames(a, func(ctx context.Context, client *api.Client) ([]catalog.Namespace, error) {
		return client.Namespaces(ctx, "")
	},
		func(n catalog.Namespace) string { return n.Path() })(cmd, args, part)
}

// completeAssignment offers a Runner, then the scopes that may use it.
func (a *app) completeAssignment(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeRunners(cmd, args, part)
	}
	var scopes []string
	if len(args) == 1 {
		for _, complete := range []cobra.CompletionFunc{a.completeStacks, a.completeNamespaces, a.completeModules} {
			more, _ := complete(cmd, nil, part)
			scopes = append(scopes, more...)
		}
	}
	return scopes, cobra.ShellCompDirectiveNoFileComp
}

// completeOutputs offers a Module, then the names of its outputs.
func (a *app) completeOutputs(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return a.completeModules(cmd, args, part)
	}
	return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
		set, err := client.Outputs(ctx, args[0], false)
		return slices.Sorted(maps.Keys(set.Values)), err
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
				names[i] = fmt.Sprintf("%d\t%s %s, %s", job.Number, doneBy(job), subjectOf(job), job.Status)
			}
			return names, err
		})
	}
}
