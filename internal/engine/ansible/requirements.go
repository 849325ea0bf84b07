package ansible

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"legwork/internal/engine"
	"legwork/internal/fault"
)

const (
	// freshFor is how long what was installed is taken without asking again: a branch or a range of versions may stand for something newer.
	freshFor = 24 * time.Hour
	// keptUnused is how long what no playbook uses stays on the disk.
	keptUnused = 7 * 24 * time.Hour
	// maxRequirements limits a requirements file, in bytes.
	maxRequirements = 1 << 20
	// useFile lies in a folder of what was installed. Whoever uses that holds a shared lock of it; its time is that of the last use.
	useFile = "in-use"
)

// install brings the roles and collections of the requirements into the cache and gives their folder, which stays until release is called.
// For each content of the file there is a folder CACHE/ansible/SUM, in it a folder for each time of installing, and beside it a lock.
func (p Playbook) install(ctx context.Context, sink Sink) (dir string, release func(), err error) {
	if p.Step.Requirements == "" {
		return filepath.Join(p.Work, "none"), func() {}, nil
	}
	text, err := engine.ReadJobFile(p.Dir, filepath.FromSlash(p.Step.Requirements), maxRequirements)
	if err != nil {
		return "", nil, fmt.Errorf("read the requirements: %w", err)
	}
	sum := sha256.Sum256(text)
	root := filepath.Join(p.Cache, "ansible")
	of := filepath.Join(root, hex.EncodeToString(sum[:16]))
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the cache of requirements: %w", err)
	}
	defer prune(root, time.Now())
	unlock, err := lock(ctx, of+".lock")
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	if err := os.MkdirAll(of, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the cache of requirements: %w", err)
	}
	newest, at := newestOf(of)
	if newest == "" || time.Since(at) > freshFor {
		made, err := p.installAnew(ctx, of, text, sink)
		switch {
		case err == nil:
			newest = made
		case newest == "" || ctx.Err() != nil:
			return "", nil, err
		default:
			sink.Output("the requirements cannot be looked up anew, and what was installed on " + at.UTC().Format(time.DateOnly) + " is used: " + err.Error())
		}
	}
	release, err = use(newest)
	return newest, release, err
}

// installAnew installs into a folder beside those that are there: what fails leaves nothing.
func (p Playbook) installAnew(ctx context.Context, of string, text []byte, sink Sink) (dir string, err error) {
	temp, err := os.MkdirTemp(of, ".new-")
	if err != nil {
		return "", fmt.Errorf("make the cache of requirements: %w", err)
	}
	defer os.RemoveAll(temp)
	galaxy := filepath.Join(filepath.Dir(p.Tool), "ansible-galaxy")
	file := filepath.Join(p.Dir, filepath.FromSlash(p.Step.Requirements))
	for _, kind := range requirementKinds(text) {
		cmd := p.command(galaxy, []string{kind, "install", "--force", "-r", file, "-p", filepath.Join(temp, kind+"s")})
		cmd.Dir = p.Dir
		if err := p.printing(ctx, cmd, sink.Output); err != nil {
			return "", fault.New(fault.Failed, "requirements_failed", "the requirements %s cannot be installed: ansible-galaxy %s install: %v", p.Step.Requirements, kind, err).
				WithHint("its last lines in the log name the cause")
		}
	}
	if err := os.WriteFile(filepath.Join(temp, useFile), nil, 0o600); err != nil {
		return "", fmt.Errorf("fill the cache of requirements: %w", err)
	}
	dir = filepath.Join(of, strconv.FormatInt(time.Now().UnixNano(), 10))
	if err := os.Rename(temp, dir); err != nil {
		return "", fmt.Errorf("fill the cache of requirements: %w", err)
	}
	return dir, nil
}

// versionsOf lists what was installed for one content, the newest first. What is being made is not among it.
func versionsOf(of string) []string {
	entries, err := os.ReadDir(of)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, entry := range entries {
		if !installedAt(entry.Name()).IsZero() {
			dirs = append(dirs, filepath.Join(of, entry.Name()))
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(b, a) }) // their names have one length
	return dirs
}

func newestOf(of string) (dir string, at time.Time) {
	dirs := versionsOf(of)
	if len(dirs) == 0 {
		return "", at
	}
	return dirs[0], installedAt(filepath.Base(dirs[0]))
}

func installedAt(name string) (at time.Time) {
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && n > 0 {
		at = time.Unix(0, n)
	}
	return at
}

// use keeps a folder from being pruned.
func use(dir string) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, useFile), os.O_RDWR, 0)
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH)
	}
	if err != nil {
		return nil, fmt.Errorf("use the cache of requirements: %w", err)
	}
	now := time.Now()
	_ = os.Chtimes(file.Name(), now, now)
	return func() { _ = file.Close() }, nil
}

// prune removes what nobody uses: what was replaced by something newer, what was left half made, and what nobody asked for in a long time. What another
// process works on is left alone.
func prune(root string, now time.Time) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.IsDir() {
			pruneOne(filepath.Join(root, entry.Name()), now)
		}
	}
}

func pruneOne(of string, now time.Time) {
	unlock, err := tryLock(of + ".lock")
	if err != nil {
		return
	}
	defer unlock()
	for i, dir := range versionsOf(of) {
		info, err := os.Stat(filepath.Join(dir, useFile))
		if err != nil || i == 0 && now.Sub(info.ModTime()) < keptUnused {
			continue
		}
		if done, err := tryLock(filepath.Join(dir, useFile)); err == nil {
			_ = os.RemoveAll(dir)
			done()
		}
	}
	entries, err := os.ReadDir(of)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".new-") {
			_ = os.RemoveAll(filepath.Join(of, entry.Name()))
		}
	}
	if err == nil {
		_ = os.Remove(of) // when it is empty
	}
}

// lock takes the lock of a file, which all processes of the host share, as soon as it is free.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		unlock, err = tryLock(path)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return unlock, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryLock takes the lock of a file when it is free; else the error is EWOULDBLOCK.
func tryLock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the requirements: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the requirements: %w", err)
	}
	return func() { _ = file.Close() }, nil
}
