package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// module is the folder of one Module on this host. Every file of src is reached through root, which no link
// leads out of.
type module struct {
	dir    string
	outer  *os.Root // dir
	root   *os.Root // src
	placed record
}

// freshFile is where a file is made before it goes to its place in src.
const freshFile = "placing"

// record tells which files of src were placed here. While a fetch is at work it lists what was there and what
// will be there, so that a fetch that was killed leaves no file that nobody remembers.
type record struct {
	Tree  []string `json:"tree"`  // of the source, relative to src, with slashes, sorted
	Extra []string `json:"extra"` // Extra files, likewise
}

func (m *module) src() string { return filepath.Join(m.dir, "src") }

func (m *module) recordFile() string { return filepath.Join(m.dir, "source.json") }

// load opens src and reads the record. A record that cannot be read is a fault: without it, files of
// the source could not be told from files of the Module.
func (m *module) load() (err error) {
	data, err := os.ReadFile(m.recordFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the record of the source: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(data, &m.placed); err != nil {
			return fault.New(fault.Failed, "module_folder_damaged", "the record of what was placed in the Module's folder is damaged").
				WithHint("look at %s on the Runner's host: save the local state, remove the folder, put the state back", m.dir).WithCause(err)
		}
	}
	if m.outer, err = os.OpenRoot(m.dir); err != nil {
		return fmt.Errorf("open the folder of the Module: %w", err)
	}
	if m.root, err = m.outer.OpenRoot("src"); err != nil {
		_ = m.outer.Close()
		return fmt.Errorf("open the folder of the source: %w", err)
	}
	return nil
}

func (m *module) close() {
	_ = m.root.Close()
	_ = m.outer.Close()
}

// save writes the record as a whole or not at all.
func (m *module) save(r record) error {
	if slices.Equal(r.Tree, m.placed.Tree) && slices.Equal(r.Extra, m.placed.Extra) {
		return nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of the source: %w", err)
	}
	fresh := m.recordFile() + ".new"
	if err := writeSynced(fresh, data); err != nil {
		return fmt.Errorf("write the record of the source: %w", err)
	}
	if err := os.Rename(fresh, m.recordFile()); err != nil {
		return fmt.Errorf("write the record of the source: %w", err)
	}
	m.placed = r
	return nil
}

func writeSynced(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// place makes src hold the base with the Extra files beside it, and gives the folder of the root module.
func (m *module) place(ctx context.Context, b base, r Request) (dir string, err error) {
	sub := path.Clean("./" + r.Source.Subdirectory)
	before := m.placed
	tree := sorted(b.files())
	if err := m.stateInTheWay(tree); err != nil {
		return "", err
	}
	if err := m.save(record{Tree: union(before.Tree, tree), Extra: before.Extra}); err != nil {
		return "", err
	}
	if err := m.forgetIndexes(b.indexes()); err != nil {
		return "", err
	}
	if err := m.removeAll(before.Tree, tree); err != nil { // first, since a full disk may need the room
		return "", err
	}
	if err := b.write(ctx, m); err != nil {
		return "", err
	}
	sub, err = m.subdirectory(sub, tree, r.Source)
	if err != nil {
		return "", err
	}
	extra, contents := resolve(sub, r.ExtraFiles)
	if err := m.conflicts(tree, before, contents); err != nil {
		return "", err
	}
	if err := m.save(record{Tree: m.placed.Tree, Extra: union(before.Extra, extra)}); err != nil {
		return "", err
	}
	if err := m.removeAll(before.Extra, union(tree, extra)); err != nil {
		return "", err
	}
	for _, name := range extra {
		if err := m.write(name, contents[name].Contents); err != nil {
			return "", err
		}
	}
	return filepath.Join(m.src(), filepath.FromSlash(sub)), m.save(record{Tree: tree, Extra: extra})
}

// forgetIndexes removes git's memory of checkouts that are no more. What it remembers may have become a
// file of the Module meanwhile, and git would take that away.
func (m *module) forgetIndexes(used []string) error {
	found, err := filepath.Glob(filepath.Join(m.dir, "index*"))
	if err != nil {
		return fmt.Errorf("look for git's indexes: %w", err)
	}
	for _, name := range found {
		if !slices.Contains(used, strings.TrimSuffix(filepath.Base(name), ".lock")) {
			if err := os.Remove(name); err != nil {
				return fmt.Errorf("forget git's index: %w", err)
			}
		}
	}
	return nil
}

// resolve names the Extra files as they lie in src.
func resolve(sub string, files []catalog.ExtraFile) (names []string, contents map[string]catalog.ExtraFile) {
	contents = map[string]catalog.ExtraFile{}
	for _, f := range files {
		contents[path.Join(sub, f.FileName)] = f
	}
	for name := range contents {
		names = append(names, name)
	}
	return sorted(names), contents
}

// conflicts refuses an Extra file that would replace what is not its own, unless it is told to.
func (m *module) conflicts(tree []string, before record, extra map[string]catalog.ExtraFile) error {
	for name, f := range extra {
		_, ofSource := slices.BinarySearch(tree, name)
		_, ofUs := slices.BinarySearch(before.Extra, name)
		_, wasSource := slices.BinarySearch(before.Tree, name)
		info, err := m.root.Lstat(name)
		there := err == nil && !ofUs && !wasSource
		if err == nil && info.IsDir() {
			return badPath("Extra file", f.FileName, "has the name of a folder of the source")
		}
		if (ofSource || there) && !f.Overwrite {
			return fault.New(fault.Conflict, "file_exists", "the Extra file %q would replace a file that is there already", f.FileName).
				WithHint("give it another name, or set overwrite: true")
		}
		if err := m.noLinkAbove(name); err != nil {
			return badPath("Extra file", f.FileName, "lies below a link or below a file")
		}
	}
	return nil
}

// noLinkAbove tells whether all folders above a name are real ones, as far as they are there.
func (m *module) noLinkAbove(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := m.root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is no folder", dir)
		}
	}
	return nil
}

