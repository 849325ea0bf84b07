package nodes

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

func fetchItem(name string, s catalog.FetchStep) runbook.Item {
	return runbook.Item{Name: name, Kind: runbook.FetchItem, Step: catalog.RunbookStep{Name: name,
		Each: catalog.EachNode, Fetch: &s}}
}

// TestFetch fetches files and folders of this host, directly and over a real sshd, with and without sudo.
func TestFetch(t *testing.T) {
	for _, ssh := range []bool{false, true} {
		for _, sudo := range []bool{false, true} {
			t.Run(fmt.Sprint("ssh ", ssh, " sudo ", sudo), func(t *testing.T) {
				if sudo {
					needsSudo(t)
				}
				testFetch(t, ssh, sudo)
			})
		}
	}
}

// fetchable creates a folder with files and links to fetch.
func fetchable(t *testing.T) string {
	t.Helper()
	on, err := os.MkdirTemp("/tmp", "legwork-test-fetch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(on) })
	if err := os.Rename(sourceOf(t, map[string]string{
		"app/log/a b/it's.log": "\x00\x1e\n'quotes' \xff", "app/log/empty": "", "app/run.sh": "#!/bin/sh\n",
	}), on+"/in"); err != nil {
		t.Fatal(err)
	}
	on += "/in"
	if err := os.Chmod(filepath.Dir(on), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, make := range []func() error{
		func() error { return os.Symlink("/etc", on+"/app/etc") },
		func() error { return os.Symlink("app/run.sh", on+"/link") },
		func() error { return os.Link(on+"/app/run.sh", on+"/app/same.sh") },
		func() error { return os.Mkdir(on+"/app/nothing", 0o755) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
	}
	return on
}

func testFetch(t *testing.T, ssh, sudo bool) {
	on := fetchable(t)
	items := []runbook.Item{
		fetchItem("folder", catalog.FetchStep{Src: on + "/app"}),
		fetchItem("again", catalog.FetchStep{Src: on + "/${option.name}/", Dest: "folder"}),
		fetchItem("link", catalog.FetchStep{Src: on + "/link", Dest: "to/${node.name}"}),
	}
	if sudo {
		items = append(items, fetchItem("closed", catalog.FetchStep{Src: "/etc/shadow"}))
	}
	for i := range items {
		items[i].Step.Sudo = &sudo
	}
	f, env := reach(t, file(t, 2, items...), ssh)
	f.Run.Connection.SudoUser, f.Run.OnFailure = "nobody", catalog.ContinueOnFailure
	f.FetchDir, f.Run.Scopes[0].Values = t.TempDir(), map[string]any{"name": "app"}
	d := performReally(t, f, env)
	for i, count := range []int{4, 0, 1} {
		wantChanged(t, d, i, count)
	}
	for _, node := range []string{"web-0", "web-1"} {
		at := filepath.Join(f.FetchDir, "folder", node, on, "app")
		wantFile(t, at+"/log/a b/it's.log", "\x00\x1e\n'quotes' \xff", 0o600)
		wantFile(t, at+"/log/empty", "", 0o600)
		wantFile(t, at+"/same.sh", "#!/bin/sh\n", 0o600)
		wantFile(t, filepath.Join(f.FetchDir, "to", node, node, on, "link"), "#!/bin/sh\n", 0o600)
		if !exists(at+"/nothing") || exists(at+"/etc") {
			t.Errorf("%s: got no empty folder, or a link", at)
		}
	}
	if got, want := lastEvent(d, 0).Values["path"], filepath.Join(f.FetchDir, "folder", "web-0"); got != want {
		t.Errorf("got path %q, want %q", got, want)
	}
	if e := d.events[pairKey{0, 3}]; sudo && !strings.Contains(e[len(e)-1].Failure.Message, "cannot read it") {
		t.Errorf("got %+v, want a refusal of /etc/shadow for the user nobody", e)
	}
	if log := d.text(work.System); !strings.Contains(log, "folder: links and special files that were not fetched: 1") {
		t.Errorf("got log %q, want the link that was left out", log)
	}
	wantNoFetchLeftovers(t, f)
}

// wantNoFetchLeftovers checks that no temporary files are left on the node or on the host.
func wantNoFetchLeftovers(t *testing.T, f *File) {
	t.Helper()
	wantNoLeftovers(t, f.FetchDir, "/tmp/legwork-fetch-*", f.ScratchDir+"/*")
}

// TestFetchRefuses checks the messages for what cannot be fetched or stored.
func TestFetchRefuses(t *testing.T) {
	on, dir := fetchable(t), t.TempDir()
	if err := os.Symlink("/tmp", dir+"/out"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		step catalog.FetchStep
		want string
	}{
		{catalog.FetchStep{Src: on + "/none"}, "it does not exist"},
		{catalog.FetchStep{Src: "/dev/null"}, "neither a regular file nor a folder"},
		{catalog.FetchStep{Src: on + "/${option.up}/x"}, "must not contain .."},
		{catalog.FetchStep{Src: on, Dest: "a/${option.up}/.."}, "must be a relative path"},
		{catalog.FetchStep{Src: on + "/link", Dest: "out"}, "path escapes"},
	} {
		f := locally(file(t, 1, fetchItem("one", c.step)))
		f.FetchDir, f.Run.Scopes[0].Values = dir, map[string]any{"up": ".."}
		e := lastEvent(performReally(t, f, nil), 0)
		if e.Status != work.NodeFailed || e.Failure == nil {
			t.Fatalf("%+v: got %+v, want a failure", c.step, e)
		}
		if !strings.Contains(e.Failure.Message, c.want) {
			t.Errorf("%+v: got %q, want it to contain %q", c.step, e.Failure.Message, c.want)
		}
		wantNoFetchLeftovers(t, f)
	}
	f := locally(file(t, 1, fetchItem("one", catalog.FetchStep{Src: on + "/link"})))
	f.FetchDir, f.MinFree = dir, 1<<60
	e := lastEvent(performReally(t, f, nil), 0)
	if e.Failure == nil || e.Failure.Code != "fetch_no_space" {
		t.Errorf("got %+v, want fetch_no_space", e)
	}
}

// entry is one of an archive that a hostile node sends.
type entry struct {
	name, link, data string
	kind             byte
	size             int64 // announced; 0: that of data
}

// answer is what a node sends.
func answer(entries ...entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		_ = w.WriteHeader(&tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind,
			Mode: 0o644,
			Size: max(e.size, int64(len(e.data)))})
		_, _ = w.Write([]byte(e.data))
	}
	_ = w.Close()
	return framed("folder /src", b.Bytes())
}

func framed(head string, data []byte) []byte {
	return fmt.Appendf(nil, "begin %s\n%s\n0 %x\n", head, data, sha256.Sum256(data))
}

// fetchFrom fetches from a node that sends some bytes.
func fetchFrom(t testing.TB, dir string, data []byte) work.NodeEvent {
	t.Helper()
	f := file(t, 1, fetchItem("one", catalog.FetchStep{Src: "/src"}))
	f.FetchDir = dir
	return lastEvent(perform(t, f, newMemory(func(_ context.Context, _ string, c Command) (Result, error) {
		_, err := c.Stdout.Write(data)
		return Result{Began: true}, err
	})), 0)
}

// TestFetchFromHostileNode: nothing that a node sends leads out of its own folder, and damaged bytes are noticed.
func TestFetchFromHostileNode(t *testing.T) {
	file := entry{name: "./ok", data: "x", kind: tar.TypeReg}
	through := entry{name: "l/up", kind: tar.TypeReg}
	whole := answer(file)
	damaged := bytes.Replace(whole, []byte("x"), []byte("y"), 1)
	for name, c := range map[string]struct {
		data []byte
		code string // "" succeeds
	}{
		"whole":           {whole, ""},
		"up":              {answer(entry{name: "../up", data: "x", kind: tar.TypeReg}), "fetch_refused"},
		"hidden up":       {answer(entry{name: "a/../../up", data: "x", kind: tar.TypeReg}), "fetch_refused"},
		"absolute":        {answer(entry{name: "/etc/up", data: "x", kind: tar.TypeReg}), "fetch_refused"},
		"folder":          {answer(entry{name: "../up/", kind: tar.TypeDir}), "fetch_refused"},
		"hard link":       {answer(file, entry{name: "h", link: "../../../up", kind: tar.TypeLink}), "fetch_refused"},
		"through a link":  {answer(entry{name: "l", link: "/", kind: tar.TypeSymlink}, through), ""},
		"file and folder": {answer(file, entry{name: "ok/x", kind: tar.TypeReg}), "fetch_failed"},
		"path":            {framed("file /../../up", []byte("x")), ""},
		"relative path":   {framed("file up", []byte("x")), "fetch_refused"},
		"control":         {framed("file /a\rb", []byte("x")), "fetch_refused"},
		"damaged":         {damaged, "fetch_failed"},
		"torn":            {whole[:len(whole)-1], "fetch_failed"},
		"no tar":          {framed("folder /src", []byte("no tar at all")), "fetch_failed"},
		"nothing":         {nil, "fetch_failed"},
		"noise":           {[]byte("hello\n"), "fetch_failed"},
		"failed":          {bytes.Replace(whole, []byte("\n0 "), []byte("\n2 "), 1), "fetch_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := fetchFrom(t, filepath.Join(dir, "in"), c.data)
			code := ""
			if e.Failure != nil {
				code = e.Failure.Code
			}
			if code != c.code {
				t.Errorf("got %s %+v, want code %q", e.Status, e.Failure, c.code)
			}
			wantOnlyBelow(t, dir, "in/one/web-0")
		})
	}
}

