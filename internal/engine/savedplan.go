package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// PlanKeeper is an Engine whose plan files can be applied on another host.
type PlanKeeper interface {
	// PlanFile returns the path of the file that a plan Step writes, and a digest of the selections that the plan
	// depends on, such as the versions of providers. ok is false if the Step writes no file.
	PlanFile(step work.StepKind, w Workspace) (path, lock string, ok bool, err error)
}

// SavePlan returns the plan file of a Step that succeeded, or nil if the Step writes none. A file larger than limit
// is a fault.TooLarge.
func SavePlan(e Engine, step work.StepKind, w Workspace, limit int) (*work.SavedPlan, error) {
	path, lock, ok, err := planFile(e, step, w)
	if err != nil || !ok {
		return nil, err
	}
	f, err := OpenJobFile(filepath.Dir(path), filepath.Base(path), int64(limit)+1)
	if err != nil {
		return nil, fmt.Errorf("read the plan file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("read the plan file: %w", err)
	}
	if len(data) > limit {
		return nil, fault.New(fault.TooLarge, "plan_file_too_large", "the plan file has more than the %d KiB that the Server keeps", limit>>10)
	}
	return &work.SavedPlan{File: data, Lock: lock}, nil
}

// errOtherSelections is the error of a plan file that does not fit.
var errOtherSelections = errors.New("the engine selected other versions of providers")

// RestorePlan writes a plan file to the path of the Step's own. It fails if the engine selected other versions here.
func RestorePlan(e Engine, step work.StepKind, w Workspace, plan *work.SavedPlan) error {
	path, lock, ok, err := planFile(e, step, w)
	if err != nil {
		return err
	}
	if !ok || lock != plan.Lock {
		return errOtherSelections
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("restore the plan file: %w", err)
	}
	if err := WriteJobFile(path, plan.File); err != nil {
		return fmt.Errorf("restore the plan file: %w", err)
	}
	return nil
}

func planFile(e Engine, step work.StepKind, w Workspace) (path, lock string, ok bool, err error) {
	k, ok := e.(PlanKeeper)
	if !ok {
		return "", "", false, nil
	}
	return k.PlanFile(step, w)
}
