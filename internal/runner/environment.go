package runner

import "strings"

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
