package boot

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/confine"
	"legwork/internal/launcher"
)

// The values of the setting isolation.
const (
	isolationLandlock = "landlock"
	isolationNone     = "none"
)

// checkIsolation checks what runs next to the Server's data, and how it is kept from it.
func (s *ServerSettings) checkIsolation(h *host, problem report) {
	h.path(&s.LauncherScripts, "launcher_scripts", problem)
	for i := range s.IsolationWritable {
		h.path(&s.IsolationWritable[i], "isolation_writable", problem)
	}
	if slices.Contains(s.Launchers, catalog.LaunchExec) && s.LauncherScripts == "" {
		problem("launcher_scripts", "is missing: launcher exec runs scripts of that folder only")
	}
	if s.Isolation != isolationLandlock {
		return
	}
	policy := s.isolationPolicy()
	for _, folder := range s.IsolationWritable {
		if policy.Hides(folder) {
			problem("isolation_writable", "holds %s, which belongs to the Server", quoted(folder))
		}
	}
	if err := confine.Supported(); err != nil && (s.LocalRunner || slices.Contains(s.Launchers, catalog.LaunchProcess)) {
		problem("isolation", "cannot be landlock on this host: %s", err)
	}
}

// isolationPolicy returns what Jobs on the Server's host see and change.
func (s *ServerSettings) isolationPolicy() confine.Policy {
	hidden := []string{s.Data}
	for _, path := range []string{s.MasterKeyFile, s.TLSKey, s.file, blobFolder(s.BlobURL.Reveal())} {
		if path != "" {
			hidden = append(hidden, path)
		}
	}
	for i, path := range hidden {
		if absolute, err := filepath.Abs(path); err == nil {
			hidden[i] = absolute
		}
	}
	return confine.Policy{Hidden: hidden, Write: slices.Clone(s.IsolationWritable)}
}

// blobFolder returns the folder of a blob_url; "" when it is none.
func blobFolder(blobs string) string {
	if !strings.Contains(blobs, "://") {
		return blobs
	}
	if u, err := url.Parse(blobs); err == nil && u.Scheme == "file" {
		return u.Path
	}
	return ""
}

// confinement returns the policy for Jobs on the Server's host, nil without isolation.
func (s *ServerSettings) confinement() *confine.Policy {
	if s.Isolation == isolationNone {
		return nil
	}
	policy := s.isolationPolicy()
	return &policy
}

// launcherLimits returns what the Server's own Runner may launch.
func (s *ServerSettings) launcherLimits() *launcher.Limits {
	return &launcher.Limits{Kinds: s.Launchers, Scripts: s.LauncherScripts, Confine: s.confinement()}
}
