package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"legwork/internal/api"
)

// deletes completes a command that deletes what its arguments name. The command asks before, and says afterwards
// what it deleted.
func (a *app) deletes(kind string, cmd *cobra.Command,
	remove func(ctx context.Context, client *api.Client, args []string) error) *cobra.Command {
	yes := false
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		subject := kind + " " + strings.Join(args, " ")
		if err := a.confirm("Delete "+subject+"?", yes); err != nil {
			return err
		}
		if err := remove(cmd.Context(), client, args); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Out, "deleted %s\n", clean(subject))
		return err
	}
	return cmd
}
