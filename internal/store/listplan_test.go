package store_test

import (
	"strings"
	"testing"
	"time"

	"legwork/internal/store"
)

// Lists of pages find what they show by an index, and read no whole table.
func TestPageListsUseIndices(t *testing.T) {
	for _, d := range []struct{ name, url string }{{"sqlite", newFile(t)}, {"postgres", postgresURL(t)}} {
		t.Run(d.name, func(t *testing.T) {
			s := openAt(t, d.url)
			org := fillJobs(t, s, "default", 50)
			now := time.Now()
			err := s.View(t.Context(), func(tx *store.Tx) error {
				for name, f := range map[string]store.AuditFilter{"all": {}, "actor": {Actor: "ann"}, "action": {Action: "job"}, "subject": {Subject: "s"},
					"since": {Since: now}, "older": {BeforeID: 9000}, "oldest": {OldestFirst: true, AfterID: 9},
					"everything": {Actor: "ann", Action: "job.submit", Since: now, BeforeID: 9}} {
					plan, err := tx.ExplainAudit(org, f)
					if err != nil || !findsIndex(plan) {
						t.Errorf("audit, %s: %v\n%s", name, err, plan)
					}
				}
				for name, explain := range map[string]func(string) (string, error){"samples": tx.ExplainSamples, "runners": tx.ExplainRunners, "instances": tx.ExplainInstances} {
					plan, err := explain(org)
					if err != nil || !findsIndex(plan) {
						t.Errorf("%s: %v\n%s", name, err, plan)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// findsIndex tells whether a plan reads no whole table.
func findsIndex(plan string) bool {
	for line := range strings.Lines(plan) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "SCAN ") || strings.Contains(line, "Seq Scan") && !strings.Contains(line, "event_base") { // which has one row
			return false
		}
	}
	return strings.Contains(plan, "INDEX") || strings.Contains(plan, "Index Cond")
}