// realDir makes sure that a place in src is a folder that is reached through folders alone. A link that
// stands in the way was put there by a script: git knows of a folder.
func (m *module) realDir(at string) error {
	if at == "." {
		return nil
	}
	if err := m.noLinkAbove(at + "/x"); err != nil {
		return badPath("submodule", at, "lies below a link or below a file")
	}
	if err := m.root.MkdirAll(at, 0o700); err != nil {
		return fmt.Errorf("make the folder of a submodule: %w", err)
	}
	return nil
}

// subdirectory gives the place of the root module in src, links resolved. It must be a folder of the source:
// one that was left behind by an earlier revision, with state in it, is none.
func (m *module) subdirectory(sub string, tree []string, source catalog.Source) (string, error) {
	if sub == "." {
		return sub, nil
	}
	missing := fault.New(fault.NotFound, "subdirectory_missing", "the source has no folder %q", sub).
		WithHint("check source.subdirectory of the Module, and its revision")
	if _, err := m.root.Stat(sub); errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return "", missing
	} else if err != nil {
		return "", badPath("subdirectory", source.Subdirectory, "leads out of the source").WithCause(err)
	}
	top, err := filepath.EvalSymlinks(m.src())
	if err != nil {
		return "", fmt.Errorf("look at the subdirectory: %w", err)
	}
	end, err := filepath.EvalSymlinks(filepath.Join(m.src(), filepath.FromSlash(sub)))
	if err != nil {
		return "", missing.WithCause(err)
	}
	rel, err := filepath.Rel(top, end)
	if err != nil || !filepath.IsLocal(rel) {
		return "", badPath("subdirectory", source.Subdirectory, "leads out of the source")
	}
	real := filepath.ToSlash(rel)
	if real == "." {
		return real, nil
	}
	i, _ := slices.BinarySearch(tree, real+"/")
	if i == len(tree) || !strings.HasPrefix(tree[i], real+"/") {
		return "", missing
	}
	return real, nil
}

// stateInTheWay keeps git from replacing a folder that holds local state by a file.
func (m *module) stateInTheWay(tree []string) error {
	for _, name := range tree {
		if _, known := slices.BinarySearch(m.placed.Tree, name); known {
			continue
		}
		if info, err := m.root.Lstat(name); err != nil || !info.IsDir() {
			continue
		}
		err := fs.WalkDir(m.root.FS(), name, func(inside string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && isState(inside) {
				return fault.New(fault.Conflict, "state_in_the_way", "the source has a file %q where the Module keeps its state %q", name, inside).
					WithHint("move the state on the Runner's host, or rename the file in the source")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// write replaces a file as a whole: a link that stands there is replaced, not followed. The new file is made
// beside src, so that nothing half-written is ever seen in it.
func (m *module) write(name, text string) error {
	if same, err := m.root.ReadFile(name); err == nil && string(same) == text && m.isFile(name) {
		return nil
	}
	if err := m.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return fmt.Errorf("make the folder of %s: %w", name, err)
	}
	if err := m.outer.Remove(freshFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := m.outer.WriteFile(freshFile, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := m.outer.Rename(freshFile, path.Join("src", name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (m *module) isFile(name string) bool {
	info, err := m.root.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// placeOnce writes a file where none is.
func (m *module) placeOnce(name string, write func(io.Writer) error) error {
	if err := m.noLinkAbove(name); err != nil {
		return badPath("file", name, "lies below a link or below a file")
	}
	if _, err := m.root.Lstat(name); err == nil {
		return nil
	}
	var text strings.Builder
	if err := write(&text); err != nil {
		return err
	}
	return m.write(name, text.String())
}

// removeAll takes away those placed files that are not to be kept. Both lists are sorted.
func (m *module) removeAll(placed, keep []string) error {
	for _, name := range placed {
		if _, kept := slices.BinarySearch(keep, name); !kept {
			if err := m.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove takes a placed file away, and the folders above it that are empty then. What became a folder
// meanwhile stays.
func (m *module) remove(name string) error {
	if isState(name) || m.noLinkAbove(name) != nil {
		return nil
	}
	info, err := m.root.Lstat(name)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = m.root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s, which the source has no more: %w", name, err)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if m.root.Remove(dir) != nil {
			break
		}
	}
	return nil
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

func union(a, b []string) []string { return sorted(slices.Concat(a, b)) }
