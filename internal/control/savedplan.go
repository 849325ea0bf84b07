package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"legwork/internal/control/secrets"
	"legwork/internal/fault"
	"legwork/internal/store"
	"legwork/internal/work"
)

// maxSavedPlan bounds a stored plan file in bytes. Together with the changes of the plan it has to fit into one frame.
const maxSavedPlan = 2 << 20

// savedPlan is a plan that waits for approval. It is stored sealed, one for each Job. Another Instance may apply it if
// planOrigin is equal.
type savedPlan struct {
	Plan   work.SavedPlan `json:"plan"`
	Hash   string         `json:"hash"` // of the file, which is what was approved
	Origin planOrigin     `json:"origin"`
}

// planOrigin describes how a plan was made, as far as the Server knows. The Instance compares the commit and the
// selected providers.
type planOrigin struct {
	Engine  string `json:"engine"`
	Version string `json:"version"` // of the engine
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Inputs  string `json:"inputs"` // digest
}

func savedPlanKey(job string) string { return "plans/" + job + "/approval.sealed" }

// asksApproval reports whether a Job waits for approval before one of its Steps.
func asksApproval(j *work.Job) bool {
	return slices.ContainsFunc(j.Steps, func(s work.Step) bool { return s.Approval })
}

// planOriginAt returns the origin of a plan that an Instance makes for a Job.
func (c *Control) planOriginAt(tx *store.Tx, j *work.Job, instanceID string, inputs []work.InputValue) (planOrigin, error) {
	snapshot, err := tx.JobSnapshot(j.OrganizationID, j.ID)
	if err != nil {
		return planOrigin{}, err
	}
	i, err := tx.Instance(j.OrganizationID, instanceID)
	if err != nil {
		return planOrigin{}, err
	}
	text, err := json.Marshal(slices.Concat([]work.InputValue{}, inputs))
	if err != nil {
		return planOrigin{}, err
	}
	sum := sha256.Sum256(text)
	engine := string(snapshot.Module.Engine)
	return planOrigin{Engine: engine, Version: i.Engines[engine], OS: i.OS, Arch: i.Arch, Inputs: hex.EncodeToString(sum[:])}, nil
}

// keepPlan stores the plan file of a Job that is about to wait for approval. A failure is logged and does not affect
// the result: the plan is made again if its Instance ends.
func (c *Control) keepPlan(ctx context.Context, j *work.Job, step int, r work.StepResult) {
	asked := step+1 < len(j.Steps) && j.Steps[step+1].Approval
	if r.SavedPlan == nil || r.Plan == nil || !asked || r.Status != work.StepSucceeded || j.Binding == nil {
		return
	}
	if err := c.putPlan(ctx, j, r); err != nil {
		c.log.Warn("a plan could not be kept until its approval", "job_id", j.ID, "error", err)
	}
}

func (c *Control) putPlan(ctx context.Context, j *work.Job, r work.StepResult) error {
	if size := len(r.SavedPlan.File); size > maxSavedPlan {
		return fault.New(fault.TooLarge, "plan_file_too_large", "the plan file has %d bytes, more than %d", size, maxSavedPlan)
	}
	kept := savedPlan{Plan: *r.SavedPlan, Hash: r.Plan.Hash}
	err := c.store.View(ctx, func(tx *store.Tx) error {
		inputs, err := c.claimedInputs(tx, j)
		if err != nil {
			return err
		}
		kept.Origin, err = c.planOriginAt(tx, j, j.Binding.InstanceID, inputs)
		return err
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	sealed, err := c.safe.Seal(text, secrets.OfPlan(j.ID))
	if err != nil {
		return err
	}
	return c.blobs.Put(ctx, savedPlanKey(j.ID), bytes.NewReader(sealed))
}

// claimedInputs returns the Inputs of the present Attempt of a Job.
func (c *Control) claimedInputs(tx *store.Tx, j *work.Job) ([]work.InputValue, error) {
	sealed, err := tx.JobInputs(j.ID, j.Attempt)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.safe.OpenResolved(j.ID, j.Attempt, sealed)
}

// addPlan adds the approved plan of an earlier Attempt to the Spec of a Job if it fits the Instance. Otherwise, or
// after an error, the Instance plans again.
func (c *Control) addPlan(ctx context.Context, org, jobID, instanceID string, spec *work.Spec) {
	if spec.KeepPlan == 0 { // nothing of the Job is approved
		return
	}
	var j *work.Job
	var origin planOrigin
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		if j, err = tx.Job(org, jobID); err != nil || !takesPlan(j) {
			return err
		}
		origin, err = c.planOriginAt(tx, j, instanceID, spec.Inputs)
		return err
	})
	if err == nil && takesPlan(j) {
		spec.Plan, err = c.planFor(ctx, j, origin)
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("an approved plan cannot be used again", "job_id", jobID, "error", err)
	}
}

// takesPlan reports whether a Job was approved in an earlier Attempt and has not planned in this one.
func takesPlan(j *work.Job) bool {
	return j.Kind == work.ModuleJob && j.Approval != nil && j.Approval.PlanHash != "" && j.Plan() == nil
}

// planFor returns the stored plan of a Job if it is the approved one and its origin is equal, otherwise nil.
func (c *Control) planFor(ctx context.Context, j *work.Job, origin planOrigin) (*work.SavedPlan, error) {
	object, err := c.blobs.Get(ctx, savedPlanKey(j.ID))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := object.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // an incomplete text does not open
	sealed, err := io.ReadAll(io.LimitReader(r, 4*maxSavedPlan))
	if err != nil {
		return nil, err
	}
	text, err := c.safe.Open(sealed, secrets.OfPlan(j.ID))
	if err != nil {
		return nil, err
	}
	var kept savedPlan
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, fmt.Errorf("read a plan that was kept: %w", err)
	}
	if kept.Hash != j.Approval.PlanHash || kept.Origin != origin {
		return nil, nil
	}
	return &kept.Plan, nil
}

// dropPlan deletes the kept plan of a Job that is over.
func (c *Control) dropPlan(j *work.Job) {
	if !asksApproval(j) {
		return
	}
	c.background(func(ctx context.Context) {
		if err := c.blobs.Delete(ctx, savedPlanKey(j.ID)); err != nil && !fault.Is(err, fault.NotFound) && ctx.Err() == nil {
			c.log.Warn("a kept plan could not be deleted", "job_id", j.ID, "error", err)
		}
	})
}
