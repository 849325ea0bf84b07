package cli

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/fault"
)

func (a *app) auditCommand() *cobra.Command {
	return parent("audit", "The audit: who did what, when, from where", a.auditList(), a.auditExport())
}

// auditFlags gives a command the flags that narrow the audit, and what reads them.
func auditFlags(cmd *cobra.Command) func() (api.AuditQuery, error) {
	var q api.AuditQuery
	var since, until string
	flags := cmd.Flags()
	flags.StringVar(&q.Actor, "actor", "", "only what this principal did, by name or id")
	flags.StringVar(&q.Action, "action", "", "only this action, such as job.submit, or all of its kind, such as job")
	flags.StringVar(&q.Subject, "subject", "", "only what was done to the thing with this id")
	flags.StringVar(&since, "since", "", "only from then on: a time such as 2026-11-20T08:00:00Z, or how long ago, such as 24h")
	flags.StringVar(&until, "until", "", "only before then")
	return func() (api.AuditQuery, error) {
		var err error
		if q.Since, err = momentFlag("since", since, time.Now()); err == nil {
			q.Until, err = momentFlag("until", until, time.Now())
		}
		return q, err
	}
}

// momentFlag reads a time, or how long before now it was.
func momentFlag(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = fault.New(fault.Invalid, "usage", "--%s %q is no time", name, text).WithHint("write 2026-11-20T08:00:00Z, or how long ago: 24h")
	}
	return at, err
}

func (a *app) auditList() *cobra.Command {
	limit := 100
	cmd := a.withFormat(&cobra.Command{Use: "list", Short: "List what was done, newest first", Args: exactly(), Aliases: []string{"ls"}})
	query := auditFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, "how many, at most 1000")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		q, err := query()
		if err != nil {
			return err
		}
		q.Limit = limit
		page, err := client.Audit(cmd.Context(), q)
		if err != nil {
			return err
		}
		return a.show(page.Items, func() *table {
			t := &table{head: []string{"TIME", "WHO", "ACTION", "WHAT", "EVENT", "FROM"}}
			for _, e := range page.Items {
				what, _ := e.What()
				t.add(e.Time.Local().Format(time.DateTime), e.Actor, e.Action, what, e.Kind, orDash(e.Address))
			}
			return t
		})
	}
	return cmd
}

func (a *app) auditExport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Write all of it to standard output, one JSON object per line, newest first", Args: exactly(),
	}
	query := auditFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		q, err := query()
		if err != nil {
			return err
		}
		for q.Limit = 1000; ; {
			page, err := client.Audit(cmd.Context(), q)
			if err != nil {
				return err
			}
			for _, e := range page.Items {
				line, err := json.Marshal(e)
				if err != nil {
					return err
				}
				if _, err := a.Out.Write(append(plainJSON(line), '\n')); err != nil {
					return err
				}
			}
			if page.Next == "" {
				return nil
			}
			if q.Before, err = strconv.ParseInt(page.Next, 10, 64); err != nil {
				return err
			}
		}
	}
	return cmd
}
