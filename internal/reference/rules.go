package reference

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"legwork/internal/fault"
)

// Schemes lists what a reference may begin with.
var Schemes = []string{"file", "env", "command", "vault", "aws", "azure", "google"}

// Rules bound what references may be followed that came from elsewhere. The zero value lets all through.
type Rules struct {
	Schemes []string               // nil means all; an empty list none
	Folders []string               // absolute: files alone that lie below one of them; nil means anywhere, an empty list nowhere
	Hidden  func(path string) bool // reports which files no reference reads; nil means none
	Prefix  []string               // begins the command line of programs; may be empty
	Environ []string               // "K=V", where variables come from and what commands get; nil means the environment of this process
}

// Get gets what a reference stands for, as the package's Get does. One that the Rules forbid is a fault.Forbidden with code
// reference_forbidden.
func (r Rules) Get(ctx context.Context, text string) (string, error) {
	if err := r.allow(text); err != nil {
		return "", err
	}
	return get(ctx, text, r.services())
}

func (r Rules) allow(text string) error {
	if !Is(text) || strings.HasPrefix(text, "$${") {
		return invalid(text, "it is not of the form ${SCHEME:...}")
	}
	scheme, _, _ := strings.Cut(text[2:len(text)-1], ":")
	if r.Schemes != nil && !slices.Contains(r.Schemes, scheme) {
		return forbidden("references of the kind ${%.20s:} are not allowed", scheme)
	}
	return nil
}

func forbidden(format string, args ...any) *fault.Fault {
	return fault.New(fault.Forbidden, "reference_forbidden", "this Runner's policy refuses a reference: "+format, args...).
		WithHint("have Policy.AllowedReferences or Policy.ReferenceFolders of the Runner's settings changed on its host, or keep the Secret elsewhere")
}

// services are those of the package, within the Rules.
func (r Rules) services() map[string]service {
	bound := map[string]service{}
	for scheme, find := range services {
		bound[scheme] = find
	}
	if r.Folders != nil {
		bound["file"] = r.file
	}
	if read := bound["file"]; r.Hidden != nil {
		bound["file"] = func(ctx context.Context, path string) (string, error) {
			if r.Hidden(path) {
				return "", forbidden("the file belongs to the server")
			}
			return read(ctx, path)
		}
	}
	if r.Prefix != nil {
		bound["command"] = func(ctx context.Context, line string) (string, error) { return commandWith(ctx, r.Prefix, line, nil) }
	}
	if r.Environ != nil {
		bound["env"] = func(_ context.Context, name string) (string, error) {
			for _, entry := range slices.Backward(r.Environ) {
				if value, ok := strings.CutPrefix(entry, name+"="); ok {
					return value, nil
				}
			}
			return "", errors.New("there is no such environment variable")
		}
		bound["command"] = func(ctx context.Context, line string) (string, error) {
			return commandWith(ctx, r.Prefix, line, r.Environ)
		}
	}
	return bound
}

// file reads a file below one of the folders. Links that lead out of it are not followed.
func (r Rules) file(_ context.Context, path string) (string, error) {
	root, name, err := r.below(path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+2))
	return oneLine(data), err
}

// below opens the folder of the Rules in which a path lies, and gives the path in it.
func (r Rules) below(path string) (*os.Root, string, error) {
	for _, folder := range r.Folders {
		name, err := filepath.Rel(folder, path)
		if err != nil || !filepath.IsAbs(path) || !filepath.IsLocal(name) {
			continue
		}
		root, err := os.OpenRoot(folder)
		return root, name, err
	}
	return nil, "", forbidden("the file lies in none of its folders of secrets")
}
