package pulumi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/work"
)

// Names of what a Job keeps in its folder.
const (
	planFile = "plan.json"
	hashFile = "plan.sha256" // what the plan Step recorded of planFile
)

// rootType is the type of the resource that stands for the stack itself.
const rootType = "pulumi:pulumi:Stack"

// resourcePlan is what a saved plan says of a resource, as far as it is shown. Values may be secret and stay.
type resourcePlan struct {
	Goal *struct {
		Type       string `json:"type"`
		OutputDiff struct {
			Adds    map[string]json.RawMessage `json:"adds"`
			Updates map[string]json.RawMessage `json:"updates"`
			Deletes []string                   `json:"deletes"`
		} `json:"outputDiff"`
	} `json:"goal"`
	Steps []string `json:"steps"`
}

// PlanFile implements engine.PlanKeeper. Of a destroy no plan is saved that another host could take.
func (e *Engine) PlanFile(step work.StepKind, w engine.Workspace) (path, lock string, ok bool, err error) {
	return filepath.Join(w.JobDir, planFile), "", step == work.StepPlan, nil
}

// readPlan reads the plan that a preview saved.
func readPlan(w engine.Workspace, result *work.StepResult) error {
	data, err := engine.ReadJobFile(w.JobDir, planFile, maxState)
	if err != nil {
		return err
	}
	var saved struct {
		Resources map[string]json.RawMessage `json:"resourcePlans"`
	}
	if err := json.Unmarshal(data, &saved); err != nil {
		return fmt.Errorf("the saved plan: %w", err)
	}
	var summary work.PlanSummary
	changes := []work.ResourceChange{}
	digest := sha256.New()
	for _, urn := range slices.Sorted(maps.Keys(saved.Resources)) {
		var plan resourcePlan
		if err := json.Unmarshal(saved.Resources[urn], &plan); err != nil {
			return fmt.Errorf("the saved plan of %s: %w", urn, err)
		}
		if plan.Goal != nil && plan.Goal.Type == rootType {
			diff := plan.Goal.OutputDiff
			summary.Outputs = len(diff.Adds) + len(diff.Updates) + len(diff.Deletes)
		} else if change := count(&summary, urn, plan.Steps); len(change.Actions) > 0 {
			changes = append(changes, change)
		}
		if err := digestOf(digest, urn, saved.Resources[urn]); err != nil {
			return err
		}
	}
	summary.Digest = hex.EncodeToString(digest.Sum(nil))
	return finish(w, result, summary, changes)
}

// digestOf takes in what a plan wants of a resource. A secret is enciphered anew in each preview, so that a plan with
// secrets is always a new one, and its approval asked for.
func digestOf(digest io.Writer, urn string, raw json.RawMessage) error {
	var wanted struct {
		Goal  json.RawMessage `json:"goal"`
		Steps []string        `json:"steps"`
	}
	if err := json.Unmarshal(raw, &wanted); err != nil {
		return fmt.Errorf("the saved plan of %s: %w", urn, err)
	}
	return json.NewEncoder(digest).Encode([]any{urn, wanted})
}

// count adds a resource to the summary and gives its change, which has no Actions when there is none.
func count(summary *work.PlanSummary, urn string, steps []string) work.ResourceChange {
	change := work.ResourceChange{Address: urn, Type: typeOf(urn)}
	for _, step := range steps {
		action := ""
		switch step {
		case "create", "create-replacement", "import", "import-replacement":
			summary.Add++
			action = "create"
		case "update":
			summary.Change++
			action = "update"
		case "delete", "delete-replaced":
			summary.Destroy++
			action = "delete"
		case "read", "read-replacement":
			action = "read"
		}
		if action != "" {
			change.Actions = append(change.Actions, action)
		}
	}
	return change
}

// typeOf gives the type out of urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME.
func typeOf(urn string) string {
	parts := strings.SplitN(urn, "::", 4)
	if len(parts) < 4 {
		return ""
	}
	return parts[2][strings.LastIndexByte(parts[2], '$')+1:]
}

// readDestroy reads from the state what a destroy would remove. Pulumi saves no plan of it: what is kept, and approved, is
// the list of the resources.
func (e *Engine) readDestroy(ctx context.Context, w engine.Workspace, result *work.StepResult) error {
	state, err := e.exportState(ctx, w)
	if err != nil {
		return err
	}
	var summary work.PlanSummary
	changes, urns := []work.ResourceChange{}, []string{}
	for _, r := range state.Deployment.Resources {
		if r.managed() {
			urns = append(urns, r.URN)
			changes = append(changes, count(&summary, r.URN, []string{"delete"}))
		}
	}
	list, err := json.Marshal(map[string]any{"destroy": urns})
	if err != nil {
		return err
	}
	if err := engine.WriteJobFile(filepath.Join(w.JobDir, planFile), list); err != nil {
		return fmt.Errorf("keep the plan: %w", err)
	}
	sum := sha256.Sum256(list)
	summary.Digest = hex.EncodeToString(sum[:])
	return finish(w, result, summary, changes)
}

// finish fills in the result of a plan, and records the hash of what may be applied.
func finish(w engine.Workspace, result *work.StepResult, summary work.PlanSummary, changes []work.ResourceChange) (err error) {
	if summary.Hash, err = hashOf(filepath.Join(w.JobDir, planFile)); err != nil {
		return fmt.Errorf("hash the plan: %w", err)
	}
	if err := engine.WriteJobFile(filepath.Join(w.JobDir, hashFile), []byte(summary.Hash+"\n")); err != nil {
		return fmt.Errorf("record the hash of the plan: %w", err)
	}
	result.Plan = &summary
	masker := process.NewMasker(w.Secrets) // a program may make names out of sensitive Inputs
	for i := range changes {
		changes[i].Address, changes[i].Type = masker.Mask(changes[i].Address), masker.Mask(changes[i].Type)
	}
	result.Changes, err = json.Marshal(changes)
	return err
}

// forgetPlan removes what a plan that failed, or an earlier one, has left: there is nothing to apply.
func forgetPlan(w engine.Workspace) error {
	for _, name := range []string{planFile, hashFile} {
		if err := os.Remove(filepath.Join(w.JobDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the former plan: %w", err)
		}
	}
	return nil
}

// verifyPlan tells whether the plan file is the one that the plan Step recorded and, where an approval was asked for, the
// approved one.
func verifyPlan(w engine.Workspace) error {
	recorded, err := engine.ReadJobFile(w.JobDir, hashFile, maxHash)
	var sum string
	if err == nil {
		sum, err = hashOf(filepath.Join(w.JobDir, planFile))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Conflict, "plan_missing", "there is no plan to apply on the Runner's host").WithHint("run the Job again").WithCause(err)
	case err != nil:
		return fmt.Errorf("hash the plan: %w", err)
	case sum != strings.TrimSpace(string(recorded)):
		return fault.New(fault.Conflict, "plan_changed", "the plan file is not the one that the plan Step made").
			WithHint("find out what wrote into the Job's folder on the Runner's host, then run the Job again")
	case w.Spec != nil && w.Spec.PlanHash != "" && sum != w.Spec.PlanHash:
		return fault.New(fault.Conflict, "plan_not_approved", "the plan on the Runner's host is not the approved one").
			WithHint("run the Job again and approve its plan")
	}
	return nil
}

func hashOf(path string) (string, error) {
	data, err := engine.ReadJobFile(filepath.Dir(path), filepath.Base(path), maxState)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}
