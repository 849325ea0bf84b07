// Package confine starts programs that must not see certain folders of their own user: jobs that run next to the data of a server.
//
// It uses Landlock, which needs no rights and holds for everything that the program starts, also for root. A confined program
//   - does not see what Policy.Hidden names, apart from what Policy.Read and Policy.Write name inside it;
//   - changes nothing but what Policy.Write names, and the folders of the host for temporary files;
//   - cannot trace, read the memory or the environment of, or (from Linux 6.12 on) signal programs outside;
//   - gains no rights by set-user-id programs, and has none of the capabilities that would lead out.
//
// Landlock does not restrict who may be asked for something through a socket. A service of the host that trusts the user, such as the
// Docker daemon, must not be reachable by it.
package confine

import (
	"encoding/json"
	"path/filepath"
	"strings"
)

// Policy says which files a program sees and changes. All paths are absolute.
type Policy struct {
	Hidden []string `json:"hidden"`          // files and folders that are not visible
	Read   []string `json:"read,omitempty"`  // inside Hidden: visible all the same
	Write  []string `json:"write,omitempty"` // may be changed, inside or outside of Hidden
	Home   string   `json:"home,omitempty"`  // HOME of the program: made when missing, may be changed
}

// With returns the Policy with more that may be read and changed. The Policy itself is not changed.
func (p Policy) With(read, write []string) Policy {
	p.Read = append(append([]string{}, p.Read...), read...)
	p.Write = append(append([]string{}, p.Write...), write...)
	return p
}

// Command returns the command line under which self, this program, starts argv confined.
func (p Policy) Command(self string, argv ...string) []string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // plain texts
	}
	return append([]string{self, "runner", "confine", string(text), "--"}, argv...)
}

// Parse reads the Policy of a command line that Command made.
func Parse(text string) (Policy, error) {
	var p Policy
	err := json.Unmarshal([]byte(text), &p)
	return p, err
}

// Hides reports whether the Policy hides a path. Symbolic links are followed as far as they exist.
func (p Policy) Hides(path string) bool {
	path = resolve(path)
	return within(path, resolved(p.Hidden)) && !within(path, resolved(p.Read)) && !within(path, resolved(p.Write))
}

// within reports whether path is, or lies in, one of the paths.
func within(path string, paths []string) bool {
	for _, at := range paths {
		if path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/") {
			return true
		}
	}
	return false
}

// contains reports whether one of the paths lies in the folder path, or is it.
func contains(path string, paths []string) bool {
	for _, at := range paths {
		if path == at || strings.HasPrefix(at, strings.TrimSuffix(path, "/")+"/") {
			return true
		}
	}
	return false
}

func resolved(paths []string) []string {
	real := make([]string, len(paths))
	for i, path := range paths {
		real[i] = resolve(path)
	}
	return real
}

// resolve follows symbolic links. The part of a path that does not exist stays as it is.
func resolve(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolve(parent), filepath.Base(path))
}
