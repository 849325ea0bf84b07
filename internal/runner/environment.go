package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// baseEnviron is what commands inherit of the Runner's environment: everything but its own settings, among
// which are its credentials.
func baseEnviron(environ []string) []string {
	kept := make([]string, 0, len(environ))
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if upper := strings.ToUpper(name); strings.HasPrefix(upper, "LEGWORK_") || strings.HasPrefix(upper, "RUNNER__") {
			continue
		}
		kept = append(kept, entry)
	}
	return kept
}

// shortName makes a short name of a longer one: temporary folders hold Unix sockets, whose paths
// must be short.
func shortName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:5])
}
