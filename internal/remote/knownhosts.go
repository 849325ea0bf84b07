package remote

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the form of hashed names in known_hosts files demands it
	"encoding/base64"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys is what known_hosts files say (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"). Lines that cannot be read are left out, as
// ssh does: one bad line is no reason to trust or to refuse the others.
type hostKeys struct {
	lines   []hostLine
	revoked map[string]bool // marshaled keys
}

type hostLine struct {
	patterns  []string
	key       ssh.PublicKey
	authority bool
}

// add reads lines of a known_hosts file.
func (h *hostKeys) add(text []byte) {
	for line := range bytes.Lines(text) {
		marker, patterns, key, _, _, err := ssh.ParseKnownHosts(line)
		if err != nil {
			continue
		}
		switch marker {
		case "revoked":
			if h.revoked == nil {
				h.revoked = map[string]bool{}
			}
			h.revoked[string(key.Marshal())] = true
		case "", "cert-authority":
			h.lines = append(h.lines, hostLine{patterns: patterns, key: key, authority: marker != ""})
		}
	}
}

// keys gives the keys known for an address "host:port", and those of the authorities for it.
func (h *hostKeys) keys(address string) (plain, authorities []ssh.PublicKey) {
	name := strings.ToLower(knownhosts.Normalize(address))
	for _, line := range h.lines {
		if !line.matches(name) {
			continue
		}
		if line.authority {
			authorities = append(authorities, line.key)
		} else {
			plain = append(plain, line.key)
		}
	}
	return plain, authorities
}

func (h *hostKeys) isRevoked(key ssh.PublicKey) bool {
	if certificate, ok := key.(*ssh.Certificate); ok {
		return h.revoked[string(certificate.Key.Marshal())] || h.revoked[string(certificate.SignatureKey.Marshal())]
	}
	return h.revoked[string(key.Marshal())]
}

func (l hostLine) matches(name string) bool {
	matched := false
	for _, pattern := range l.patterns {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if strings.HasPrefix(pattern, "|1|") && hashMatches(pattern, name) || wildcardMatches(strings.ToLower(pattern), name) {
			if negated {
				return false
			}
			matched = true
		}
	}
	return matched
}

// hashMatches compares a name with "|1|salt|hash".
func hashMatches(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	want, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), want)
}

// wildcardMatches knows "*" and "?". It takes time in proportion to both lengths, whatever the pattern is.
func wildcardMatches(pattern, name string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// algorithms gives the host key algorithms to ask for, best first. Those of the known keys come first: a server that
// has several keys would otherwise show one that is not known. Certificates are asked for only where an authority is known.
func (h *hostKeys) algorithms(address string) []string {
	plain, authorities := h.keys(address)
	var wanted []string
	if len(authorities) > 0 {
		wanted = append(wanted, ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
			ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01)
	}
	for _, key := range plain {
		if key.Type() == ssh.KeyAlgoRSA {
			wanted = append(wanted, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else if slices.Contains(plainAlgorithms, key.Type()) {
			wanted = append(wanted, key.Type())
		}
	}
	var unique []string
	for _, algorithm := range append(wanted, plainAlgorithms...) {
		if !slices.Contains(unique, algorithm) {
			unique = append(unique, algorithm)
		}
	}
	return unique
}

var plainAlgorithms = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