// wantOnlyBelow checks that all files of a folder are below another one, and that none is a link.
func wantOnlyBelow(t *testing.T, dir, below string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, at)
		if err == nil && !d.IsDir() && (!strings.HasPrefix(name, below+"/") || !d.Type().IsRegular()) {
			t.Errorf("got %s, want regular files below %s only", name, below)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFetchIsBounded ends a transfer that exceeds the limits.
func TestFetchIsBounded(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "received"))
	if err != nil {
		t.Fatal(err)
	}
	var cause error
	r := &received{file: file, size: maxFetchTar, checked: maxFetchTar, cancel: func(err error) { cause = err }}
	defer r.remove()
	if _, err := r.Write(make([]byte, maxFetchHead+maxFetchTail)); err != nil || cause != nil {
		t.Errorf("got %v and canceled by %v, want what fits to be stored", err, cause)
	}
	if _, err := r.Write([]byte("x")); err != nil || fault.Code(cause) != "fetch_too_large" {
		t.Errorf("got %v and canceled by %v, want fetch_too_large", err, cause)
	}
	large := entry{name: "large", kind: tar.TypeReg, size: maxFetchBytes + 1}
	if e := fetchFrom(t, t.TempDir(), answer(large)); e.Failure == nil || e.Failure.Code != "fetch_too_large" {
		t.Errorf("got %s %+v, want fetch_too_large for a large file", e.Status, e.Failure)
	}
	many := make([]entry, maxFetchFiles+1)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("link%d", i), link: "x", kind: tar.TypeSymlink}
	}
	if e := fetchFrom(t, t.TempDir(), answer(many...)); e.Failure == nil || e.Failure.Code != "fetch_too_large" {
		t.Errorf("got %s %+v, want fetch_too_large for too many entries", e.Status, e.Failure)
	}
}

