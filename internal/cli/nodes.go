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
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/node"
)

func (a *app) nodeCommand() *cobra.Command {
	return parent("node", "Nodes: the machines that Runbooks and commands run on",
		a.nodeList(), a.nodePreview(), a.nodeShow(), a.nodeSet(), a.nodeDelete())
}

func (a *app) completeNodes(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
	return completeNames(a, func(ctx context.Context, client *api.Client) ([]api.NodeView, error) {
		l, err := client.Nodes(ctx, "", "")
		return l.Nodes, err
	}, func(n api.NodeView) string { return catalog.NodePath(n.Stack, n.Name) })(cmd, args, part)
}

// stackFlag gives a command the flag --stack.
func (a *app) stackFlag(cmd *cobra.Command, stack *string, usage string) {
	cmd.Flags().StringVar(stack, "stack", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("stack", a.completeStacks) // the flag is there
}

func (a *app) nodeList() *cobra.Command {
	var stack, filter string
	cmd := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Nodes, declared and found", Args: exactly(), Aliases: []string{"ls"},
		Example: "  legwork node list --stack prod\n  legwork node list --stack prod --filter 'tags: web+eu os: linux'\n  legwork node list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("filter") && strings.TrimSpace(filter) == "" {
				return fault.New(fault.Invalid, "node_filter", "--filter is empty, and an empty Node filter chooses no Node").WithHint("leave --filter out for all Nodes, or give '*'")
			}
			nodes, err := client.Nodes(cmd.Context(), stack, filter)
			if err != nil {
				return err
			}
			if err := a.show(nodes, func() *table { return nodeTable(nodes.Nodes, time.Now()) }); err != nil {
				return err
			}
			return a.nodeWarnings(nodes)
		},
	})
	a.stackFlag(cmd, &stack, "only those of this Stack")
	cmd.Flags().StringVar(&filter, "filter", "", "only those that this Node `filter` chooses")
	return cmd
}

func nodeTable(nodes []api.NodeView, now time.Time) *table {
	t := &table{head: []string{"NODE", "ADDRESS", "OS", "TAGS", "RUNNER", "FROM", "SEEN"}}
	for _, n := range nodes {
		seen := since(n.SeenAt, now)
		if n.Stale {
			seen += " (stale)"
		}
		t.add(catalog.NodePath(n.Stack, n.Name), addressOf(n.Node), orDash(platform(n.Node)), orDash(strings.Join(n.Tags, ",")), orDash(n.Runner), cmp.Or(n.Source, "declared"), seen)
	}
	return t
}

// addressOf says where a Node is reached.
func addressOf(n node.Node) string {
	if n.Connection == node.Local {
		return "local"
	}
	address := n.Host()
	if n.User != "" {
		address = n.User + "@" + address
	}
	if n.Port != 0 {
		address += fmt.Sprintf(":%d", n.Port)
	}
	return address
}

func platform(n node.Node) string {
	if n.OS != "" && n.Arch != "" {
		return n.OS + "/" + n.Arch
	}
	return n.OS + n.Arch
}

// conflictsShown is how many Nodes with two addresses a listing warns of one by one.
const conflictsShown = 5

// nodeWarnings tells a person what is wrong with a listing.
func (a *app) nodeWarnings(l api.NodeList) error {
	if a.format != asTable {
		return nil
	}
	warn := func(format string, values ...any) {
		fmt.Fprintf(a.Err, "%s %s\n", a.err.paint(yellow, "Warning:"), sentence(fmt.Sprintf(format, values...)))
	}
	for i, c := range l.Conflicts {
		if i == conflictsShown {
			warn("%d more Nodes are given with different addresses; -o json has them all", len(l.Conflicts)-i)
			break
		}
		warn("%s: %s", c.Stack, c.String())
	}
	for _, f := range l.Failing {
		if f.Since.IsZero() {
			warn("the Node source %s has given no Nodes yet: %s", f.Path, f.Error)
			continue
		}
		warn("the Nodes of the Node source %s are stale, of %s: %s", f.Path, since(f.Since, time.Now()), f.Error)
	}
	return nil
}

func (a *app) nodePreview() *cobra.Command {
	stack := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "preview FILTER", Short: "Say which Nodes a filter chooses, and which Runners take them", Args: exactly("FILTER"), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  legwork node preview --stack prod 'tags: web !name: web-9'\n  legwork node preview '*'",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			l, err := client.PreviewNodes(cmd.Context(), stack, args[0])
			if err != nil {
				return err
			}
			if a.format != asTable {
				return a.show(l, nil)
			}
			fmt.Fprintf(a.Out, "%d of %s match", l.Matched, counted(l.Total, "Node"))
			for _, r := range l.Runners {
				fmt.Fprintf(a.Out, ", %d at %s", r.Nodes, clean(r.Runner))
			}
			fmt.Fprintln(a.Out)
			if err := nodeTable(l.Nodes, time.Now()).write(a.Out); err != nil {
				return err
			}
			if l.Matched == 0 && l.Total > 0 {
				fmt.Fprintln(a.Err, "Hint: every clause of a filter must match; a comma means \"or\" (web-1,web-2); `name: web-.*` is every name that begins with web-.")
			}
			if more := l.Matched - len(l.Nodes); more > 0 {
				fmt.Fprintf(a.Out, "and %d more\n", more)
			}
			if l.Uncovered > 0 {
				fmt.Fprintf(a.Err, "%s %s\n", a.err.paint(yellow, "Warning:"), sentence(fmt.Sprintf("no Runner covers %d of them: %s", l.Uncovered, some(l.Without, 20))))
			}
			return a.nodeWarnings(l)
		},
	})
	a.stackFlag(cmd, &stack, "of this Stack; default all")
	return cmd
}

