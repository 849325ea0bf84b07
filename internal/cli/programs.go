package cli

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/fault"
)

// settingFlag is a flag that sets one setting.
type settingFlag struct{ name, key, usage string }

// settingFlags gives a command --config, --set and flags for some settings, and what reads them.
func settingFlags(cmd *cobra.Command, known []settingFlag) func() (StartOptions, error) {
	file := cmd.Flags().String("config", "", "settings file, JSON or YAML")
	set := cmd.Flags().StringArray("set", nil, "any setting, as key=value; may be given several times")
	values := make([]*string, len(known))
	for i, flag := range known {
		values[i] = cmd.Flags().String(flag.name, "", flag.usage)
	}
	return func() (StartOptions, error) {
		o := StartOptions{File: *file, Flags: map[string]string{}, FlagNames: map[string]string{}}
		for _, pair := range *set {
			key, value, ok := strings.Cut(pair, "=")
			if !ok || key == "" {
				return o, fault.New(fault.Invalid, "usage", "--set %s is not of the form key=value", pair).
					WithHint("for example --set log_level=debug; %s --help shows the flags", cmd.CommandPath())
			}
			o.Flags[key] = value
		}
		for i, flag := range known {
			if cmd.Flags().Changed(flag.name) {
				o.Flags[flag.key], o.FlagNames[flag.key] = *values[i], "--"+flag.name
			}
		}
		return o, nil
	}
}

func (a *app) serverCommand() *cobra.Command {
	hold := false
	cmd := &cobra.Command{
		Use: "server", Short: "Run a Server", Args: exactly(),
		Long: "Run a Server until it is stopped. The first interrupt drains it, the second ends it hard.\n" +
			"At first start it writes the token of its admin to the file admin-token in its data folder. The file is removed when the token is first used.\n" +
			"Settings come from the file, then the environment (LEGWORK_SERVER__LISTEN), then flags. `legwork schema server` prints all keys.",
	}
	options := settingFlags(cmd, []settingFlag{
		{"data", "data", "folder for the database, the keys and the admin token (default ./data)"},
		{"listen", "listen", "address and port (default 127.0.0.1:8440)"},
		{"public-url", "public_url", "base URL under which people and Runners reach it"},
		{"database", "database", "postgres:// URL; without it SQLite in the data folder. A password is better kept in LEGWORK_SERVER__DATABASE"},
		{"tls-cert", "tls_cert", "PEM file of the certificate; read again when it changes"},
		{"tls-key", "tls_key", "PEM file of its private key"},
		{"log-level", "log_level", "debug, info, warn or error"},
		{"log-format", "log_format", "text or json"},
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		o.Hold = hold
		return a.programs.Server(cmd.Context(), o, a.Err)
	}
	cmd.Flags().BoolVar(&hold, "hold", false, "start on hold: nothing is started until legwork server resume. For a clone of a server that has no sign of being one")
	cmd.AddCommand(a.rotateKey(), a.adminToken(), a.backupCommand(), a.restoreCommand(), a.migrateCommand(), a.serverStatus(), a.serverResume())
	return cmd
}

func (a *app) devCommand() *cobra.Command {
	var o DevOptions
	cmd := &cobra.Command{
		Use: "dev [PATH...]", Short: "Run a Server and a Runner here, for trying things out",
		Long: "Run a Server and, in a process of its own, a Runner, and apply the manifests at the paths. It stays until it is interrupted.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				files, err := ReadManifest(args, a.In)
				if err != nil {
					return err
				}
				o.Manifests = files
			}
			return a.programs.Dev(cmd.Context(), o, a.Out)
		},
	}
	cmd.Flags().StringVar(&o.Home, "home", ".legwork", "folder for everything it keeps")
	cmd.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:8440", "address of the Server")
	return cmd
}

func (a *app) schemaCommand() *cobra.Command {
	names := []string{"manifest", "runner", "server"}
	return &cobra.Command{
		Use: "schema manifest|runner|server", Short: "Print the JSON Schema of manifests, or of the settings of a program",
		Args: exactly("manifest, runner or server"), ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(names, args[0]) {
				return fault.New(fault.Invalid, "usage", "there is no schema %q", args[0]).WithHint("there are manifest, runner and server")
			}
			text, err := a.programs.Schema(args[0])
			if err != nil {
				return err
			}
			_, err = a.Out.Write(text)
			return err
		},
	}
}

func (a *app) versionCommand() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{a.programs.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return a.show(v, func() *table {
				return &table{rows: [][]string{{fmt.Sprintf("legwork %s (%s, %s/%s)", v.Version, v.Go, v.OS, v.Arch)}}}
			})
		},
	})
}

func (a *app) stackCommand() *cobra.Command {
	list := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Stacks", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			stacks, err := client.Stacks(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(stacks, func() *table {
				t := &table{head: []string{"STACK", "DESCRIPTION", "ID"}}
				for _, s := range stacks {
					t.add(s.Name, orDash(s.Description), s.ID)
				}
				return t
			})
		},
	})
	remove := a.deletes("stack", &cobra.Command{
		Use: "delete STACK", Short: "Delete a Stack that holds nothing", Args: exactly("STACK"), ValidArgsFunction: a.completeStacks,
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteStack(ctx, args[0])
	})
	return parent("stack", "List and delete stacks", list, remove)
}

func (a *app) namespaceCommand() *cobra.Command {
	stack := ""
	list := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Namespaces", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			namespaces, err := client.Namespaces(cmd.Context(), stack)
			if err != nil {
				return err
			}
			return a.show(namespaces, func() *table {
				t := &table{head: []string{"NAMESPACE", "DESCRIPTION", "ID"}}
				for _, n := range namespaces {
					t.add(n.Path(), orDash(n.Description), n.ID)
				}
				return t
			})
		},
	})
	list.Flags().StringVar(&stack, "stack", "", "only those of this Stack")
	_ = list.RegisterFlagCompletionFunc("stack", a.completeStacks) // the flag is there
	remove := a.deletes("namespace", &cobra.Command{
		Use: "delete NAMESPACE", Short: "Delete a Namespace that holds nothing", Args: exactly("NAMESPACE"), ValidArgsFunction: a.completeNamespaces,
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteNamespace(ctx, args[0])
	})
	return parent("namespace", "Namespaces: groups of Modules in a Stack", list, remove)
}
