package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func (a *app) secretCommand() *cobra.Command {
	return parent("secret", "Secrets: values that are written and never shown, and references that Runners follow",
		a.secretSet(), a.secretList(), a.secretShow(), a.secretDelete(), a.secretPaths())
}

// scopeFlag adds the flag for the scope of a secret to a command whose first argument is its name. The argument can be
// SCOPE/NAME instead, as other things are named by their path.
func scopeFlag(cmd *cobra.Command, scope *string) {
	cmd.Flags().StringVar(scope, "scope", "",
		"scope of the secret: STACK, STACK/NAMESPACE, STACK/NAMESPACE/MODULE or runbook:STACK/NAME; or write SCOPE/NAME")
	needsFlag(cmd, "scope")
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if err := splitScope(cmd, given); err != nil {
			return err
		}
		return args(cmd, given)
	}
}

// splitScope replaces a first argument SCOPE/NAME by NAME, and sets the flag.
func splitScope(cmd *cobra.Command, given []string) error {
	if len(given) == 0 || cmd.Flags().Changed("scope") {
		return nil
	}
	at := strings.LastIndex(given[0], "/")
	if at <= 0 {
		return nil
	}
	scope := given[0][:at]
	given[0] = given[0][at+1:]
	return cmd.Flags().Set("scope", scope)
}

// needsFlag refuses a command line without a flag, as one that is wrong: cobra does so after the command has begun.
func needsFlag(cmd *cobra.Command, flag string) {
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			return err
		}
		if !cmd.Flags().Changed(flag) {
			return fault.New(fault.Invalid, "usage", "--%s is missing", flag).WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

func (a *app) secretSet() *cobra.Command {
	in, exact := api.SecretInput{}, false
	cmd := a.withFormat(&cobra.Command{
		Use: "set NAME --scope SCOPE < FILE", Short: "Set a Secret to what stands on standard input, or to a reference", Args: nameAlone, ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Set a Secret. Its value is read from standard input, never from an argument, which others on this host could see:\n\n" +
			"  legwork secret set token --scope prod < token.txt\n\n" +
			"The line end behind a value of one line is no part of it; with --exact it is. With --reference it has no value here: a Runner gets\n" +
			"it on its own host when a Step needs it, and the Server never sees it:\n\n" +
			"  legwork secret set token --scope prod/network --reference '${vault:secret/data/app#token}'",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			in.Name, in.Kind = args[0], catalog.SecretReference
			if in.Reference != "" && a.isPiped() {
				return fault.New(fault.Invalid, "usage", "a Secret has either a reference or a value, and there is one on standard input").
					WithHint("leave out --reference, or what is piped in; where standard input is something else's: < /dev/null")
			}
			if in.Reference == "" {
				in.Kind = catalog.SecretValue
				if in.Value, err = a.secretValue(exact); err != nil {
					return err
				}
			}
			s, err := client.PutSecret(cmd.Context(), in)
			if err != nil {
				return err
			}
			return a.show(s, func() *table { return secretDetails(s) })
		},
	})
	scopeFlag(cmd, &in.Scope)
	cmd.Flags().StringVar(&in.Reference, "reference", "", "where a Runner gets it: ${file:...}, ${env:...}, ${command:...}, ${vault:...}, ${aws:...}, ${azure:...} or ${google:...}")
	cmd.Flags().StringVar(&in.Description, "description", "", "what it is for")
	cmd.Flags().BoolVar(&exact, "exact", false, "the line end at the end belongs to the value")
	cmd.MarkFlagsMutuallyExclusive("reference", "exact")
	return cmd
}

// nameAlone takes the name of a Secret. What stands behind it may be the value: it is not said again.
func nameAlone(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fault.New(fault.Invalid, "usage", "there is an argument too many: a value comes from standard input").WithHint("usage: %s", cmd.UseLine())
	}
	return exactly("NAME")(cmd, args)
}

// isPiped tells whether something is to be read from standard input. A pipe in which nothing comes soon counts as nothing: it
// may be one that is never closed.
func (a *app) isPiped() bool {
	if isTerminal(a.In) {
		return false
	}
	some := make(chan bool, 1)
	go func() {
		n, _ := io.ReadFull(a.In, make([]byte, 1))
		some <- n > 0
	}()
	select {
	case is := <-some:
		return is
	case <-time.After(pipeWait):
		return false
	}
}

// pipeWait is how long a pipe has to bring what it brings.
const pipeWait = 200 * time.Millisecond

