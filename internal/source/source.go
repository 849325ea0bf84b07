// Package source puts the code of a Module onto the Runner's host: out of git or out of the manifest, with
// the Extra files beside it.
//
// A Module has a folder of its own that lasts from Job to Job:
//
//	src            the code; engines run here and leave their local state here
//	source.json    which files of src were placed by this package
//	index*         git's memory of what lies in src
//	source.lock    one fetch at a time
//
// A fetch makes the placed files exactly what the source says, removes those that it placed before and that
// are gone now, and leaves alone everything else: state, provider folders, lock files. Files that hold the
// local state of OpenTofu and Terraform are never removed or replaced, even where the source has files of
// these names: such a file is placed once, when there is none, and belongs to the Module from then on.
//
// Git repositories are mirrored once per URL for all Modules of the host and checked out from there.
// There is no .git in src. Submodules are checked out, too, each from a mirror of its own; the hooks,
// commands and protocols that a repository may ask for are not used. Files of git LFS stay pointers.
// Plain http is refused except on loopback: whoever sits on the way could change code that runs with the
// rights of the host. Credentials in a URL reach git through its environment, never as an argument.
//
// A fetch may be killed at any moment. What it had begun is written down before, and the next
// one finds its way from there. It needs git 2.31 or newer.
package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// Config is what a Fetcher is told from outside.
type Config struct {
	MirrorsDir string   // absolute; made when missing, mode 0700
	Git        string   // the git program; "" looks on PATH
	Env        []string // "K=V", over the process's own environment: proxies, GIT_SSH_COMMAND, GIT_SSL_CAINFO
	Limits     Limits
	Timeout    time.Duration // of one fetch; 0 means 15 minutes
	// Allow returns why nothing may be fetched from a git URL, as it was declared or as that of a submodule became;
	// nil allows all.
	Allow func(url string) error
}

// Limits bound a source. Zero means the default.
type Limits struct {
	Files int   // of one source, submodules included; 200,000
	Bytes int64 // of all files of one source; 4 GiB
}

// The defaults of Config.
const (
	DefaultTimeout = 15 * time.Minute
	DefaultFiles   = 200_000
	DefaultBytes   = 4 << 30
)

// Fetcher fetches the sources of a host. It may be used by several goroutines and, on the same folders,
// by several processes.
type Fetcher struct{ Config }

// New makes a Fetcher.
func New(c Config) *Fetcher {
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Limits.Files <= 0 {
		c.Limits.Files = DefaultFiles
	}
	if c.Limits.Bytes <= 0 {
		c.Limits.Bytes = DefaultBytes
	}
	return &Fetcher{Config: c}
}

// Request asks for the source of one Module.
type Request struct {
	ModuleDir  string // absolute, the Module's own on this host; made when missing, mode 0700
	Source     catalog.Source
	Commit     string // pinned: exactly this one, whatever the revision points to by now; "" resolves the revision
	ExtraFiles []catalog.ExtraFile
}

// Fetched is where the source lies.
type Fetched struct {
	Dir    string // the root module: the subdirectory of src
	Commit string // in full; empty for inline sources
}

// Fetch brings src up to date. say gets lines for the Job's log; it is not called after Fetch has returned.
//
// Faults by code: git_missing, source_not_found, source_unreachable, source_auth, source_timeout,
// revision_not_found, subdirectory_missing, file_exists, bad_path, bad_url, bad_revision, bad_source,
// source_too_large, state_in_the_way, disk_full.
func (f *Fetcher) Fetch(ctx context.Context, r Request, say func(line string)) (Fetched, error) {
	if err := check(r); err != nil {
		return Fetched{}, err
	}
	timeout := fault.New(fault.Unavailable, "source_timeout", "fetching the source took longer than %s", f.Timeout).
		WithHint("look for what holds up git on the Runner's host, then run the Job again")
	ctx, cancel := context.WithTimeoutCause(ctx, f.Timeout, timeout)
	defer cancel()
	fetched, err := f.fetch(ctx, r, say)
	if err != nil && ctx.Err() != nil {
		return Fetched{}, context.Cause(ctx)
	}
	return fetched, full(err)
}

func (f *Fetcher) fetch(ctx context.Context, r Request, say func(line string)) (Fetched, error) {
	m := module{dir: r.ModuleDir}
	if err := m.prepare(); err != nil {
		return Fetched{}, err
	}
	lock, err := acquire(ctx, filepath.Join(m.dir, "source.lock"), exclusive)
	if err != nil {
		return Fetched{}, fmt.Errorf("lock the folder of the Module: %w", err)
	}
	defer lock.release()
	used(filepath.Join(m.dir, "source.lock"))
	if err := m.load(); err != nil {
		return Fetched{}, err
	}
	defer m.close()
	base, err := f.base(ctx, r, lock, say)
	if err != nil {
		return Fetched{}, err
	}
	dir, err := m.place(ctx, base, r)
	return Fetched{Dir: dir, Commit: base.commit()}, err
}

// base is the code of a Module without its Extra files.
type base interface {
	files() []string // relative to src, with slashes; without those of the engine's local state
	commit() string
	indexes() []string // names of the files beside src in which git remembers what lies in src
	// write makes all files be in src, as they shall be.
	write(ctx context.Context, m *module) error
}

func (f *Fetcher) base(ctx context.Context, r Request, lock *fileLock, say func(line string)) (base, error) {
	if r.Source.Type == catalog.Inline || r.Source.Type == "" { // a script of its own text needs no source
		return newInline(r.Source.Files), nil
	}
	g, err := f.newGit(lock, say)
	if err != nil {
		return nil, err
	}
	return g.open(ctx, r.Source, r.Commit)
}

// full turns an error of a disk that is full into the fault that says so.
func full(err error) error {
	if err != nil && isFull(err) && fault.Code(err) == "" {
		return diskFull().WithCause(err)
	}
	return err
}

func diskFull() *fault.Fault {
	return fault.New(fault.Unavailable, "disk_full", "there is no space left on the disk of the Runner's host").
		WithHint("make room in the Runner's working directory, then run the Job again")
}

// prepare makes the folders. What stands at src and is no folder, such as a link that a script has put
// there, is taken away.
func (m *module) prepare() error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the Module: %w", err)
	}
	src := m.src()
	if info, err := os.Lstat(src); err == nil && !info.IsDir() {
		if err := os.Remove(src); err != nil {
			return fmt.Errorf("take away what stands in the place of the source: %w", err)
		}
	}
	if err := os.Mkdir(src, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the folder of the source: %w", err)
	}
	return nil
}
