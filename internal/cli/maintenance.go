package cli

import (
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
)

func (a *app) maintenanceCommand() *cobra.Command {
	var reason string
	on := a.maintenanceSet("on", true, "Start no further Job; those under way go on, and new ones may be submitted", &reason)
	on.Flags().StringVar(&reason, "reason", "", "why; it is shown at every Job that waits")
	return parent("maintenance", "Hold back all Jobs that are not under way", on,
		a.maintenanceSet("off", false, "Start Jobs again", new(string)), a.maintenanceStatus())
}

func (a *app) maintenanceSet(verb string, on bool, short string, reason *string) *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: verb, Short: short, Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			m, err := client.SetMaintenance(cmd.Context(), on, *reason)
			if err != nil {
				return err
			}
			return a.show(m, func() *table { return maintenanceTable(m, time.Now()) })
		},
	})
}

func (a *app) maintenanceStatus() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "status", Short: "Tell whether Jobs are held back", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			m, err := client.Maintenance(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(m, func() *table { return maintenanceTable(m, time.Now()) })
		},
	})
}

func maintenanceTable(m api.Maintenance, now time.Time) *table {
	t := &table{}
	if !m.On {
		t.add("maintenance", "off")
		return t
	}
	t.add("maintenance", "on, since "+m.Since.UTC().Format(time.RFC3339)+" ("+since(m.Since, now)+")")
	t.add("by", m.By)
	if m.Reason != "" {
		t.add("reason", m.Reason)
	}
	return t
}
