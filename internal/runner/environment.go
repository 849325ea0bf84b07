package runner

import "strings"

// IsSetting tells whether an environment variable is one of the Runner's own settings, among which are its
// credentials. What the Runner starts inherits none of them.
func IsSetting(name string) bool {
	upper := strings.ToUpper(name)
	return strings.HasPrefix(upper, "LEGWORK_") || strings.HasPrefix(upper, "RUNNER__")
}

// baseEnviron is what commands inherit of the Runner's environment: everything but its own settings.
func baseEnviron(environ []string) []string {
	kept := make([]string, 0, len(environ))
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); !IsSetting(name) {
			kept = append(kept, entry)
		}
	}
	return kept
}