// some writes the first of some names.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func (a *app) nodeShow() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "show [STACK/]NODE", Short: "Show one node", Args: exactly("[STACK/]NODE"), ValidArgsFunction: a.completeNodes,
		Example: "  legwork node show prod/web-1\n  legwork node show web-1  # when no other stack has a node of this name",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			path, err := nodePath(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			n, err := client.Node(cmd.Context(), path)
			if err != nil {
				return err
			}
			return a.show(n, func() *table { return nodeDetails(n, time.Now()) })
		},
	})
}

// nodePath returns the path of the node with a name that only one node has. A path is returned as it is.
func nodePath(ctx context.Context, client *api.Client, name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	all, err := client.Nodes(ctx, "", "")
	if err != nil {
		return "", err
	}
	var found []string
	for _, n := range all.Nodes {
		if n.Name == name {
			found = append(found, catalog.NodePath(n.Stack, n.Name))
		}
	}
	switch len(found) {
	case 0:
		return "", fault.New(fault.NotFound, "node_not_found", "there is no node %q", name).WithHint("list them: legwork node list")
	case 1:
		return found[0], nil
	}
	return "", fault.New(fault.Invalid, "usage", "%d nodes are named %q: %s", len(found), name, some(found, 5)).
		WithHint("name one of them by its path")
}

func nodeDetails(n api.NodeView, now time.Time) *table {
	t := &table{}
	t.add("node", catalog.NodePath(n.Stack, n.Name))
	t.add("address", addressOf(n.Node))
	t.add("platform", orDash(platform(n.Node)))
	t.add("tags", orDash(strings.Join(n.Tags, ",")))
	for _, key := range slices.Sorted(maps.Keys(n.Attributes)) {
		t.add("attribute", key+" = "+n.Attributes[key])
	}
	t.add("from", cmp.Or(n.Source, "declared"))
	if !n.SeenAt.IsZero() {
		seen := since(n.SeenAt, now)
		if n.Stale {
			seen += " (stale: its Node source failed since)"
		}
		t.add("seen", seen)
	}
	t.add("runner", cmp.Or(n.Runner, "none covers it"))
	if n.Instance != "" {
		t.add("instance", n.Instance)
	}
	return t
}

func (a *app) nodeSet() *cobra.Command {
	var given node.Node
	var connection string
	var attributes map[string]string
	cmd := a.withFormat(&cobra.Command{
		Use: "set NODE", Short: "Declare a Node, by stack/name, or change what is declared of it", Args: exactly("NODE"), ValidArgsFunction: a.completeNodes,
		Long:    "Declare a Node, by stack/name, or change what is declared of it. What no flag names stays as it is declared.",
		Example: "  legwork node set prod/web-1 --address 10.0.0.11 --user deploy --tags web,eu --attribute rack=r1\n  legwork node set prod/web-1 --attribute rack=r2",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			stack, name, _ := strings.Cut(args[0], "/")
			spec := catalog.NodeSpec{Stack: stack, Node: node.Node{Name: name}}
			switch now, err := client.Node(cmd.Context(), args[0]); {
			case err == nil && now.ID != "":
				spec.Node = now.Node
			case err != nil && !fault.Is(err, fault.NotFound):
				return err
			}
			given.Connection, given.Attributes = node.Connection(connection), attributes
			changeNode(&spec.Node, given, cmd.Flags().Changed)
			n, err := client.PutNode(cmd.Context(), spec)
			if err != nil {
				return err
			}
			return a.show(n, func() *table { return nodeDetails(n, time.Now()) })
		},
	})
	flags := cmd.Flags()
	flags.StringVar(&given.Address, "address", "", "host name or IP address; default the name")
	flags.IntVar(&given.Port, "port", 0, "of SSH; default 22")
	flags.StringVar(&given.User, "user", "", "to log in as")
	flags.StringVar(&given.OS, "os", "", "linux, darwin, windows, ...")
	flags.StringVar(&given.Arch, "arch", "", "amd64, arm64, ...")
	flags.StringSliceVar(&given.Tags, "tags", nil, "tags, separated by commas, in place of those it has")
	flags.StringToStringVar(&attributes, "attribute", nil, "`key=value`, repeatable; an empty value takes it away")
	flags.StringVar(&connection, "connection", "", "ssh, or local: the Runner's own host")
	_ = cmd.RegisterFlagCompletionFunc("connection", cobra.FixedCompletions([]string{"ssh", "local"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// changeNode takes over what flags named.
func changeNode(n *node.Node, given node.Node, named func(flag string) bool) {
	for flag, set := range map[string]func(){
		"address":    func() { n.Address = given.Address },
		"port":       func() { n.Port = given.Port },
		"user":       func() { n.User = given.User },
		"os":         func() { n.OS = given.OS },
		"arch":       func() { n.Arch = given.Arch },
		"tags":       func() { n.Tags = given.Tags },
		"connection": func() { n.Connection = given.Connection },
	} {
		if named(flag) {
			set()
		}
	}
	all := maps.Clone(n.Attributes)
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range given.Attributes {
		if value == "" {
			delete(all, key)
			continue
		}
		all[key] = value
	}
	n.Attributes = all
}

func (a *app) nodeDelete() *cobra.Command {
	return a.deletes("node", &cobra.Command{
		Use: "delete NODE", Short: "Take back the declaration of a Node, by stack/name", Args: exactly("NODE"), ValidArgsFunction: a.completeNodes,
		Long:    "Take back the declaration of a Node. Where a Node source gives it, too, it is still there.",
		Example: "  legwork node delete prod/web-1",
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteNode(ctx, args[0])
	})
}
