package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"legwork/internal/fault"
)

// LookUp finds the first of the programs that stands in dirs or else on PATH, and gives its absolute path.
// All names are tried in a folder before the next folder is. Relative folders are skipped: what
// they mean would depend on where a Job happens to run.
func LookUp(names, dirs []string) (path string, ok bool) {
	for _, dir := range append(append([]string(nil), dirs...), filepath.SplitList(os.Getenv("PATH"))...) {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, name := range names {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, true
			}
		}
	}
	return "", false
}

// Missing is the fault of an engine whose program is not there.
func Missing(engine string, names []string) error {
	return fault.New(fault.NotFound, "engine_missing", "%s is not installed on this host: no program named %s was found", engine, strings.Join(names, " or ")).
		WithHint("install it on the Runner's host, or name its folder in Engine.AdditionalBinaryPaths of the Runner's settings")
}

// Versions remembers what a program said of its version, until its file changes. It may be used by
// several goroutines; the zero value is ready.
type Versions struct {
	mu    sync.Mutex
	known map[string]noted // by the path of the file, without links
}

// Of gives the version of the program at path; ask is called when it is not known yet.
func (v *Versions) Of(ctx context.Context, path string, ask func(ctx context.Context, path string) (string, error)) (string, error) {
	file, err := filepath.EvalSymlinks(path) // a link may come to name another file of the same size and time
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.known[file]; known.isOf(info) {
		return known.Version, nil
	}
	n, ok := handed(ctx, file, info)
	if !ok {
		version, err := ask(ctx, path)
		if err != nil {
			return "", err
		}
		n = noted{Modified: info.ModTime(), Size: info.Size(), Version: version, Asked: time.Now().UTC()}
	}
	note(ctx, file, n)
	if v.known == nil {
		v.known = map[string]noted{}
	}
	v.known[file] = n
	return n.Version, nil
}

// Find looks for one of an engine's programs in dirs first, then on PATH, and gives it with its version; ask is as in Of.
// It returns a fault.NotFound with code "engine_missing", or a fault.Failed with code "engine_broken".
func (v *Versions) Find(ctx context.Context, engine string, programs, dirs []string, ask func(ctx context.Context, path string) (string, error)) (Tool, error) {
	path, ok := LookUp(programs, dirs)
	if !ok {
		return Tool{}, Missing(engine, programs)
	}
	version, err := v.Of(ctx, path, ask)
	if err != nil {
		return Tool{}, fault.New(fault.Failed, "engine_broken", "%s at %s does not say its version", engine, path).
			WithHint("run %s version on the Runner's host", path).WithCause(err)
	}
	return Tool{Path: path, Version: version}, nil
}
