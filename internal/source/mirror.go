package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	manyPacks = 40               // each fetch adds one; then they are joined
	leftover  = 10 * time.Minute // the age at which a temporary file of git belongs to nobody
)

// mirror is the bare repository that all checkouts of one URL come from. Its refs are named after what
// was asked for, and only tell git what is there already.
type mirror struct {
	*git
	at  location
	dir string
}

func (g *git) mirror(at location) *mirror {
	m := &mirror{git: g, at: at, dir: filepath.Join(g.MirrorsDir, at.key()+".git")}
	used(strings.TrimSuffix(m.dir, ".git") + ".lock")
	return m
}

func (m *mirror) locked(ctx context.Context, mode lockMode, work func() error) error {
	lock, err := acquire(ctx, strings.TrimSuffix(m.dir, ".git")+".lock", mode)
	if err != nil {
		return fmt.Errorf("lock the mirror: %w", err)
	}
	defer lock.release()
	return work()
}

// local runs a git command in the mirror.
func (m *mirror) local(ctx context.Context, args ...string) ([]byte, error) {
	return m.run(ctx, call{args: args, env: []string{"GIT_DIR=" + m.dir}})
}

// remote runs a git command in the mirror that speaks to the remote.
func (m *mirror) remote(ctx context.Context, args ...string) ([]byte, error) {
	return m.run(ctx, call{args: args, env: []string{"GIT_DIR=" + m.dir}, at: &m.at})
}

// resolve finds the commit of a revision and makes sure that the mirror has it.
func (m *mirror) resolve(ctx context.Context, revision string) (commit string, err error) {
	if isFullID(revision) {
		return m.pinned(ctx, revision, revision)
	}
	name, id, err := m.ask(ctx, revision)
	if err != nil {
		return "", err
	}
	if id == "" && isHex(revision) {
		return m.abbreviated(ctx, revision)
	}
	if id == "" && revision == "" {
		return "", noRevision(revision, m.at, "points to nothing: there is no commit yet")
	}
	if id == "" {
		return "", noRevision(revision, m.at, "is neither a branch nor a tag nor a commit")
	}
	m.say(fmt.Sprintf("%s of %s is %s", name, m.at.url, id))
	return m.pinned(ctx, id, name)
}

// ask asks the remote what a name points to: a branch, a tag, or a full name of any ref. "" is its HEAD.
func (m *mirror) ask(ctx context.Context, revision string) (name, id string, err error) {
	pattern := revision
	if pattern == "" {
		pattern = "HEAD"
	}
	out, err := m.run(ctx, call{args: []string{"ls-remote", "--quiet", "--end-of-options", "origin", pattern}, at: &m.at})
	if err != nil {
		return "", "", m.meaning(err, m.at)
	}
	ids := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if id, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && isFullID(id) {
			ids[ref] = id
		}
	}
	for _, name := range []string{"refs/heads/" + pattern, "refs/tags/" + pattern, pattern} {
		if ids[name] != "" {
			return name, ids[name], nil
		}
	}
	return "", "", nil
}

// pinned gives the commit that an id names, a commit or a tag, and fetches it only when it is absent.
func (m *mirror) pinned(ctx context.Context, id, name string) (commit string, err error) {
	if commit, err := m.commitOf(ctx, id); err == nil {
		return commit, nil
	}
	err = m.locked(ctx, exclusive, func() error {
		if commit, err = m.commitOf(ctx, id); err == nil {
			return nil // somebody else has fetched it meanwhile
		}
		if err := m.open(ctx, id); err != nil {
			return err
		}
		if err := m.fetchOne(ctx, id, name); err != nil {
			return err
		}
		commit, err = m.commitOf(ctx, id)
		return err
	})
	if isGit(err) {
		return "", noRevision(name, m.at, "is no commit").WithCause(err)
	}
	return commit, err
}

// commitOf gives the commit that an id names, if the mirror has it.
func (m *mirror) commitOf(ctx context.Context, id string) (string, error) {
	out, err := m.local(ctx, "rev-parse", "--quiet", "--verify", "--end-of-options", id+"^{commit}")
	return strings.TrimSpace(string(out)), err
}

// abbreviated finds a commit by the beginning of its id, which only the whole repository can tell.
func (m *mirror) abbreviated(ctx context.Context, short string) (commit string, err error) {
	err = m.locked(ctx, exclusive, func() error {
		if commit, err = m.commitOf(ctx, short); err == nil {
			return nil
		}
		if err := m.open(ctx, ""); err != nil {
			return err
		}
		if err := m.fetchAll(ctx); err != nil {
			return m.meaning(err, m.at)
		}
		commit, err = m.commitOf(ctx, short)
		return err
	})
	if isGit(err) {
		return "", noRevision(short, m.at, "is neither a branch nor a tag, and begins the id of no single commit").WithCause(err)
	}
	return commit, err
}

