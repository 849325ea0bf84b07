package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/catalog"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

func copyItem(name string, s catalog.CopyStep) runbook.Item {
	return runbook.Item{Name: name, Kind: runbook.CopyItem, Step: catalog.RunbookStep{Name: name,
		Each: catalog.EachNode, Copy: &s}}
}

// sourceOf creates a source with these files.
func sourceOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wantFile checks what a file on a node holds, and its mode.
func wantFile(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != content {
		t.Errorf("%s: got %.200q, want %.200q", path, data, content)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != mode {
		t.Errorf("%s: got mode %s, want %s", path, info.Mode(), mode)
	}
}

func lastEvent(d done, item int) work.NodeEvent {
	events := d.events[pairKey{0, item}]
	return events[len(events)-1]
}

// wantChanged checks that an item succeeded, and how many files it changed.
func wantChanged(t *testing.T, d done, item, count int) {
	t.Helper()
	e := lastEvent(d, item)
	if e.Status != work.NodeSucceeded {
		t.Fatalf("item %d: got %s %+v, want it to succeed", item, e.Status, e.Failure)
	}
	if got, want := e.Values["changed_count"], fmt.Sprint(count); got != want {
		t.Errorf("item %d: got %s changed files, want %s", item, got, want)
	}
}

// TestCopy copies texts, files and folders to this host, directly and over a real sshd.
func TestCopy(t *testing.T) {
	for _, ssh := range []bool{false, true} {
		t.Run(fmt.Sprint("ssh ", ssh), func(t *testing.T) { testCopy(t, ssh) })
	}
}

func testCopy(t *testing.T, ssh bool) {
	dir := t.TempDir()
	source := sourceOf(t, map[string]string{
		"web/site/index.html": "<p>${node.name} \x00 'quotes' \"and\"\n", "web/site/a b/it's.txt": "",
		"web/run.sh": "#!/bin/sh\n", "web/.git/config": "x",
	})
	if err := os.Chmod(filepath.Join(source, "web/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	text, kept := "workers: ${option.workers} on ${node.name}, $${HOME}\n", "kept"
	items := []runbook.Item{
		copyItem("text", catalog.CopyStep{Content: &text, Dest: dir + "/it's/${node.name}.conf", Template: true,
			Mode: "0640"}),
		copyItem("verbatim", catalog.CopyStep{Content: &text, Dest: dir + "/verbatim"}),
		copyItem("folder", catalog.CopyStep{Src: "web", Dest: dir + "/tree"}),
		copyItem("again", catalog.CopyStep{Src: "web", Dest: dir + "/tree/"}),
		copyItem("into", catalog.CopyStep{Src: "web/run.sh", Dest: dir + "/bin/", Mode: "4711"}),
		copyItem("keeps", catalog.CopyStep{Content: &kept, Dest: dir + "/keeps"}),
		copyItem("check", catalog.CopyStep{Content: &kept, Dest: dir + "/unwritten", Check: true}),
	}
	if err := os.WriteFile(dir+"/keeps", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, env := reach(t, file(t, 1, items...), ssh)
	f.SourceDir, f.Run.Scopes[0].Values = source, map[string]any{"workers": float64(4)}
	d := performReally(t, f, env)
	for i, count := range []int{1, 1, 6, 0, 1, 1, 1} {
		wantChanged(t, d, i, count)
	}
	wantFile(t, dir+"/it's/web-0.conf", "workers: 4 on web-0, ${HOME}\n", 0o640)
	wantFile(t, dir+"/verbatim", text, 0o644)
	wantFile(t, dir+"/tree/site/index.html", "<p>${node.name} \x00 'quotes' \"and\"\n", 0o644)
	wantFile(t, dir+"/tree/site/a b/it's.txt", "", 0o644)
	wantFile(t, dir+"/tree/run.sh", "#!/bin/sh\n", 0o755)
	wantFile(t, dir+"/bin/run.sh", "#!/bin/sh\n", 0o711|fs.ModeSetuid)
	wantFile(t, dir+"/keeps", "kept", 0o600)
	if exists(dir+"/unwritten") || exists(dir+"/tree/.git") {
		t.Error("got files that must not be written")
	}
	if log := d.text(work.System); !strings.Contains(log, "folder: wrote "+dir+"/tree/run.sh") ||
		!strings.Contains(log, "again: "+dir+"/tree is unchanged") {
		t.Errorf("got log %q, want the written files and the unchanged folder", log)
	}
	wantNoLeftovers(t, dir, copyLeftovers)
}

// copyLeftovers matches the temporary files of copies on a node.
const copyLeftovers = "/tmp/legwork-copy-*"

// wantNoLeftovers checks that no temporary files are left in a folder, and no files that match a pattern.
func wantNoLeftovers(t *testing.T, dir string, patterns ...string) {
	t.Helper()
	var left []string
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, ".legwork-") {
			left = append(left, path)
		}
		return err
	})
	if err != nil || len(left) > 0 {
		t.Errorf("got leftovers %v %v, want none", left, err)
	}
}

// TestCopyRefuses checks the messages for what cannot be copied.
func TestCopyRefuses(t *testing.T) {
	dir := t.TempDir()
	source := sourceOf(t, map[string]string{"a": "x"})
	if err := os.Symlink("/etc", source+"/out"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/folder", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/folder", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	text, broken := "x", "${option.none"
	cases := []struct {
		step catalog.CopyStep
		want string
	}{
		{catalog.CopyStep{Content: &text, Dest: dir + "/folder"}, "a folder has that name"},
		{catalog.CopyStep{Content: &text, Dest: dir + "/link"}, "a folder has that name"},
		{catalog.CopyStep{Content: &text, Dest: "/dev/null"}, "not a regular file"},
		{catalog.CopyStep{Content: &text, Dest: "/dev/null/x"}, "its folder cannot be created"},
		{catalog.CopyStep{Content: &text, Dest: dir + "/x", Owner: "nobody-here"}, "its owner cannot be set"},
		{catalog.CopyStep{Content: &text, Dest: dir + "/${option.up}/x"}, "must not contain .."},
		{catalog.CopyStep{Content: &broken, Dest: dir + "/x", Template: true}, "brace"},
		{catalog.CopyStep{Src: "missing", Dest: dir + "/x"}, "does not exist in the source"},
		{catalog.CopyStep{Src: "out/passwd", Dest: dir + "/x"}, "cannot be read"},
		{catalog.CopyStep{Src: "out", Dest: dir + "/x"}, "cannot be read"},
	}
	for _, c := range cases {
		f := locally(file(t, 1, copyItem("one", c.step)))
		f.SourceDir, f.Run.Scopes[0].Values = source, map[string]any{"up": ".."}
		e := lastEvent(performReally(t, f, nil), 0)
		if e.Status != work.NodeFailed || e.Failure == nil {
			t.Fatalf("%+v: got %+v, want a failure", c.step, e)
		}
		if !strings.Contains(e.Failure.Message, c.want) {
			t.Errorf("%+v: got %q, want it to contain %q", c.step, e.Failure.Message, c.want)
		}
	}
	wantNoLeftovers(t, dir, copyLeftovers)
}

// TestCopyDelivers: what arrives equals what was sent, for any content and names.
func TestCopyDelivers(t *testing.T) {
	name := rapid.StringOfN(rapid.SampledFrom([]rune("ab '\"$`;*?!é-")), 1, 8, 30)
	content := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 4000),
		rapid.SliceOfN(rapid.SampledFrom([]byte("\x00\n\x1e'\\$`")), 0, 20))
	rapid.Check(t, func(r *rapid.T) {
		files := rapid.MapOfN(name, content, 1, 5).Draw(r, "files")
		executable := rapid.Bool().Draw(r, "executable")
		source, dest := t.TempDir(), filepath.Join(t.TempDir(), "d")
		mode := fs.FileMode(0o644)
		if executable {
			mode = 0o755
		}
		if err := os.MkdirAll(source+"/top/empty", 0o755); err != nil {
			r.Fatal(err)
		}
		for _, n := range slices.Sorted(maps.Keys(files)) {
			if err := os.WriteFile(filepath.Join(source, "top", "f"+n), files[n], mode); err != nil {
				r.Fatal(err)
			}
		}
		f := locally(file(t, 1, copyItem("one", catalog.CopyStep{Src: "top", Dest: dest}), copyItem("two",
			catalog.CopyStep{Src: "top", Dest: dest})))
		f.SourceDir = source
		d := performReally(t, f, nil)
		wantChanged(t, d, 0, len(files)+2)
		wantChanged(t, d, 1, 0)
		for n, data := range files {
			wantFile(t, filepath.Join(dest, "f"+n), string(data), mode)
		}
		if !exists(filepath.Join(dest, "empty")) {
			r.Error("the empty folder is missing")
		}
	})
}

