package wire

import (
	"errors"
	"fmt"

	"legwork/internal/fault"
)

// CloseCode says why a Session ended. The codes stand in the range that RFC 6455 leaves to
// applications; they are never given another meaning.
type CloseCode int

// The close codes.
const (
	CloseNormal       CloseCode = 1000 // this end is done
	CloseTooBig       CloseCode = 1009 // a frame is larger than MaxFrame
	CloseShutdown     CloseCode = 4000 // the Server stops or restarts
	CloseProtocol     CloseCode = 4001 // a message is malformed or out of turn
	CloseCapability   CloseCode = 4002 // the two programs are too far apart in age
	CloseUnauthorized CloseCode = 4003 // the token is missing, wrong or has ended
	CloseUnknown      CloseCode = 4004 // there is no such Runner record
	CloseOrganization CloseCode = 4005 // the Runner belongs to another Organization
	CloseDuplicate    CloseCode = 4006 // another process holds this Instance name
	CloseDisabled     CloseCode = 4007 // the Runner record is disabled
	CloseSlow         CloseCode = 4008 // this end cannot keep up with what it is sent
	CloseReplaced     CloseCode = 4009 // a newer Session of the same Instance took the place
	CloseSilent       CloseCode = 4010 // nothing was heard for DeadAfter
	CloseForbidden    CloseCode = 4011 // a message about a Job that is not this Instance's
	CloseSingle       CloseCode = 4012 // the Runner record allows one Instance, and another one is there
	CloseUnavailable  CloseCode = 4013 // the Server cannot serve now, for example its database is away
	CloseOS           CloseCode = 4014 // the Runner record is for another operating system
	CloseHeld         CloseCode = 4015 // another process holds a Job under this Instance name, until its Lease ends
)

// closing is what a close code means to a program (permanent) and to a person.
type closing struct {
	name      string
	sentence  string
	hint      string
	kind      fault.Kind
	permanent bool
}

var closings = map[CloseCode]closing{
	CloseNormal:     {name: "normal", sentence: "the Session is over", kind: fault.Unavailable},
	CloseTooBig:     {name: "too_big", sentence: "a message is larger than a frame may be", kind: fault.TooLarge},
	CloseShutdown:   {name: "shutdown", sentence: "the Server is stopping", kind: fault.Unavailable},
	CloseProtocol:   {name: "protocol", sentence: "the other end sent something that makes no sense", kind: fault.Invalid},
	CloseCapability: {name: "capability", sentence: "Server and Runner are too far apart in age", hint: "upgrade the older of the two", kind: fault.Unsupported, permanent: true},
	CloseUnauthorized: {name: "unauthorized", sentence: "the Server does not take the Runner's token",
		hint: "the Runner gets a new token and tries again", kind: fault.Unauthenticated},
	CloseUnknown: {name: "unknown_runner", sentence: "the Server knows no such Runner",
		hint: "check Runner.Id; `legwork runner list` shows the Runners there are", kind: fault.NotFound, permanent: true},
	CloseOrganization: {name: "wrong_organization", sentence: "the Runner is not in this Organization",
		hint: "check Runner.OrganizationId; `legwork runner show` prints it", kind: fault.Forbidden, permanent: true},
	CloseDuplicate: {name: "duplicate_instance", sentence: "another process is connected under this Instance name",
		hint: "stop the other process, or set another Runner.Instance", kind: fault.Conflict},
	CloseDisabled: {name: "disabled", sentence: "the Runner record is disabled",
		hint: "enable the Runner on the Server; this process tries again by itself", kind: fault.Conflict},
	CloseSlow:     {name: "slow", sentence: "this end could not keep up with what it was sent", kind: fault.Unavailable},
	CloseReplaced: {name: "replaced", sentence: "a newer Session of this Instance took the place of this one", kind: fault.Unavailable},
	CloseSilent:   {name: "silent", sentence: "nothing was heard of the other end for too long", kind: fault.Unavailable},
	CloseForbidden: {name: "forbidden", sentence: "the Runner spoke of a Job that is not bound to it",
		hint: "the Jobs of this Session go on after the reconnect", kind: fault.Forbidden},
	CloseSingle: {name: "single_instance", sentence: "the Runner record allows one Instance, and another one is connected",
		hint: "stop the other process, or set allow_multiple_instances on the Runner record", kind: fault.Conflict},
	CloseOS: {name: "wrong_os", sentence: "the Runner record is for another operating system",
		hint: "use another Runner record, or change os of that one", kind: fault.Conflict, permanent: true},
	CloseHeld: {name: "instance_held", sentence: "another process holds a job under this Instance name, until its lease ends",
		hint: "wait until the lease ends; set another Runner.Instance if the other process is on another host", kind: fault.Conflict},
	CloseUnavailable: {name: "unavailable", sentence: "the Server cannot serve this Runner now", kind: fault.Unavailable},
}

// String gives the code's stable name, for example "duplicate_instance".
func (c CloseCode) String() string {
	if known, ok := closings[c]; ok {
		return known.name
	}
	return fmt.Sprintf("close_%d", int(c))
}

// Sentence says for a person what the code means; it stands for a reason that was not given.
func (c CloseCode) Sentence() string {
	if known, ok := closings[c]; ok {
		return known.sentence
	}
	return "the connection was closed"
}

// Permanent tells whether trying again is in vain until somebody changes something.
// CloseDuplicate and CloseSingle are not: the other process may be a dead one whose Lease runs out.
func (c CloseCode) Permanent() bool { return closings[c].permanent }

// CloseError is why a Session ended: the peer closed it, or this end did.
type CloseError struct {
	Code   CloseCode
	Reason string // one sentence, safe to show
}

// Error gives the sentence.
func (e *CloseError) Error() string {
	if e.Reason == "" {
		return e.Code.Sentence()
	}
	return e.Reason
}

// Fault gives the error as a fault with the hint that belongs to its code.
func (e *CloseError) Fault() *fault.Fault {
	known, ok := closings[e.Code]
	if !ok {
		known = closing{name: "connection_closed", kind: fault.Unavailable}
	}
	f := fault.New(known.kind, known.name, "%s", e.Error()).WithCause(e)
	if known.hint != "" {
		f = f.WithHint("%s", known.hint)
	}
	return f
}

// CodeOf returns the close code in err's chain, or 0 when there is none.
func CodeOf(err error) CloseCode {
	var closed *CloseError
	if errors.As(err, &closed) {
		return closed.Code
	}
	return 0
}
