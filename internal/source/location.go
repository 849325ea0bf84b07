package source

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/url"
	"path"
	"strings"

	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
)

// location is a git URL that was looked at.
type location struct {
	raw      string // as it was declared; may hold a password
	url      string // as git gets it: without credentials
	scheme   string // https, http, ssh or file
	base     string // for https and http: scheme://host, what credentials are asked for
	user     string
	password string
}

// scpForm is ssh's short form, user@host:path.
var scpForm = lazyregexp.New(`^([A-Za-z0-9_][A-Za-z0-9_.-]*@)?([A-Za-z0-9][A-Za-z0-9.-]*):([^:].*)$`)

// locate checks a URL that a user has declared.
func locate(raw string) (location, error) {
	l := location{raw: raw, url: raw}
	if raw == "" || len(raw) > maxName || strings.ContainsFunc(raw, isControl) {
		return l, badURL("the git URL is empty, too long, or has control characters")
	}
	if path.IsAbs(raw) {
		l.scheme = "file"
		return l, nil
	}
	if !strings.Contains(raw, "://") {
		if !scpForm.MatchString(raw) {
			return l, badURL("the git URL has no scheme")
		}
		l.scheme = "ssh"
		return l, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return l, badURL("the git URL cannot be read") // the error would show the URL
	}
	return l.parsed(u)
}

func (l location) parsed(u *url.URL) (location, error) {
	l.scheme = u.Scheme
	if u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return l, badURL("the git URL has a query or a fragment")
	}
	if strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-") {
		return l, badURL("the git URL has a host or a user that begins with a dash")
	}
	switch {
	case u.Scheme == "file":
		if u.Host != "" && u.Host != "localhost" || u.User != nil {
			return l, badURL("the file URL names another host")
		}
		return l, nil
	case u.Host == "":
		return l, badURL("the git URL names no host")
	case u.Scheme == "ssh":
		l.user = u.User.Username()
		if u.User != nil {
			u.User = url.User(l.user) // ssh takes no password from a URL
		}
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		l.user = u.User.Username()
		l.password, _ = u.User.Password()
		u.User = nil
		l.base = u.Scheme + "://" + u.Host
	case u.Scheme == "http":
		return l, badURL("plain http is not safe: the code could be changed on its way")
	default:
		return l, badURL("there is no git URL of scheme %.20q", u.Scheme)
	}
	l.url = u.String()
	return l, nil
}

func badURL(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, "bad_url", format, args...).
		WithHint("use an https, ssh or file URL, such as https://example.com/infra.git")
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// key names the mirror. URLs that differ in their credentials have mirrors of their own, so that nobody
// reads through a mirror what his credentials do not give him.
func (l location) key() string {
	sum := sha256.Sum256([]byte(l.raw))
	return hex.EncodeToString(sum[:16])
}

// protocols is what git may speak, in the form of GIT_ALLOW_PROTOCOL. The settings of the host may rewrite
// one kind of URL into another.
func (l location) protocols() string {
	if l.scheme == "http" {
		return "https:ssh:file:http"
	}
	return "https:ssh:file"
}

// hide takes credentials out of a text.
func (l location) hide(text string) string {
	secrets := []string{l.password, url.QueryEscape(l.password), url.PathEscape(l.password)}
	if l.scheme == "https" || l.scheme == "http" {
		secrets = append(secrets, l.raw)
	}
	for _, s := range secrets {
		if s != "" && s != l.url {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

// submodule gives the location of a submodule, whose URL may be relative to this one. A repository that
// came over the network cannot make the host read its own files.
func (l location) submodule(raw string) (location, error) {
	if strings.HasPrefix(raw, "./") || strings.HasPrefix(raw, "../") {
		joined, err := l.join(raw)
		if err != nil {
			return location{}, err
		}
		raw = joined
	}
	sub, err := locate(raw)
	if err != nil {
		return sub, err
	}
	if local := sub.scheme == "file" || sub.scheme == "http"; local && sub.scheme != l.scheme {
		return sub, badURL("a submodule must not be at a %s URL, when its parent is at a %s one", sub.scheme, l.scheme)
	}
	return sub, nil
}

// join resolves a relative URL as git does: against the parent as if that were a folder.
func (l location) join(relative string) (string, error) {
	head, tail := "", l.raw
	if i := strings.Index(tail, "://"); i >= 0 {
		slash := strings.IndexByte(tail[i+3:], '/')
		if slash < 0 {
			return "", badURL("the URL of a submodule leads out of its host")
		}
		head, tail = tail[:i+3+slash], tail[i+3+slash:]
	} else if l.scheme == "ssh" {
		i := strings.IndexByte(tail, ':')
		head, tail = tail[:i+1], "/"+tail[i+1:]
		joined := path.Join(tail, relative)
		return head + strings.TrimPrefix(joined, "/"), nil
	}
	return head + path.Join(tail, relative), nil
}
