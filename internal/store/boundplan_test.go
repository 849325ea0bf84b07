package store

import (
	"strings"
	"testing"
)

// TestJobsUnderWayAreFoundByTheirOwnIndex: what is asked of Jobs that are bound, or that wait, reads those alone, however many an
// Organization has had.
func TestJobsUnderWayAreFoundByTheirOwnIndex(t *testing.T) {
	s, _ := openFile(t)
	for query, index := range map[string]string{
		selectBoundJobs:      "jobs_of_instance (instance_id=?",
		selectPlacesTaken:    "jobs_of_instance (instance_id=?",
		selectPlacesOfRunner: "jobs_of_runner (runner_id=?",
		selectPlacesOfOrg:    "jobs_of_runner",
		selectQueueDepth:     "jobs_queue",
		selectQueuedOf:       "jobs_queued_of_module (module_id=?",
		selectModuleBusy:     "jobs_bound_once (lane=?",

		selectRunnerJobsWaiting: "jobs_runner_waiting (lane=?",
		selectWaitingUpdates:    "jobs_runner_waiting",
		selectPlacesAmong + " AND runner_id IN ($2, $3) GROUP BY runner_id, instance_id": "jobs_of_runner (runner_id=?",
		selectOpenLaunchesOf + " AND runner_id IN ($2, $3) ORDER BY id":                  "launches_open (org=? AND runner_id=?",
		selectInstancesOf + " AND runner_id IN ($2, $3) ORDER BY name, id":               "(org=? AND runner_id=?",
		selectParts:  "jobs_parts (parent_id=?",
		selectRunsOf: "jobs_runs",
		countWaiting: "jobs_runs",

		openRunPage + openRunOrder + "$1":                                                                                        "jobs_runs",
		openRunPage + " AND (rank_at, number, id) > ($1, $2, $3)" + openRunOrder + "$4":                                          "jobs_runs",
		"SELECT parent_id, status, attempt FROM jobs WHERE parent_id <> '' AND parent_id IN ($1, $2) ORDER BY parent_id, number": "jobs_parts (parent_id=?",
	} {
		err := s.View(t.Context(), func(tx *Tx) error {
			plan, err := tx.explainQuery(query, make([]any, strings.Count(query, "$"))...)
			if !strings.Contains(plan, index) {
				t.Errorf("%s\nis read by %s", query, plan)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}
