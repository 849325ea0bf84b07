package fault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"legwork/internal/fault"
)

func TestOfShowsNothingOfAnUnknownError(t *testing.T) {
	cause := errors.New("password=hunter2")
	f := fault.Of(fmt.Errorf("doing something: %w", cause))
	if f.Kind != fault.Internal || f.Error() == cause.Error() || !errors.Is(f, cause) {
		t.Fatalf("%v %q", f.Kind, f.Error())
	}
	if fault.Of(nil) != nil {
		t.Fatal("no error became a fault")
	}
}

func TestOfFindsTheFaultThatWasWrapped(t *testing.T) {
	inner := fault.New(fault.NotFound, "no_such_thing", "there is no %s", "thing").WithHint("look elsewhere").WithCause(fs.ErrNotExist)
	err := fmt.Errorf("asking for it: %w", inner)
	if f := fault.Of(err); f != inner || f.Message != "there is no thing" || f.Hint != "look elsewhere" {
		t.Fatalf("%+v", f)
	}
	if !fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) || fault.Code(err) != "no_such_thing" || !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("the fault is not found in the chain")
	}
	if fault.Is(fs.ErrNotExist, fault.NotFound) || fault.Code(fs.ErrNotExist) != "" {
		t.Fatal("an error that is no fault has a kind")
	}
}

func TestWithLeavesTheOriginalAlone(t *testing.T) {
	f := fault.New(fault.Invalid, "bad", "bad")
	_ = f.WithHint("hint")
	_ = f.WithDetails(fault.Problem{Message: "m"})
	_ = f.WithCause(fs.ErrExist)
	if f.Hint != "" || f.Details != nil || f.Unwrap() != nil {
		t.Fatalf("%+v", f)
	}
}

func TestKinds(t *testing.T) {
	if fault.Kind(200).String() != "internal" || fault.Unsupported.String() != "unsupported" || fault.RateLimited.String() != "rate_limited" {
		t.Fatal("kinds and their names do not match")
	}
	for kind, again := range map[fault.Kind]bool{fault.Unavailable: true, fault.RateLimited: true, fault.Conflict: false, fault.Internal: false} {
		if fault.New(kind, "c", "m").Retryable() != again {
			t.Errorf("%s: retryable is not %v", kind, again)
		}
	}
}

func TestProblemSaysWhereItIs(t *testing.T) {
	for want, p := range map[string]fault.Problem{
		"m":            {Message: "m"},
		"f: m":         {Field: "f", Message: "m"},
		"a.yaml: m":    {File: "a.yaml", Message: "m"},
		"line 3: m":    {Line: 3, Message: "m"},
		"a:3: f: m":    {File: "a", Line: 3, Field: "f", Message: "m"},
		"line 3: f: m": {Line: 3, Field: "f", Message: "m"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
