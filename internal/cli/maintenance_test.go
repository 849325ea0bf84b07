package cli

import (
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/fault"
	"legwork/internal/work"
)

func TestMaintenanceIsShown(t *testing.T) {
	if got := shown(t, maintenanceTable(api.Maintenance{}, noon)); got != "maintenance  off\n" {
		t.Errorf("%q", got)
	}
	got := shown(t, maintenanceTable(api.Maintenance{On: true, By: "ann", Reason: "database", Since: noon}, noon.Add(time.Hour)))
	for _, part := range []string{"on, since 2026-01-02T12:00:00Z", "ann", "database"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in %q", part, got)
		}
	}
}

func TestWhyAJobWaitsAndItsPriorityAreShown(t *testing.T) {
	job := &work.Job{Number: 2, Status: work.Queued, CreatedAt: noon, Priority: work.PriorityHigh, Wait: work.Wait{Code: work.WaitRunnerFull, Text: "runner edge is full"}}
	got := shown(t, jobDetails(job, noon))
	if !strings.Contains(got, "runner edge is full (runner_full)\n") || !strings.Contains(got, "high\n") {
		t.Error(got)
	}
	if got := shown(t, jobTable([]*work.Job{job}, noon)); !strings.Contains(got, "high") {
		t.Error(got)
	}
}

func TestPriorityFlag(t *testing.T) {
	if p, err := priorityFlag("low"); err != nil || p != work.PriorityLow {
		t.Errorf("%q, %v", p, err)
	}
	_, err := priorityFlag("urgent")
	if f := fault.Of(err); f == nil || f.Hint != "--priority is low, normal or high" {
		t.Errorf("%+v", f)
	}
}