// TestFetchDelivers: what is stored equals what a node has, for any content and names.
func TestFetchDelivers(t *testing.T) {
	name := rapid.StringOfN(rapid.SampledFrom([]rune("ab '\"$`;*?!é-\n")), 1, 8, 30)
	content := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 4000),
		rapid.SliceOfN(rapid.SampledFrom([]byte("\x00\n\x1e'\\$`")), 0, 20))
	on, files := t.TempDir(), map[string][]byte{}
	for seed := range 100 {
		files["f"+name.Example(seed)] = content.Example(seed)
	}
	for n, data := range files {
		if err := os.WriteFile(filepath.Join(on, n), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := locally(file(t, 1, fetchItem("one", catalog.FetchStep{Src: on}),
		fetchItem("two", catalog.FetchStep{Src: on, Dest: "one"})))
	f.FetchDir = t.TempDir()
	d := performReally(t, f, nil)
	wantChanged(t, d, 0, len(files))
	wantChanged(t, d, 1, 0)
	for n, data := range files {
		wantFile(t, filepath.Join(f.FetchDir, "one/web-0", on, n), string(data), 0o600)
	}
}

// FuzzFetched feeds any bytes that a node may send. Nothing is stored outside its folder.
func FuzzFetched(f *testing.F) {
	f.Add(answer(entry{name: "ok", data: "x", kind: tar.TypeReg}), false)
	f.Add([]byte("../a\x00x"), true)
	f.Fuzz(func(t *testing.T, data []byte, wrap bool) {
		if wrap {
			data = framed("folder /src", data)
		}
		dir := t.TempDir()
		file, err := os.Create(filepath.Join(t.TempDir(), "received"))
		if err != nil {
			t.Fatal(err)
		}
		r := &received{file: file, cancel: func(error) {}}
		defer r.remove()
		_, _ = io.Copy(r, bytes.NewReader(data))
		if sent, err := r.open(); err == nil {
			_, _ = storeFetched(filepath.Join(dir, "in"), "one/web-0", sent)
		}
		wantOnlyBelow(t, dir, "in/one/web-0")
	})
}
