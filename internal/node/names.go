package node

import "strings"

// systems are the words by which operating systems are known, with what Go calls them. The first that a text holds counts.
var systems = []struct{ word, name string }{
	{"windows", "windows"}, {"darwin", "darwin"}, {"mac", "darwin"}, {"freebsd", "freebsd"}, {"openbsd", "openbsd"}, {"netbsd", "netbsd"},
	{"solaris", "solaris"}, {"sunos", "solaris"}, {"aix", "aix"}, {"linux", "linux"}, {"ubuntu", "linux"}, {"debian", "linux"}, {"centos", "linux"},
	{"red hat", "linux"}, {"redhat", "linux"}, {"rhel", "linux"}, {"fedora", "linux"}, {"rocky", "linux"}, {"suse", "linux"}, {"amazon", "linux"}, {"bottlerocket", "linux"},
}

// knownSystem gives what Go calls an operating system, or "" for one that is not known.
func knownSystem(text string) string {
	lower := strings.ToLower(text)
	for _, s := range systems {
		if strings.Contains(lower, s.word) {
			return s.name
		}
	}
	return ""
}

// systemName is knownSystem, with the text itself in small letters for one that is not known.
func systemName(text string) string {
	if name := knownSystem(text); name != "" {
		return name
	}
	return strings.ToLower(text)
}

var archNames = map[string]string{
	"x86_64": "amd64", "x64": "amd64", "x86-64": "amd64", "aarch64": "arm64", "armv8": "arm64", "i386": "386", "i486": "386", "i586": "386", "i686": "386",
	"x86": "386", "armv6l": "arm", "armv7l": "arm", "armhf": "arm",
}

// archName gives what Go calls an architecture, in small letters.
func archName(text string) string {
	lower := strings.ToLower(text)
	if name, ok := archNames[lower]; ok {
		return name
	}
	return lower
}

var withoutSigns = strings.NewReplacer("_", "", "-", "", ".", "", "/", "")

var secretWords = []string{"password", "passwd", "passphrase", "secret", "token", "privatekey", "apikey", "accesskey", "credential"}

// isSecretName tells whether an attribute of this name is likely to be a secret, which is never kept with a Node.
func isSecretName(name string) bool {
	plain := withoutSigns.Replace(strings.ToLower(name))
	for _, word := range secretWords {
		if strings.Contains(plain, word) {
			return true
		}
	}
	lower := strings.ToLower(name)
	return lower == "pass" || strings.HasSuffix(lower, "_pass") || strings.HasSuffix(lower, "-pass") || strings.HasPrefix(lower, "ansible_become")
}
