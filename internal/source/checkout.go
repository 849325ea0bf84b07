package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// checkout is a commit of a git repository that is to lie at a place in src. The submodules of a repository
// are checkouts of their own.
type checkout struct {
	mirror *mirror
	id     string // of the commit
	at     string // relative to src, with slashes; "." for the Module's own
	entries
	below []*checkout
}

// entries are the files of a commit.
type entries struct {
	plain []string          // files and links that git places
	state map[string]string // path -> blob, of files that hold local state
	links map[string]string // path -> commit, of submodules
	bytes int64
}

// open resolves and fetches a git source with all of its submodules, and writes nothing into src.
func (g *git) open(ctx context.Context, source catalog.Source, pinned string) (*checkout, error) {
	at, err := g.allowed(locate(source.URL))
	if err != nil {
		return nil, err
	}
	c := &checkout{mirror: g.mirror(at), at: ".", id: pinned}
	if pinned == "" {
		c.id, err = c.mirror.resolve(ctx, source.Revision)
	} else {
		g.say("the commit of this Job is " + pinned)
		c.id, err = c.mirror.pinned(ctx, pinned, pinned)
	}
	if err != nil {
		return nil, err
	}
	return c, g.look(ctx, c, 0)
}

// look lists the files of a checkout and opens its submodules.
func (g *git) look(ctx context.Context, c *checkout, depth int) error {
	err := c.list(ctx)
	if isGit(err) { // the mirror has the commit but not all that belongs to it
		if err := c.repair(ctx); err != nil {
			return err
		}
		err = c.list(ctx)
	}
	if err != nil {
		return err
	}
	if len(c.links) == 0 {
		return nil
	}
	if depth == maxDepth {
		return fault.New(fault.TooLarge, "source_too_large", "the submodules are nested more than %d deep", maxDepth)
	}
	urls, err := c.submodules(ctx)
	if err != nil {
		return err
	}
	for link, commit := range c.links {
		raw, ok := urls[link]
		if !ok {
			g.say("the submodule " + link + " has no URL and stays empty")
			continue
		}
		sub, err := g.openSubmodule(ctx, c, link, raw, commit)
		if err != nil {
			return err
		}
		if err := g.look(ctx, sub, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// safe refuses a name that no honest git writes into a tree.
func safe(name string) error {
	local := filepath.IsLocal(filepath.FromSlash(name)) && path.Clean(name) == name
	if hasGit := strings.Contains("/"+strings.ToLower(name)+"/", "/.git/"); !local || hasGit {
		return fault.New(fault.Invalid, "bad_source", "the commit holds a file named %.200q, which leads out of the source", name)
	}
	return nil
}

// list reads the entries of the commit's tree.
func (c *checkout) list(ctx context.Context) error {
	out, err := c.mirror.local(ctx, "ls-tree", "-r", "-z", "-l", "--full-tree", c.id)
	if err != nil {
		return err
	}
	if c.entries, err = parseTree(out); err != nil {
		return err
	}
	return c.mirror.git.bounded(c)
}

// parseTree reads the output of git ls-tree -r -z -l.
func parseTree(out []byte) (entries, error) {
	found := entries{state: map[string]string{}, links: map[string]string{}}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		meta, name, ok := strings.Cut(entry, "\t")
		fields := strings.Fields(meta) // mode, type, id, size
		if !ok || len(fields) != 4 {
			continue
		}
		if err := safe(name); err != nil {
			return entries{}, err
		}
		found.bytes += sizeOf(fields[3])
		switch {
		case fields[1] == "commit":
			found.links[name] = fields[2]
		case isState(name):
			found.state[name] = fields[2]
		default:
			found.plain = append(found.plain, name)
		}
	}
	return found, nil
}

// maxEntrySize bounds the size of one entry, so that the sum of all entries does not overflow.
const maxEntrySize = 1 << 40

// sizeOf reads the size of an entry. It is 0 for "-", which git prints for a submodule.
func sizeOf(text string) int64 {
	size, err := strconv.ParseUint(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return maxEntrySize
	}
	return int64(min(size, maxEntrySize)) //nolint:gosec // bounded
}

// bounded counts a checkout's files against the limits of the whole source.
func (g *git) bounded(c *checkout) error {
	g.files += len(c.plain)
	g.bytes += c.bytes
	if g.files > g.Limits.Files || g.bytes > g.Limits.Bytes {
		return fault.New(fault.TooLarge, "source_too_large", "the source has %d files of %d MiB together, more than %d or %d MiB",
			g.files, g.bytes>>20, g.Limits.Files, g.Limits.Bytes>>20).WithHint("use a smaller repository, or raise the limits of the Runner")
	}
	return nil
}

// repair makes the mirror anew when it is damaged.
func (c *checkout) repair(ctx context.Context) error {
	err := c.mirror.locked(ctx, exclusive, func() error {
		if !c.mirror.damaged(ctx) {
			return nil
		}
		return c.mirror.create(ctx, len(c.id))
	})
	if err != nil {
		return err
	}
	_, err = c.mirror.pinned(ctx, c.id, c.id)
	return err
}

func (c *checkout) commit() string { return c.id }

// files are those of the checkout and of all below it.
func (c *checkout) files() []string {
	var all []string
	for _, name := range c.plain {
		all = append(all, path.Join(c.at, name))
	}
	for _, sub := range c.below {
		all = append(all, sub.files()...)
	}
	return all
}

// write makes src hold exactly the files of the commit, and the submodules theirs.
func (c *checkout) write(ctx context.Context, m *module) error {
	if err := m.realDir(c.at); err != nil {
		return err
	}
	err := c.readTree(ctx, m)
	if isGit(err) && !saysFull(err) {
		// The index may be damaged, or the mirror. All that git remembers of src is left behind.
		if err := c.repair(ctx); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(m.dir, c.index())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget git's index: %w", err)
		}
		err = c.readTree(ctx, m)
	}
	if err != nil {
		return c.meaningOfWrite(err, m)
	}
	for _, sub := range c.below {
		if err := sub.write(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// meaningOfWrite turns a git that could not write into src into a fault. Git does not always say that the
// disk is full, and it takes away what it could not finish: so the room that is left is looked at, too.
func (c *checkout) meaningOfWrite(err error, m *module) error {
	var failed *gitError
	if !errors.As(err, &failed) {
		return err
	}
	c.mirror.tell(failed.stderr)
	if saysFull(err) || noRoom(m.dir, c.bytes) {
		return diskFull().WithCause(err)
	}
	return fault.New(fault.Failed, "checkout_failed", "git cannot write the files of the source").
		WithHint("read git's own words in the log; the rights of the Runner's working directory may be wrong").WithCause(err)
}

func saysFull(err error) bool {
	var failed *gitError
	return errors.As(err, &failed) &&
		(strings.Contains(failed.stderr, "No space left") || strings.Contains(failed.stderr, "quota exceeded"))
}

// index names git's memory of what lies at this place in src. The file is kept beside src.
func (c *checkout) index() string {
	if c.at == "." {
		return "index"
	}
	sum := sha256.Sum256([]byte(c.at))
	return "index-" + hex.EncodeToString(sum[:8])
}

func (c *checkout) indexes() []string {
	all := []string{c.index()}
	for _, sub := range c.below {
		all = append(all, sub.indexes()...)
	}
	return all
}

// readTree lets git change src from the tree that its index knows to that of the commit. It restores what was
// changed, takes away what is tracked no more, and leaves alone what is not tracked.
func (c *checkout) readTree(ctx context.Context, m *module) error {
	return c.mirror.locked(ctx, shared, func() error { return c.readTreeLocked(ctx, m) })
}

func (c *checkout) readTreeLocked(ctx context.Context, m *module) error {
	index := filepath.Join(m.dir, c.index())
	if err := os.Remove(index + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take away the lock of a git that was killed: %w", err)
	}
	tree, err := c.treeWithoutState(ctx, m)
	if err != nil {
		return err
	}
	_, err = c.mirror.run(ctx, call{
		args:    []string{"read-tree", "--reset", "-u", tree},
		env:     []string{"GIT_DIR=" + c.mirror.dir, "GIT_INDEX_FILE=" + index, "GIT_WORK_TREE=" + filepath.Join(m.src(), filepath.FromSlash(c.at))},
		inherit: c.mirror.lock.file,
	})
	if err != nil {
		return err
	}
	return c.placeState(ctx, m)
}

// treeWithoutState gives the commit, or a tree like it without the files that hold local state. So git never
// learns of them, neither to write them nor to take them away.
func (c *checkout) treeWithoutState(ctx context.Context, m *module) (string, error) {
	if len(c.state) == 0 {
		return c.id, nil
	}
	index := filepath.Join(m.dir, "index.filter")
	for _, name := range []string{index, index + ".lock"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("make a tree without state: %w", err)
		}
	}
	defer os.Remove(index)
	var names bytes.Buffer
	for name := range c.state {
		names.WriteString(name + "\x00")
	}
	env := []string{"GIT_DIR=" + c.mirror.dir, "GIT_INDEX_FILE=" + index, "GIT_WORK_TREE=" + m.src()} // of which nothing is read
	var out []byte
	for _, step := range []call{
		{args: []string{"read-tree", c.id}},
		{args: []string{"update-index", "--force-remove", "-z", "--stdin"}, stdin: &names},
		{args: []string{"write-tree"}},
	} {
		step.env = env
		var err error
		if out, err = c.mirror.run(ctx, step); err != nil {
			return "", err
		}
	}
	return strings.TrimSpace(string(out)), nil
}

// placeState writes a file of local state that the source has, where the Module has none yet.
func (c *checkout) placeState(ctx context.Context, m *module) error {
	for name, blob := range c.state {
		err := m.placeOnce(path.Join(c.at, name), func(w io.Writer) error {
			out, err := c.mirror.local(ctx, "cat-file", "blob", blob)
			if err != nil {
				return err
			}
			_, err = w.Write(out)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
