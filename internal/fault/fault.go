// Package fault is the one error type that crosses package borders with a meaning.
//
// A Fault has a kind (which every face maps to its own status: HTTP, close code, exit code), a stable
// code for programs, a sentence that is safe to show to the user, and a hint that says what to do.
// Errors below the border are wrapped with fmt.Errorf as usual; they become a Fault where their
// meaning is known. The cause of a Fault is for the program's own log and is never shown.
package fault

import (
	"errors"
	"fmt"
)

// Kind groups faults by what the caller can do about them.
type Kind uint8

// The kinds. The zero Kind is Internal, so that an unmapped error is never mistaken for a mild one.
const (
	Internal        Kind = iota // a defect or an unexpected failure; the sentence says nothing of its cause
	Invalid                     // the request itself is wrong and will stay so
	Unauthenticated             // no or wrong credentials
	Forbidden                   // known, but not allowed
	NotFound                    // no such thing, or none that the caller may see
	Conflict                    // the state of things forbids it now
	TooLarge                    // over a limit of size or number
	RateLimited                 // too many requests
	Unavailable                 // cannot be reached or served now; trying again may help
	Failed                      // the work was done and failed: a Job, an engine, a Hook
	Unsupported                 // versions that cannot speak to one another
)

var kindNames = [...]string{
	"internal", "invalid", "unauthenticated", "forbidden", "not_found", "conflict",
	"too_large", "rate_limited", "unavailable", "failed", "unsupported",
}

// String gives the kind's stable name, for example "not_found".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "internal"
}

// Fault is an error with a meaning. Make one with New; the With methods return changed copies.
type Fault struct {
	Kind    Kind
	Code    string    // stable, snake_case, for programs: "module_not_assigned"
	Message string    // one sentence for a person, without a full stop, never with a secret
	Hint    string    // what to do about it, one sentence; may be empty
	Details []Problem // the single problems of an Invalid fault; may be empty
	cause   error
}

// Problem is one of several things wrong with a request or a file.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`  // 1-based; 0 when it has none
	Field   string `json:"field,omitempty"` // path such as "inputs[2].module"
	Message string `json:"message"`
}

// String gives "file:line: field: message" with the parts that are known.
func (p Problem) String() string {
	s := p.Message
	if p.Field != "" {
		s = p.Field + ": " + s
	}
	switch {
	case p.File != "" && p.Line > 0:
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, s)
	case p.File != "":
		return p.File + ": " + s
	case p.Line > 0:
		return fmt.Sprintf("line %d: %s", p.Line, s)
	}
	return s
}

// New makes a Fault. The message is formatted as by fmt.Sprintf and must be safe to show.
func New(kind Kind, code, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithHint returns a copy whose hint says what to do.
func (f *Fault) WithHint(format string, args ...any) *Fault {
	c := *f
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithCause returns a copy that wraps err; err is for the program's log only.
func (f *Fault) WithCause(err error) *Fault {
	c := *f
	c.cause = err
	return &c
}

// WithDetails returns a copy that lists single problems.
func (f *Fault) WithDetails(details ...Problem) *Fault {
	c := *f
	c.Details = details
	return &c
}

// Error gives the message alone: what is safe to show.
func (f *Fault) Error() string { return f.Message }

// Unwrap gives the cause, for errors.Is and errors.As and for the program's own log.
func (f *Fault) Unwrap() error { return f.cause }

// Retryable tells whether the same request may succeed later without a change.
func (f *Fault) Retryable() bool { return f.Kind == Unavailable || f.Kind == RateLimited }

// Of returns the Fault in err's chain. Any other error becomes an Internal one that
// keeps err as its cause and shows nothing of it. Of(nil) is nil.
func Of(err error) *Fault {
	if err == nil {
		return nil
	}
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return New(Internal, "internal", "something went wrong inside the program").
		WithHint("look at the program's own log for the cause").WithCause(err)
}

// Is tells whether err's chain holds a Fault of this kind.
func Is(err error, kind Kind) bool {
	var f *Fault
	return errors.As(err, &f) && f.Kind == kind
}

// Code gives the code of the Fault in err's chain, or "" when there is none.
func Code(err error) string {
	var f *Fault
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}
