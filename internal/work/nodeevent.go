package work

import (
	"encoding/json"
	"fmt"
	"time"
)

// LogID gives the id under which the Job's log is stored: that of the Runbook Job for a Part, else its own.
func (j *Job) LogID() string {
	if j.ParentID != "" {
		return j.ParentID
	}
	return j.ID
}

// MaxLogIndex bounds Node and Item of a Record, and those of a NodeEvent.
const MaxLogIndex = 1_000_000

// ParseNodeEvent reads the data of a Record of the stream Progress. It refuses what no Instance writes: no JSON, a status
// that is not known or pending, a Node below -1, an Item below 0, times that are no times of this era. That Node and Item are
// those of the Job is for the caller to see.
func ParseNodeEvent(data []byte) (NodeEvent, error) {
	var e NodeEvent
	if len(data) > MaxRecordBytes {
		return e, fmt.Errorf("a NodeEvent of %d bytes", len(data))
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return NodeEvent{}, fmt.Errorf("no NodeEvent: %w", err)
	}
	switch e.Status {
	case NodeRunning, NodeSucceeded, NodeFailed, NodeRecovered, NodeIgnored, NodeSkipped, NodeNotRun, NodeCanceled, NodeUnknown:
	default:
		return NodeEvent{}, fmt.Errorf("a NodeEvent of the status %.40q", e.Status)
	}
	if e.Node < -1 || e.Node > MaxLogIndex || e.Item < 0 || e.Item > MaxLogIndex || e.Tries < 0 {
		return NodeEvent{}, fmt.Errorf("a NodeEvent of the Node %d and the Item %d", e.Node, e.Item)
	}
	for _, at := range []time.Time{e.Started, e.Finished} {
		if year := at.UTC().Year(); year < 1 || year > 9998 {
			return NodeEvent{}, fmt.Errorf("a NodeEvent of the year %d", year)
		}
	}
	return e, nil
}
