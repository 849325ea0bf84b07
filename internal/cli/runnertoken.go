package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/access"
	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func (a *app) runnerToken() *cobra.Command {
	return parent("token", "Registration tokens: with one a Runner registers itself", a.runnerTokenCreate(), a.runnerTokenList(), a.runnerTokenRevoke())
}

func (a *app) runnerTokenCreate() *cobra.Command {
	var r api.RegistrationTokenRequest
	var expires time.Duration
	var unlimited bool
	cmd := a.withFormat(&cobra.Command{
		Use: "create [NAME]", Short: "Make a registration token and show it, this once", ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Make a registration token. A Runner that registers with it is assigned to nothing: what may use it is said with\n" +
			"legwork assignment create. It may have the labels of the token, and no others.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactly("NAME")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				r.Name = args[0]
			}
			if r.ExpiresIn = catalog.Duration(expires); expires <= 0 || r.Uses < 1 {
				return fault.New(fault.Invalid, "usage", "--expires and --uses must be greater than zero").WithHint("for example --expires 24h --uses 5; --unlimited for any number of uses")
			}
			if unlimited {
				r.Uses = access.UnlimitedUses
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			made, err := client.CreateRegistrationToken(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.show(made, func() *table {
				t := &table{}
				t.add("registration token", made.Name)
				t.add("id", made.ID)
				t.add("expires", made.ExpiresAt.UTC().Format(time.RFC3339))
				t.add("uses", usesOf(made.UsesLeft))
				for _, key := range sortedKeys(made.Labels) {
					t.add("label", key+"="+made.Labels[key])
				}
				t.add("token", made.Token+"  (shown this once)")
				return t
			})
		},
	})
	flags := cmd.Flags()
	flags.DurationVar(&expires, "expires", 24*time.Hour, "how long it holds; 1m at least, ten years at most")
	flags.Int64Var(&r.Uses, "uses", 1, "how many registrations, also of a Runner that registers again")
	flags.BoolVar(&unlimited, "unlimited", false, "any number of uses until it expires, for containers that come and go")
	flags.StringToStringVar(&r.Labels, "label", nil, "labels that a Runner may have, as key=value; without it none")
	flags.BoolVar(&r.GiveLabels, "give-labels", false, "give a Runner all of these labels, whatever its settings say")
	return cmd
}

func usesOf(left int64) string {
	if left == access.UnlimitedUses {
		return "any number"
	}
	return fmt.Sprint(left)
}

func (a *app) runnerTokenList() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "list", Short: "List registration tokens", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			tokens, err := client.RegistrationTokens(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(tokens, func() *table {
				t := &table{head: []string{"TOKEN", "ID", "STATE", "LABELS", "USES LEFT", "EXPIRES", "LAST USED", "BY"}}
				for _, r := range tokens {
					t.add(r.Name, r.ID, tokenState(r, time.Now()), tokenLabels(r), usesOf(r.UsesLeft), r.ExpiresAt.UTC().Format(time.RFC3339), since(r.LastUsedAt, time.Now()), r.CreatedBy)
				}
				return t
			})
		},
	})
}

func tokenLabels(r api.RegistrationToken) string {
	labels := make([]string, 0, len(r.Labels))
	for _, key := range sortedKeys(r.Labels) {
		labels = append(labels, key+"="+r.Labels[key])
	}
	return orDash(strings.Join(labels, ","))
}

func tokenState(r api.RegistrationToken, now time.Time) string {
	switch {
	case !now.Before(r.ExpiresAt):
		return "expired"
	case r.UsesLeft == 0:
		return "used up"
	}
	return "good"
}

func (a *app) runnerTokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN", Short: "End a registration token, by id or name; Runners that it registered go on", Args: exactly("TOKEN"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
				tokens, err := client.RegistrationTokens(ctx)
				names := make([]string, len(tokens))
				for i, r := range tokens {
					names[i] = r.ID + "\t" + r.Name
				}
				return names, err
			})
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if err := client.RevokeRegistrationToken(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "revoked registration token %s\n", clean(args[0]))
			return nil
		},
	}
}
