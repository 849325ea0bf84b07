package source

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// maxName bounds paths and revisions.
const maxName = 4096

// check refuses a Request before anything is touched.
func check(r Request) error {
	if !filepath.IsAbs(r.ModuleDir) {
		return fault.New(fault.Internal, "internal", "the folder of the Module is no absolute path")
	}
	if _, err := cleanPath("subdirectory", r.Source.Subdirectory, true); err != nil {
		return err
	}
	for _, extra := range r.ExtraFiles {
		name, err := cleanPath("Extra file", extra.FileName, false)
		if err != nil {
			return err
		}
		if isState(name) {
			return badPath("Extra file", extra.FileName, "has the name of a file that holds the Module's local state")
		}
	}
	switch r.Source.Type {
	case "":
		return nil // nothing to fetch: a script that is its own text
	case catalog.Inline:
		return checkInline(r.Source.Files)
	case catalog.Git:
		if r.Commit != "" && !isFullID(r.Commit) {
			return fault.New(fault.Invalid, "bad_revision", "the pinned commit %q is no full commit id", r.Commit)
		}
		return checkRevision(r.Source.Revision)
	}
	return fault.New(fault.Invalid, "bad_source", "there is no source of type %q", r.Source.Type).
		WithHint("use git or inline")
}

func checkInline(files map[string]string) error {
	if len(files) == 0 {
		return fault.New(fault.Invalid, "bad_source", "the inline source has no files").
			WithHint("give the Module source.files")
	}
	for name := range files {
		clean, err := cleanPath("file", name, false)
		if err != nil {
			return err
		}
		if clean != name {
			return badPath("file", name, "is not written in its shortest form, "+clean)
		}
	}
	return nil
}

// cleanPath gives the shortest form of a path that stays inside of where it starts.
func cleanPath(what, name string, empty bool) (string, error) {
	clean := path.Clean("./" + name)
	switch {
	case name == "" && empty:
		return ".", nil
	case clean == "." && !empty:
		return "", badPath(what, name, "names no file")
	case path.IsAbs(name), !filepath.IsLocal(filepath.FromSlash(clean)):
		return "", badPath(what, name, "leads out of the source")
	case len(name) > maxName, strings.ContainsFunc(name, isControl):
		return "", badPath(what, name, "is too long or has control characters")
	case slices.Contains(strings.Split(clean, "/"), ".git"):
		return "", badPath(what, name, "leads into a .git folder")
	}
	return clean, nil
}

func badPath(what, name, problem string) *fault.Fault {
	if len(name) > 200 {
		name = name[:200] + "..."
	}
	return fault.New(fault.Invalid, "bad_path", "the %s %q %s", what, name, problem).
		WithHint("use a relative path that stays in the source")
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// checkRevision keeps away what git would read as something other than a name: options, expressions, patterns.
// The rules are those of git check-ref-format.
func checkRevision(revision string) error {
	bad := len(revision) > maxName || strings.HasPrefix(revision, "-") || strings.HasPrefix(revision, "/") ||
		strings.HasSuffix(revision, "/") || strings.HasSuffix(revision, ".") || strings.HasSuffix(revision, ".lock") ||
		strings.Contains(revision, "..") || strings.Contains(revision, "//") || strings.Contains(revision, "@{") ||
		strings.ContainsAny(revision, " ~^:?*[\\") || strings.ContainsFunc(revision, isControl)
	if bad {
		return fault.New(fault.Invalid, "bad_revision", "%.200q can be no revision", revision).
			WithHint("name a branch, a tag or a commit id")
	}
	return nil
}

// isHex tells whether s may be a commit id or the beginning of one.
func isHex(s string) bool {
	return len(s) >= 4 && strings.Trim(s, "0123456789abcdef") == ""
}

// isFullID tells whether s is a whole commit id, of SHA-1 or SHA-256.
func isFullID(s string) bool { return isHex(s) && (len(s) == 40 || len(s) == 64) }

// isState tells whether a path is part of the local state of OpenTofu or Terraform.
func isState(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if part == ".terraform" || part == "terraform.tfstate.d" {
			return true
		}
	}
	base := strings.TrimSuffix(path.Base(name), ".backup")
	return strings.HasSuffix(base, ".tfstate") || strings.HasSuffix(base, ".tfstate.lock.info")
}