// fetchOne fetches one id. When that fails the remote is asked whether it is there at all; then everything
// is fetched, since a server may refuse to give out by id what no ref points to; and then the mirror itself
// is suspected.
func (m *mirror) fetchOne(ctx context.Context, id, name string) error {
	m.say("fetching " + m.at.url)
	err := m.fetchID(ctx, id, name)
	if !isGit(err) {
		return err
	}
	if err := m.sameFormat(ctx, id); err != nil {
		return err
	}
	err = m.fetchAll(ctx)
	if isGit(err) && m.damaged(ctx) {
		if err := m.create(ctx, len(id)); err != nil {
			return err
		}
		if err = m.fetchID(ctx, id, name); isGit(err) {
			err = m.fetchAll(ctx)
		}
	}
	if err != nil {
		return m.meaning(err, m.at)
	}
	if _, err := m.commitOf(ctx, id); err != nil {
		return noRevision(name, m.at, "is not there").WithCause(err)
	}
	return nil
}

func (m *mirror) fetchID(ctx context.Context, id, name string) error {
	sum := sha256.Sum256([]byte(name))
	spec := "+" + id + ":refs/legwork/one/" + hex.EncodeToString(sum[:8])
	_, err := m.remote(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--end-of-options", "origin", spec)
	return err
}

func (m *mirror) fetchAll(ctx context.Context) error {
	m.say("fetching all of " + m.at.url)
	_, err := m.remote(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--prune", "--end-of-options", "origin",
		"+refs/heads/*:refs/legwork/heads/*", "+refs/tags/*:refs/legwork/tags/*")
	return err
}

// sameFormat asks the remote whether it is there at all and names its commits with ids as long as this one.
func (m *mirror) sameFormat(ctx context.Context, id string) error {
	_, head, err := m.ask(ctx, "")
	if err == nil && head != "" && len(head) != len(id) {
		err = noRevision(id, m.at, "is no id of a commit")
	}
	return err
}

// open makes sure that the mirror is there, whole, and free of what a killed git left behind. id is what it
// shall hold, "" for anything. The lock is held.
func (m *mirror) open(ctx context.Context, id string) error {
	out, err := m.local(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return m.create(ctx, len(id))
	}
	if id != "" && strings.TrimSpace(string(out)) != formatOf(len(id)) {
		if err := m.sameFormat(ctx, id); err != nil {
			return err // the repository is what it was, the id is wrong
		}
		return m.create(ctx, len(id))
	}
	m.sweep()
	if packs, _ := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.pack")); len(packs) > manyPacks {
		if _, err := m.local(ctx, "repack", "-a", "-d", "-k", "-q"); err != nil {
			return fmt.Errorf("join the packs of the mirror: %w", err)
		}
	}
	return nil
}

// formatOf tells by the length of its ids how a repository hashes.
func formatOf(idLength int) string {
	if idLength == 64 {
		return "sha256"
	}
	return "sha1"
}

// damaged reads all of the mirror, which takes a while: it is asked only when something has failed.
func (m *mirror) damaged(ctx context.Context) bool {
	_, err := m.local(ctx, "fsck", "--no-progress", "--no-dangling")
	if isGit(err) {
		m.say("the mirror of " + m.at.url + " is damaged and is made anew")
	}
	return isGit(err)
}

// create makes the mirror beside its place and moves it there.
func (m *mirror) create(ctx context.Context, idLength int) error {
	fresh := m.dir + ".new"
	for _, dir := range []string{fresh, m.dir} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("take away a broken mirror: %w", err)
		}
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("make the mirror: %w", err)
	}
	if _, err := m.run(ctx, call{args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + formatOf(idLength), fresh}}); err != nil {
		return fmt.Errorf("make the mirror: %w", err)
	}
	if err := os.Rename(fresh, m.dir); err != nil {
		return fmt.Errorf("make the mirror: %w", err)
	}
	return nil
}

// sweep removes the locks of a git that was killed (nobody else writes here: we hold the lock), and, after a
// while, its unfinished packs.
func (m *mirror) sweep() {
	old := time.Now().Add(-leftover)
	_ = filepath.WalkDir(m.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what has gone meanwhile needs no sweeping
		}
		name := entry.Name()
		if entry.IsDir() {
			if len(name) == 2 && filepath.Base(filepath.Dir(path)) == "objects" {
				return filepath.SkipDir
			}
			return nil
		}
		temporary := strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-")
		if temporary {
			info, err := entry.Info()
			temporary = err == nil && info.ModTime().Before(old)
		}
		if temporary || strings.HasSuffix(name, ".lock") {
			_ = os.Remove(path)
		}
		return nil
	})
}
