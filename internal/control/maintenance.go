package control

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// Maintenance is a time in which no Job of an Organization is given out. What is under way goes on, and Jobs may be submitted.
type Maintenance struct {
	On     bool      `json:"on"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"` // name of who began it
	Since  time.Time `json:"since,omitzero"`
}

// maxReason bounds why there is maintenance, in bytes.
const maxReason = 200

// MaintenanceEvent is the data of the events "maintenance.on" and "maintenance.off", as JSON.
type MaintenanceEvent struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// Maintenance tells whether the Actor's Organization is in maintenance.
func (c *Control) Maintenance(ctx context.Context, actor catalog.Actor) (Maintenance, error) {
	return read(ctx, c, actor, func(tx *store.Tx) (Maintenance, error) {
		m, err := tx.Maintenance(actor.OrganizationID)
		return asMaintenance(m), err
	})
}

func asMaintenance(m *store.Maintenance) Maintenance {
	if m == nil {
		return Maintenance{}
	}
	return Maintenance{On: true, Reason: m.Reason, By: m.By, Since: m.Since}
}

// SetMaintenance begins maintenance of the Actor's Organization, or ends it. Begun twice, it goes on since
// and by whom it was, with the later reason if one is given. From the return on
// no Job is bound: a claim that is under way is over by then, or sees it. It outlives Servers.
func (c *Control) SetMaintenance(ctx context.Context, actor catalog.Actor, on bool, reason string) (Maintenance, error) {
	if err := actor.Need(catalog.Administer); err != nil {
		return Maintenance{}, err
	}
	if reason = strings.TrimSpace(reason); len(reason) > maxReason {
		return Maintenance{}, fault.New(fault.Invalid, "reason_too_long", "the reason is longer than %d bytes", maxReason).WithHint("say it in a few words")
	}
	var m *store.Maintenance
	err := c.store.Update(ctx, func(tx *store.Tx) error {
		if err := tx.LockCatalog(actor.OrganizationID); err != nil {
			return err
		}
		if err := tx.LockClaims(actor.OrganizationID); err != nil {
			return err
		}
		was, err := tx.Maintenance(actor.OrganizationID)
		if err != nil {
			return err
		}
		kind := "maintenance.off"
		if m = nil; on {
			kind, m = "maintenance.on", &store.Maintenance{Reason: oneLine(reason), By: actor.Name, Since: tx.Now()}
			if was != nil {
				m.By, m.Since, m.Reason = was.By, was.Since, cmp.Or(m.Reason, was.Reason)
			}
		}
		tx.Sign(actor, kind)
		if err := tx.SetMaintenance(actor.OrganizationID, m); err != nil {
			return err
		}
		return c.publish(tx, actor.OrganizationID, kind, actor.OrganizationID, MaintenanceEvent{By: actor.Name, Reason: reason})
	})
	if err != nil {
		return Maintenance{}, err
	}
	c.redeclared(actor.OrganizationID)
	return asMaintenance(m), nil
}

// maintenanceText is why a Job waits.
func maintenanceText(m *store.Maintenance) string {
	text := fmt.Sprintf("%s began maintenance: nothing new is started until legwork maintenance off", m.By)
	if m.Reason != "" {
		text = fmt.Sprintf("%s began maintenance (%s): nothing new is started until legwork maintenance off", m.By, m.Reason)
	}
	return text
}
