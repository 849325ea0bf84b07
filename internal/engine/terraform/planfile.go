package terraform

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// The limits of files that are read here. A plan file is only hashed.
const (
	maxHash     = 1 << 10
	maxPlanFile = 1 << 30
)

// forgetPlan removes what a plan that failed, or an earlier one, has left: there is nothing to apply.
func forgetPlan(w engine.Workspace) error {
	for _, name := range []string{planFile, hashFile} {
		if err := os.Remove(filepath.Join(w.JobDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the former plan: %w", err)
		}
	}
	return nil
}

// recordPlan hashes the plan file and keeps the hash beside it.
func recordPlan(w engine.Workspace) (string, error) {
	sum, err := hashOf(engine.OpenJobFile(w.JobDir, planFile, maxPlanFile))
	if err != nil {
		return "", fmt.Errorf("hash the plan: %w", err)
	}
	if err := engine.WriteJobFile(filepath.Join(w.JobDir, hashFile), []byte(sum+"\n")); err != nil {
		return "", fmt.Errorf("record the hash of the plan: %w", err)
	}
	return sum, nil
}

// dependencyLock is where init writes which providers it selected.
const dependencyLock = ".terraform.lock.hcl"

// PlanFile implements engine.PlanKeeper. A plan contains the selected providers,
// and fits only the same lock file.
func (e *Engine) PlanFile(step work.StepKind, w engine.Workspace) (path, lock string, ok bool, err error) {
	if step != work.StepPlan && step != work.StepPlanDestroy {
		return "", "", false, nil
	}
	lock, err = hashOf(w.OpenFile(dependencyLock, maxPlanFile))
	if errors.Is(err, fs.ErrNotExist) {
		lock, err = "", nil // no provider but the built-in one
	}
	return filepath.Join(w.JobDir, planFile), lock, err == nil, err
}

// verifyPlan tells whether the plan file is the very one that the plan Step made and, where an approval was
// asked for, the approved one.
func verifyPlan(w engine.Workspace) error {
	recorded, err := engine.ReadJobFile(w.JobDir, hashFile, maxHash)
	if errors.Is(err, fs.ErrNotExist) {
		return planGone(err)
	}
	if err != nil {
		return fmt.Errorf("read the recorded hash of the plan: %w", err)
	}
	sum, err := hashOf(engine.OpenJobFile(w.JobDir, planFile, maxPlanFile))
	if errors.Is(err, fs.ErrNotExist) {
		return planGone(err)
	}
	if err != nil {
		return fmt.Errorf("hash the plan: %w", err)
	}
	if sum != strings.TrimSpace(string(recorded)) {
		return fault.New(fault.Conflict, "plan_changed", "the plan file is not the one that the plan Step made").
			WithHint("find out what wrote into the Job's folder on the Runner's host, then run the Job again")
	}
	if w.Spec != nil && w.Spec.PlanHash != "" && sum != w.Spec.PlanHash {
		return fault.New(fault.Conflict, "plan_not_approved", "the plan on the Runner's host is not the approved one").
			WithHint("run the Job again and approve its plan")
	}
	return nil
}

func planGone(cause error) error {
	return fault.New(fault.Conflict, "plan_missing", "there is no plan to apply on the Runner's host").
		WithHint("run the Job again").WithCause(cause)
}

func hashOf(f io.ReadCloser, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