// secretValue reads a value from standard input.
func (a *app) secretValue(exact bool) (*string, error) {
	if file, ok := a.In.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return nil, fault.New(fault.Invalid, "usage", "the value comes from standard input, and that is a terminal").
			WithHint("legwork secret set NAME --scope SCOPE < FILE, or from a program: pass show token | legwork secret set ...")
	}
	data, err := io.ReadAll(io.LimitReader(a.In, catalog.MaxSecretBytes+3))
	if err != nil {
		return nil, fmt.Errorf("read the value: %w", err)
	}
	value := string(data)
	if line := strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r"); !exact && !strings.Contains(line, "\n") {
		value = line
	}
	return &value, catalog.CheckSecretValue(value)
}

func (a *app) secretList() *cobra.Command {
	stack := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "list", Short: "List Secrets, without their values", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			secrets, err := client.Secrets(cmd.Context(), stack)
			if err != nil {
				return err
			}
			return a.show(secrets, func() *table {
				t := &table{head: []string{"SECRET", "SCOPE", "KIND", "CHANGED", "BY", "DESCRIPTION"}}
				for _, s := range secrets {
					t.add(s.Name, s.Scope, string(s.Kind), since(s.ChangedAt, time.Now()), s.ChangedBy, orDash(s.Description))
				}
				return t
			})
		},
	})
	cmd.Flags().StringVar(&stack, "stack", "", "those of one Stack alone")
	return cmd
}

func (a *app) secretShow() *cobra.Command {
	scope := ""
	cmd := a.withFormat(&cobra.Command{
		Use: "show NAME --scope SCOPE", Short: "Show what is known of a Secret, and where it is used; never its value", Args: exactly("NAME"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			v, err := client.Secret(cmd.Context(), args[0]+"@"+scope)
			if err != nil {
				return err
			}
			return a.show(v, func() *table {
				t := secretDetails(v.Secret)
				for _, use := range v.Uses {
					t.add("used by", string(use.Kind)+" "+use.Path+": "+use.Where)
				}
				return t
			})
		},
	})
	scopeFlag(cmd, &scope)
	return cmd
}

func secretDetails(s catalog.Secret) *table {
	t := &table{}
	t.add("secret", s.Name)
	t.add("scope", s.Scope)
	t.add("kind", string(s.Kind))
	if s.Reference != "" {
		t.add("reference", s.Reference)
	}
	if s.Description != "" {
		t.add("description", s.Description)
	}
	t.add("changed", s.ChangedAt.Local().Format(time.RFC3339)+" by "+s.ChangedBy)
	return t
}

func (a *app) secretDelete() *cobra.Command {
	scope, force := "", false
	cmd := a.deletes("secret", &cobra.Command{
		Use: "delete NAME --scope SCOPE", Short: "Delete a Secret that nothing uses", Args: exactly("NAME"), ValidArgsFunction: cobra.NoFileCompletions,
	}, func(ctx context.Context, client *api.Client, args []string) error {
		return client.DeleteSecret(ctx, args[0]+"@"+scope, force)
	})
	cmd.Flags().BoolVar(&force, "force", false, "also one that is used")
	scopeFlag(cmd, &scope)
	return cmd
}

func (a *app) secretPaths() *cobra.Command {
	in := api.SecretPlace{}
	cmd := a.withFormat(&cobra.Command{
		Use: "paths RUNNER [PLACE]", Short: "List which Secrets a Runner can have on its host; never their values",
		Long: "List which references a Runner can follow, without their values: a Job that it performs looks there.\n" +
			"A place is written as a reference: ${file:/run/secrets} (which it is by default), ${env:APP_}, ${vault:secret/data/app}, ${aws:app/},\n" +
			"${azure:https://NAME.vault.azure.net}, ${google:projects/NAME}. The Runner must be assigned to the whole Stack.",
		Example: "  legwork secret paths edge '${vault:secret/data/app}' --stack prod",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactly("RUNNER")(cmd, args)
		},
		ValidArgsFunction: a.completeRunners,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			in.Runner, in.Where = args[0], "${file:/run/secrets}"
			if len(args) > 1 {
				in.Where = args[1]
			}
			job, err := client.ListSecretPaths(cmd.Context(), in)
			if err != nil {
				return err
			}
			aside := *a // what the Job says is not what was asked for
			aside.Out = a.Err
			if err := aside.follow(cmd.Context(), client, job, false); err != nil {
				return err
			}
			found, err := client.SecretPaths(cmd.Context(), job.ID)
			if err != nil {
				return err
			}
			return a.show(found.Paths, func() *table {
				t := &table{head: []string{"REFERENCE"}}
				for _, path := range found.Paths {
					t.add(path)
				}
				return t
			})
		},
	})
	a.stackFlag(cmd, &in.Stack, "the Stack that the Runner is assigned to")
	needsFlag(cmd, "stack")
	return cmd
}
