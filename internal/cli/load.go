package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
)

func (a *app) loadCommand() *cobra.Command {
	runner, last := "", time.Hour
	cmd := a.withFormat(&cobra.Command{Use: "load", Short: "Show queue and load over time", Args: exactly()})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		samples, err := client.Load(cmd.Context(), api.LoadQuery{Runner: runner, Minutes: max(int(last/time.Minute), 1)})
		if err != nil {
			return err
		}
		return a.show(samples, func() *table {
			t := &table{head: []string{"TIME", "WAITING", "OLDEST", "ACTIVE", "PLACES"}}
			for _, s := range samples {
				oldest := time.Duration(s.OldestSeconds * float64(time.Second)).Round(time.Second)
				t.add(s.At.Local().Format(time.DateTime), fmt.Sprint(s.Queued), oldest.String(), fmt.Sprint(s.Active), fmt.Sprint(s.Capacity))
			}
			return t
		})
	}
	cmd.Flags().StringVar(&runner, "runner", "", "of this Runner alone")
	_ = cmd.RegisterFlagCompletionFunc("runner", a.completeRunners) // the flag is there
	cmd.Flags().DurationVar(&last, "last", last, "how far back, at most 48h")
	return cmd
}
