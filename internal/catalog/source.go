package catalog

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxURL      = 2048
	maxPath     = 1024
	maxSegment  = 255
	maxRevision = 255
)

func (s Source) isEmpty() bool {
	return s.Type == "" && s.URL == "" && s.Revision == "" && s.Subdirectory == "" && len(s.Files) == 0
}

func (c *checker) source(s Source) {
	if s.isEmpty() {
		return
	}
	choice(c, "source.type", s.Type, []SourceType{Git, Inline}, true)
	switch s.Type {
	case Git:
		c.gitURL("source.url", s.URL)
		c.revision("source.revision", s.Revision)
		if len(s.Files) > 0 {
			c.add("source.files", "is for an inline source: a git source has its files already")
		}
	case Inline:
		if s.URL != "" {
			c.add("source.url", "is for a git source: an inline source carries its files")
		}
		if s.Revision != "" {
			c.add("source.revision", "is for a git source: an inline source has none")
		}
		c.files(s.Files)
	}
	if s.Subdirectory != "" {
		c.relative("source.subdirectory", s.Subdirectory)
	}
}

func (c *checker) files(files map[string]string) {
	switch {
	case len(files) == 0:
		c.add("source.files", `is missing: an inline source carries its files, such as {main.tf: "..."}`)
	case len(files) > MaxFiles:
		c.add("source.files", "has %d files, more than %d", len(files), MaxFiles)
	default:
		names := make(map[string]string, len(files))
		for _, name := range sortedKeys(files) {
			at := "source.files[" + name + "]"
			names[name] = at
			c.fileName(at, name)
			c.text(at, files[name])
		}
		c.noFileIsFolder(names)
	}
}

// noFileIsFolder refuses a file "a" beside a file "a/b". names gives the field of each name.
func (c *checker) noFileIsFolder(names map[string]string) {
	for _, name := range sortedKeys(names) {
		for i, r := range name {
			if field, ok := names[name[:i]]; r == '/' && i > 0 && ok {
				c.add(field, "is a file, but %s needs it to be a folder", brief(name))
			}
		}
	}
}

// gitURL allows https, ssh and file URLs and user@host:path. Git understands more (a program as
// transport, local paths, options), which is what must not come from outside. What is wrong is said
// without the URL, since it may hold a password.
func (c *checker) gitURL(field, url string) {
	const forms = "an https, ssh or file URL, or user@host:path"
	scheme, rest, hasScheme := strings.Cut(url, "://")
	switch {
	case url == "":
		c.add(field, "is missing: a git source wants %s", forms)
	case len(url) > maxURL:
		c.add(field, "has %d letters, more than %d", len(url), maxURL)
	case strings.HasPrefix(url, "-"):
		c.add(field, "begins with -, which git would take for an option: it wants %s", forms)
	case strings.ContainsFunc(url, notURL):
		c.add(field, "has a space or another character that a URL cannot contain: escape it, such as %%20; it wants %s", forms)
	case strings.ContainsAny(url, "?#"):
		c.add(field, "has a ? or #: say the branch, tag or commit in source.revision and the folder in source.subdirectory")
	case !hasScheme:
		c.scpURL(field, url)
	case scheme == "file":
		if host, _, _ := strings.Cut(rest, "/"); !strings.Contains(rest, "/") || (host != "" && host != "localhost") {
			c.add(field, "wants a whole path on the Runner's host: file:///srv/git/infra.git")
		}
	case scheme == "https" || scheme == "ssh":
		c.networkURL(field, scheme, rest)
	default:
		c.add(field, "the scheme %s is not allowed: it wants %s", brief(scheme), forms)
	}
}

func (c *checker) networkURL(field, scheme, rest string) {
	authority, path, _ := strings.Cut(rest, "/")
	user, host := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, host = authority[:at], authority[at+1:]
	}
	switch {
	case strings.Contains(user, ":") || (scheme == "https" && looksLikeToken(user)):
		c.add(field, "holds a password or token, which everybody who sees the Module would see: leave it out and give git its credentials on the Runner's host")
	case strings.HasPrefix(user, "-") || !isHost(host):
		c.add(field, "wants %s://host/path with the host's name or address", scheme)
	case path == "":
		c.add(field, "has no path: it wants %s://host/path", scheme)
	}
}

