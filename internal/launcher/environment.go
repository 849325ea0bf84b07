package launcher

import (
	"path"
	"slices"
	"strings"
)

// passed are the variables of a Runner's process that what it launches on its host gets, too: where programs and the user's home are, the
// language, the time zone, proxies and certificate authorities. A trailing * stands for any end.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

// Passed gives those entries of an environment, NAME=value, that what is launched on this host gets: passed, and what Host.Environment
// names. Settings are never among them.
func (h Host) Passed(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !IsSetting(name) && (matches(passed, name) || matches(h.Environment, name)) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// IsSetting tells whether a variable is, or could be, a setting of a Runner or a Server, in any of the forms that boot reads.
func IsSetting(name string) bool {
	return strings.HasPrefix(strings.ToUpper(name), "LEGWORK_") || strings.Contains(name, "__")
}

func matches(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, name)
		return ok && err == nil
	})
}
