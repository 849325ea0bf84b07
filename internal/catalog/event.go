package catalog

import "strings"

// reservedEvents are the kinds of events, or their prefixes, that say what only the audit log says: who logged in from
// where, and whose rights changed.
var reservedEvents = []string{"user.", "principal.", "credential.", "registration_token.", "audit.", "manifest.revealed"}

// MayReadEvent reports whether the Actor may read an event of a kind. Some kinds are reserved for those who may read the
// audit log.
func (a Actor) MayReadEvent(kind string) bool {
	if a.Can(Administer) {
		return true
	}
	for _, reserved := range reservedEvents {
		if strings.HasPrefix(kind, reserved) {
			return false
		}
	}
	return a.Can(Read)
}