// TestCopyReport: a node cannot name what was not asked.
func TestCopyReport(t *testing.T) {
	got := readCopyReport("differs 1\ndiffers 1\ndiffers 7\ndiffers -1\nnoise\nstop 0 owner\n", 2)
	if !slices.Equal(got.differs, []int{1}) || got.reason != "owner" {
		t.Errorf("got %+v, want entry 1 and the reason owner", got)
	}
}

// TestPutAsOtherUser carries bytes that no script could hold, in several pieces.
func TestPutAsOtherUser(t *testing.T) {
	f := locally(file(t, 1, command("one")))
	transport, err := newTransport(f, nil, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	want := bytes.Repeat([]byte("\x00\xff'\n"), putPiece/3)
	path, err := putAs(t.Context(), asSelf{transport.Host()}, "test", want)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want %d equal ones", len(got), len(want))
	}
}

// asSelf runs commands as the user of this process.
type asSelf struct{ Target }

func (a asSelf) Run(ctx context.Context, c Command) (Result, error) {
	c.Sudo = false
	return a.Target.Run(ctx, c)
}

// TestCopyRemovesAPart: what arrived of files that could not be brought whole does not stay on the node.
func TestCopyRemovesAPart(t *testing.T) {
	text := "secret"
	m := newMemory(func(_ context.Context, _ string, c Command) (Result, error) {
		_, err := io.WriteString(c.Stdout, "differs 0\n")
		return Result{Began: true}, err
	})
	m.putErr = errors.New("connection lost")
	d := perform(t, file(t, 1, copyItem("one", catalog.CopyStep{Content: &text, Dest: "/etc/x"})), m)
	if got := d.status(0, 0); got != work.NodeFailed {
		t.Errorf("status: got %q, want failed", got)
	}
	if want := []string{"/file"}; !slices.Equal(m.gone, want) {
		t.Errorf("removed: got %q, want %q", m.gone, want)
	}
}
