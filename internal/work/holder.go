package work

import "encoding/hex"

// The reasons of Forgotten and Displaced.
const (
	forgottenReason = "its instance came back without its journal entry"
	displacedReason = "another process with another key now uses the name of its instance"
)

// HeldBy reports whether an Instance that proved a key, by its fingerprint, is the one that claimed the Job. A name alone
// proves nothing: another working directory can present the same one while the processes of the first still run.
func (j *Job) HeldBy(instanceID, fingerprint string) bool {
	return j.Binding != nil && j.Binding.heldBy(instanceID, fingerprint)
}

// HeldBy reports whether the instance is the one that held the attempt, by the same rule as Job.HeldBy.
func (r *Resumable) HeldBy(instanceID, fingerprint string) bool {
	return r.Binding.heldBy(instanceID, fingerprint)
}

func (b *Binding) heldBy(instanceID, fingerprint string) bool {
	return b.InstanceID == instanceID && b.Fingerprint == fingerprint
}

// Forgotten returns the event for a bound Job whose Instance proved its key and has no journal entry of the Attempt, or
// nil when the Lease has to pass first.
//
// An Instance writes the entry before it begins anything. Where nothing of the Attempt was reported either, the message
// with its first Step was lost, and the Job is queued again. Where the Server knows that the Attempt began, the entry was
// deleted, or the folder is an older copy: the processes of a mutating Step may still run.
func Forgotten(j *Job) Event {
	lost := LeaseLost{Attempt: j.Attempt, Reason: forgottenReason, Gone: true}
	if step := j.underWay(); step == nil || !step.Changing || !j.begun() {
		return lost
	}
	if j.HasLease() && j.Limits.RecoveryWindow <= 0 {
		return nil
	}
	lost.Gone = false
	return lost
}

// Displaced returns the event for a bound Job when a process with another key was admitted under the name of its Instance,
// or nil when nothing changes. A Job that holds a Lease is never displaced. An interrupted one keeps its recovery window.
func Displaced(j *Job) Event {
	if j.HasLease() {
		return nil
	}
	return LeaseLost{Attempt: j.Attempt, Reason: displacedReason}
}

// begun reports whether the bound Instance reported anything of the present Attempt.
func (j *Job) begun() bool {
	for _, s := range j.Steps {
		if !s.StartedAt.IsZero() && !s.StartedAt.Before(j.Binding.ClaimedAt) {
			return true
		}
	}
	return false
}

// maxFingerprintBytes bounds how much of the hash of an instance key a fingerprint shows.
const maxFingerprintBytes = 16

// KeyFingerprint returns the form of an instance key's hash that records keep and that people may see.
func KeyFingerprint(keyHash []byte) string {
	return hex.EncodeToString(keyHash[:min(maxFingerprintBytes, len(keyHash))])
}
