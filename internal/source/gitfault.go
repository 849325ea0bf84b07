package source

import (
	"errors"
	"strings"

	"legwork/internal/fault"
)

// complaints tell git's failures apart. Git has no codes for them, so its words are read, in the one language
// it is told to speak. What is not known counts as unreachable, which trying again may help.
var complaints = []struct {
	words []string
	make  func(where string) *fault.Fault
}{
	{[]string{"No space left on device", "Disk quota exceeded"}, func(string) *fault.Fault { return diskFull() }},
	{[]string{"dubious ownership"}, func(where string) *fault.Fault {
		return fault.New(fault.Forbidden, "source_auth", "git refuses the repository %s, which belongs to another user", where).
			WithHint("give the folder to the Runner's user, or name it in safe.directory of that user's git settings")
	}},
	{[]string{"Host key verification failed", "REMOTE HOST IDENTIFICATION"}, func(where string) *fault.Fault {
		return fault.New(fault.Forbidden, "source_auth", "the host key of %s is not known to the Runner's host", where).
			WithHint("add the key to the known_hosts file of the Runner's user, once its fingerprint is checked")
	}},
	{[]string{"Authentication failed", "could not read Username", "could not read Password", "Permission denied",
		"Invalid username or password", "returned error: 401", "returned error: 403", "HTTP Basic: Access denied"}, func(where string) *fault.Fault {
		return fault.New(fault.Forbidden, "source_auth", "%s does not let the Runner in", where).
			WithHint("give the Runner's host a key or a credential helper for it, and that user the right to read")
	}},
	{[]string{"transport '", "not supported or disabled in libcurl"}, func(where string) *fault.Fault {
		return fault.New(fault.Invalid, "bad_url", "%s leads to a protocol that is not safe", where).
			WithHint("use an https or ssh URL that does not redirect elsewhere")
	}},
	{[]string{"certificate", "SSL"}, func(where string) *fault.Fault {
		return fault.New(fault.Unavailable, "source_unreachable", "the certificate of %s is not trusted by the Runner's host", where).
			WithHint("add its authority to the host, or name a file in GIT_SSL_CAINFO of the Runner's environment")
	}},
	{[]string{"' not found", "not found:", "does not appear to be a git repository", "does not exist", "returned error: 404",
		"Repository not found", "not a git repository", "not valid: is this a git repository"}, func(where string) *fault.Fault {
		return fault.New(fault.NotFound, "source_not_found", "there is no git repository at %s", where).
			WithHint("check source.url of the Module; a private repository also looks so to those who may not read it")
	}},
}

// meaning turns a failed git command that spoke to a remote into a fault, and writes what git said into the
// Job's log.
func (g *git) meaning(err error, at location) error {
	var failed *gitError
	if !errors.As(err, &failed) {
		return err
	}
	g.tell(failed.stderr)
	for _, c := range complaints {
		for _, words := range c.words {
			if strings.Contains(failed.stderr, words) {
				return c.make(at.url).WithCause(err)
			}
		}
	}
	return fault.New(fault.Unavailable, "source_unreachable", "%s cannot be reached from the Runner's host", at.url).
		WithHint("check the host name, the network and the proxy of the Runner's host; git's own words are in the log").WithCause(err)
}

// isGit tells whether an error is a git command that failed and of which nothing better is known yet.
func isGit(err error) bool {
	var failed *gitError
	return fault.Code(err) == "" && errors.As(err, &failed)
}

// tell writes the last lines of what git said into the Job's log.
func (g *git) tell(text string) {
	lines := strings.Split(text, "\n")
	for _, line := range lines[max(0, len(lines)-maxSaid):] {
		if line = strings.TrimSpace(line); line != "" {
			g.say("git: " + line)
		}
	}
}

// noRevision is the fault of a revision that is not there.
func noRevision(revision string, at location, why string) *fault.Fault {
	if revision == "" {
		revision = "HEAD"
	}
	return fault.New(fault.NotFound, "revision_not_found", "%.200q %s in %s", revision, why, at.url).
		WithHint("check source.revision of the Module: a branch, a tag or a commit id")
}
