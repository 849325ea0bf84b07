package work

import (
	"encoding/json"
	"time"

	"legwork/internal/catalog"
)

// limitsText is how Limits are written: durations as people write them, "1m0s".
type limitsText struct {
	MaxAttempts    int              `json:"max_attempts"`
	Lease          catalog.Duration `json:"lease"`
	RecoveryWindow catalog.Duration `json:"recovery_window"`
	ApprovalWindow catalog.Duration `json:"approval_window"`
	StepTimeout    catalog.Duration `json:"step_timeout"`
	StallTimeout   catalog.Duration `json:"stall_timeout"`
	JobTimeout     catalog.Duration `json:"job_timeout,omitempty"`
}

// MarshalJSON writes durations as text.
func (l Limits) MarshalJSON() ([]byte, error) {
	return json.Marshal(limitsText{
		MaxAttempts: l.MaxAttempts, Lease: catalog.Duration(l.Lease), RecoveryWindow: catalog.Duration(l.RecoveryWindow),
		ApprovalWindow: catalog.Duration(l.ApprovalWindow), StepTimeout: catalog.Duration(l.StepTimeout), StallTimeout: catalog.Duration(l.StallTimeout),
		JobTimeout: catalog.Duration(l.JobTimeout),
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Limits) UnmarshalJSON(b []byte) error {
	var t limitsText
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	*l = Limits{
		MaxAttempts: t.MaxAttempts, Lease: time.Duration(t.Lease), RecoveryWindow: time.Duration(t.RecoveryWindow),
		ApprovalWindow: time.Duration(t.ApprovalWindow), StepTimeout: time.Duration(t.StepTimeout), StallTimeout: time.Duration(t.StallTimeout),
		JobTimeout: time.Duration(t.JobTimeout),
	}
	return nil
}
