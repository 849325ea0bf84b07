//go:build linux || darwin

package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/work"
)

// releasesFolder is the folder of the programs of other releases.
const releasesFolder = "releases"

// releasesWait is how long dropping releases waits for those who start one.
const releasesWait = time.Second

// spareRelease is how long the program of a release that nothing runs is kept for what is launched next.
const spareRelease = time.Hour

// foreign tells whether another release than this program is to be launched: a signed one that is newer, which the owner of this host agreed
// to with Runner.launcher, unless Runner.updates is off. An older one, which may have a known hole, is not for a Server to bring onto this
// host, and of a program that is no release none is known to be newer: this program is launched in its place.
func (l *Launcher) foreign(task *work.RunnerTask) bool {
	return !l.host.OwnOnly && task.Release != nil && release.Newer(task.Release.Version, l.host.Version)
}

// instead tells why this program is launched where another release was asked for; "" where none was, or it is launched.
func (l *Launcher) instead(task *work.RunnerTask) string {
	if task.Release == nil || l.foreign(task) || release.Compare(task.Release.Version, l.host.Version) == 0 {
		return ""
	}
	if l.host.OwnOnly {
		return "Runner.updates is off"
	}
	if _, err := release.Canonical(l.host.Version); err != nil {
		return "the program of this host is no release, and nobody can tell which is newer"
	}
	return "the program of this host is newer"
}

func (l *Launcher) releases() string { return filepath.Join(l.host.Dir, releasesFolder) }

// program gives the program to start, and its version; one of another release is fetched unless it is here, and stays until unlock is called.
func (l *Launcher) program(ctx context.Context, task *work.RunnerTask) (path, version string, unlock func(), err error) {
	if !l.foreign(task) {
		return l.host.Program, l.version(task), func() {}, nil
	}
	if version, err = release.Canonical(task.Release.Version); err != nil {
		return "", "", nil, err
	}
	if unlock, err = lockFolder(ctx, l.releases(), true, unix.LOCK_SH); err != nil {
		return "", "", nil, err
	}
	if path, err = l.fetch(ctx, task, filepath.Join(l.releases(), version)); err != nil {
		unlock()
		return "", "", nil, err
	}
	return path, version, unlock, nil
}

// fetch has the program of a release be in a folder.
func (l *Launcher) fetch(ctx context.Context, task *work.RunnerTask, dir string) (path string, err error) {
	keys, err := release.Trusted(l.host.Keys)
	if err != nil {
		return "", err
	}
	client, err := l.client()
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", unusable(dir, err)
	}
	path = filepath.Join(dir, "legwork")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		l.host.Say("fetching release " + task.Release.Version + " from " + task.ServerURL)
	}
	if _, err := release.Fetch(ctx, client, task.ServerURL, *task.Release, keys, release.Here(), path); err != nil {
		return "", err
	}
	now := time.Now()
	return path, os.Chtimes(dir, now, now)
}

// client trusts what the Runner of this host trusts.
func (l *Launcher) client() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if l.host.CAFile != "" {
		pem, err := os.ReadFile(l.host.CAFile)
		pool, poolErr := x509.SystemCertPool()
		if poolErr != nil {
			pool = x509.NewCertPool()
		}
		if err != nil || !pool.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "launcher_failed", "the certificates of Server.CaFile cannot be read on the host of the launcher").WithCause(err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport}, nil
}

// dropReleases removes the programs of releases that no process of this host runs and nobody asked for in a while. Others may be starting
// processes of other Runners here: it waits a little for them, and leaves it to the next time if they take longer.
func (l *Launcher) dropReleases(ctx context.Context, spare time.Duration) error {
	soon, stop := context.WithTimeout(ctx, releasesWait)
	defer stop()
	unlock, err := lockFolder(soon, l.releases(), false, unix.LOCK_EX)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(l.releases())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the programs of releases: %w", err)
	}
	used, err := l.running()
	if errors.Is(err, errRecord) {
		return nil // which one it runs is not known until its own Runner's turn to end it
	}
	if err != nil {
		return err
	}
	kept := 0
	for _, entry := range entries {
		dir := filepath.Join(l.releases(), entry.Name())
		info, err := os.Stat(dir)
		if entry.Name() == lockFile || err != nil {
			continue
		}
		if used[dir] || time.Since(info.ModTime()) < spare {
			kept++
			continue
		}
		if err := l.remove(dir); err != nil {
			return err
		}
	}
	if kept > 0 {
		return nil
	}
	return l.remove(l.releases())
}

// running gives the folders of the programs that processes on this host run, of whichever Runner. A record that tells nothing is errRecord.
func (l *Launcher) running() (map[string]bool, error) {
	folders, err := filepath.Glob(filepath.Join(globbed(l.host.Dir), "*", "*", workFolder))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	used := map[string]bool{}
	for _, folder := range folders {
		u, err := readUnit(filepath.Dir(folder))
		if err != nil {
			return nil, err
		}
		if u != nil && (u.Process.Alive() || u.busy()) {
			used[filepath.Dir(u.Program)] = true
		}
	}
	return used, nil
}
