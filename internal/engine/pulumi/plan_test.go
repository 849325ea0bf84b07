package pulumi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/engine"
	"legwork/internal/work"
)

const urn = "urn:pulumi:prod::demo::"

// saved is a plan as a preview saves it, with a value that must not leave the host.
const saved = `{"manifest": {"time": "TIME"}, "resourcePlans": {
	"urn:pulumi:prod::demo::pulumi:pulumi:Stack::demo-prod": {"goal": {"type": "pulumi:pulumi:Stack", "outputDiff": {"adds": {"a": 1}, "updates": {"b": "s3cr3t"}, "deletes": ["c"]}}, "steps": ["same"]},
	"urn:pulumi:prod::demo::my:Group$aws:s3/bucket:Bucket::logs": {"goal": {"type": "aws:s3/bucket:Bucket", "inputDiff": {"adds": {"password": "s3cr3t"}}}, "steps": ["create"], "seed": "TIME"},
	"urn:pulumi:prod::demo::aws:ec2/instance:Instance::web": {"goal": {"type": "aws:ec2/instance:Instance"}, "steps": ["update"]},
	"urn:pulumi:prod::demo::aws:ec2/instance:Instance::db": {"goal": {"type": "aws:ec2/instance:Instance"}, "steps": ["create-replacement", "replace", "delete-replaced"]},
	"urn:pulumi:prod::demo::aws:ec2/instance:Instance::old": {"goal": null, "steps": ["delete"]},
	"urn:pulumi:prod::demo::aws:ec2/instance:Instance::still": {"goal": {"type": "aws:ec2/instance:Instance"}, "steps": ["same"]}}}`

func readSaved(t *testing.T, text string) work.StepResult {
	t.Helper()
	w := engine.Workspace{JobDir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(w.JobDir, planFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var result work.StepResult
	if err := readPlan(w, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestReadPlan(t *testing.T) {
	result := readSaved(t, saved)
	if p := *result.Plan; p.Add != 2 || p.Change != 1 || p.Destroy != 2 || p.Outputs != 3 {
		t.Errorf("got %+v", p)
	}
	if strings.Contains(string(result.Changes), "s3cr3t") {
		t.Error("a value leaves the host")
	}
	var changes []work.ResourceChange
	if err := json.Unmarshal(result.Changes, &changes); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range changes {
		got[strings.TrimPrefix(c.Address, urn)] = c.Type + " " + strings.Join(c.Actions, ",")
	}
	want := map[string]string{
		"my:Group$aws:s3/bucket:Bucket::logs": "aws:s3/bucket:Bucket create", "aws:ec2/instance:Instance::web": "aws:ec2/instance:Instance update",
		"aws:ec2/instance:Instance::db": "aws:ec2/instance:Instance create,delete", "aws:ec2/instance:Instance::old": "aws:ec2/instance:Instance delete"}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: got %q, want %q", name, got[name], text)
		}
	}
}

func TestDigest(t *testing.T) {
	first := readSaved(t, saved).Plan
	if later := readSaved(t, strings.ReplaceAll(saved, "TIME", "later")).Plan; later.Digest != first.Digest || later.Hash == first.Hash {
		t.Error("the same changes at another time have another digest, or another file the same hash")
	}
	if other := readSaved(t, strings.ReplaceAll(saved, "s3cr3t", "other")).Plan; other.Digest == first.Digest {
		t.Error("other values have the same digest")
	}
}

func FuzzReadPlan(f *testing.F) {
	f.Add(saved)
	f.Fuzz(func(t *testing.T, text string) {
		w := engine.Workspace{JobDir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(w.JobDir, planFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var result work.StepResult
		if err := readPlan(w, &result); err == nil && result.Plan == nil {
			t.Error("neither a plan nor an error")
		}
	})
}