func (c *checker) scpURL(field, url string) {
	user, rest, hasUser := strings.Cut(url, "@")
	host, path, hasPath := strings.Cut(rest, ":")
	if !hasUser || !hasPath || path == "" || user == "" || strings.ContainsAny(user, ":/") ||
		!isHost(host) || strings.HasPrefix(path, "-") || strings.HasPrefix(path, ":") {
		c.add(field, "wants an https, ssh or file URL, or user@host:path")
	}
}

// looksLikeToken knows the forms of access tokens that some put in the place of a user name.
func looksLikeToken(user string) bool {
	marks := []string{"ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "oauth2", "x-token-auth"}
	return slices.ContainsFunc(marks, func(m string) bool { return strings.HasPrefix(user, m) })
}

// isHost allows a name, an IPv4 address or [IPv6], each with an optional :port, never a leading "-".
func isHost(s string) bool {
	name, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		name, port = s[:i], s[i+1:]
		if port == "" || strings.Trim(port, "0123456789") != "" || len(port) > 5 {
			return false
		}
	}
	if v6, ok := strings.CutPrefix(name, "["); ok {
		v6, ok = strings.CutSuffix(v6, "]")
		return ok && v6 != "" && strings.Trim(v6, "0123456789abcdefABCDEF:.") == ""
	}
	inside := strings.ToLower(name)
	return name != "" && name[0] != '-' && name[0] != '.' && strings.Trim(inside, "abcdefghijklmnopqrstuvwxyz0123456789-._") == ""
}

func notURL(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("\\\"<>^`{|}", r)
}

// revision allows what git allows as the name of a branch or tag, and commits.
func (c *checker) revision(field, rev string) {
	switch {
	case rev == "":
	case len(rev) > maxRevision:
		c.add(field, "has %d letters, more than %d", len(rev), maxRevision)
	case strings.HasPrefix(rev, "-"):
		c.add(field, "begins with -, which git would take for an option: it wants a branch, tag or commit")
	case strings.ContainsFunc(rev, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("~^:?*[\\", r) }),
		strings.Contains(rev, ".."), strings.Contains(rev, "@{"), strings.HasSuffix(rev, "/"), !utf8.ValidString(rev):
		c.add(field, "%s is not the name of a branch, tag or commit", brief(rev))
	}
}

func (c *checker) fileName(field, name string) {
	if name == "" {
		c.add(field, "a file's name is missing")
		return
	}
	c.relative(field, name)
	if strings.HasSuffix(name, "/") {
		c.add(field, "ends with a slash: it wants the name of a file")
	}
}

// relative allows a path below a folder, with slashes, that means the same on every host.
func (c *checker) relative(field, path string) {
	path = strings.TrimSuffix(path, "/")
	segments := strings.Split(path, "/")
	switch {
	case strings.HasPrefix(path, "/") || path == "":
		c.add(field, "is absolute: it wants a path relative to the source")
	case strings.HasPrefix(path, "-"):
		c.add(field, "begins with -, which programs would take for an option")
	case len(path) > maxPath || slices.ContainsFunc(segments, func(s string) bool { return len(s) > maxSegment }):
		c.add(field, "is too long: a path has at most %d letters, each part at most %d", maxPath, maxSegment)
	case !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl):
		c.add(field, "has a control letter or is not UTF-8")
	case strings.ContainsAny(path, `\`):
		c.add(field, "has a backslash: folders are separated by / everywhere")
	case len(path) > 1 && path[1] == ':':
		c.add(field, "has a drive: it wants a path relative to the source")
	case slices.Contains(segments, ".."):
		c.add(field, "has .. in it: it may not lead out of the source")
	case slices.Contains(segments, ".") || slices.Contains(segments, ""):
		c.add(field, "has an empty part or . in it: leave it out")
	case slices.ContainsFunc(segments, func(s string) bool { return strings.EqualFold(s, ".git") }):
		c.add(field, "leads into .git, which belongs to git alone")
	}
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
