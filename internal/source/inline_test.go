package source_test

import (
	"os"
	"path/filepath"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/source"
)

func TestExtraFiles(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"m/main.tf": "code", "m/backend.tf": "original", "m/link.tf": "-> ../shared.tf", "shared.tf": "shared", "m/out": "-> /tmp", "m/dir/x": "x"})
	base := func(over map[string]string) map[string]string {
		all := map[string]string{"m/main.tf": "code", "m/backend.tf": "original", "m/link.tf": "-> ../shared.tf", "shared.tf": "shared", "m/out": "-> /tmp", "m/dir/x": "x"}
		for name, text := range over {
			all[name] = text
		}
		return all
	}
	for _, kind := range []string{"git", "inline"} {
		t.Run(kind, func(t *testing.T) {
			h := newHost(t, source.Config{})
			s := gitSource(r.url(), "main")
			base := base
			if kind == "inline" {
				s = catalog.Source{Type: catalog.Inline, Files: map[string]string{"m/main.tf": "code", "m/backend.tf": "original", "m/dir/x": "x"}}
				base = func(over map[string]string) map[string]string {
					all := map[string]string{"m/main.tf": "code", "m/backend.tf": "original", "m/dir/x": "x"}
					for name, text := range over {
						all[name] = text
					}
					return all
				}
			}
			s.Subdirectory = "m"
			h.must(s, catalog.ExtraFile{FileName: "extra.tf", Contents: "e1"}, catalog.ExtraFile{FileName: "deep/down.json", Contents: "d"})
			h.holds(base(map[string]string{"m/extra.tf": "e1", "m/deep/down.json": "d"}))

			h.refused("file_exists", s, catalog.ExtraFile{FileName: "backend.tf", Contents: "mine"})
			over := catalog.ExtraFile{FileName: "backend.tf", Contents: "mine", Overwrite: true}
			h.must(s, over, catalog.ExtraFile{FileName: "extra.tf", Contents: "e2"})
			h.holds(base(map[string]string{"m/extra.tf": "e2", "m/backend.tf": "mine"}))
			h.must(s, over)
			h.holds(base(map[string]string{"m/backend.tf": "mine"}))
			h.must(s)
			h.holds(base(nil))

			h.put("m/made.tf", "by a script")
			h.refused("file_exists", s, catalog.ExtraFile{FileName: "made.tf", Contents: "mine"})
			h.holds(base(map[string]string{"m/made.tf": "by a script"}))
			for name, code := range map[string]string{"../x": "bad_path", "/etc/x": "bad_path", "": "bad_path", ".": "bad_path", "a/../..": "bad_path", "dir": "bad_path",
				"terraform.tfstate": "bad_path", ".terraform/x": "bad_path", ".git/config": "bad_path", "main.tf/x": "bad_path"} {
				h.refused(code, s, catalog.ExtraFile{FileName: name, Contents: "x", Overwrite: true})
			}
			if kind == "git" {
				h.refused("bad_path", s, catalog.ExtraFile{FileName: "out/evil", Contents: "x"})
				h.must(s, catalog.ExtraFile{FileName: "link.tf", Contents: "instead of the link", Overwrite: true})
				h.holds(base(map[string]string{"m/made.tf": "by a script", "m/link.tf": "instead of the link"}))
				h.must(s)
			}
			h.holds(base(map[string]string{"m/made.tf": "by a script"}))
			info, err := os.Stat(h.must(s, catalog.ExtraFile{FileName: "secret", Contents: "s"}).Dir + "/secret")
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("an Extra file has the mode %v (%v)", info.Mode(), err)
			}
		})
	}
}

func TestInline(t *testing.T) {
	h := newHost(t, source.Config{Git: "/no/git/is/needed"})
	inline := func(files map[string]string) catalog.Source {
		return catalog.Source{Type: catalog.Inline, Files: files}
	}
	fetched := h.must(inline(map[string]string{"main.tf": "1", "mod/a.tf": "a", "x": "file"}))
	if fetched.Commit != "" || fetched.Dir != filepath.Join(h.module, "src") {
		t.Errorf("%+v", fetched)
	}
	h.put("terraform.tfstate", "state")
	h.put("main.tf", "changed")
	h.must(inline(map[string]string{"main.tf": "2", "x/y": "folder", "terraform.tfstate": "from the manifest"}))
	h.holds(map[string]string{"main.tf": "2", "x/y": "folder", "terraform.tfstate": "state"})
	h.must(inline(map[string]string{"x": "file again", "new.tfstate": "placed once"}))
	h.holds(map[string]string{"x": "file again", "terraform.tfstate": "state", "new.tfstate": "placed once"})
	h.drop("x")
	h.link("/etc/passwd", "x")
	h.link("/tmp", "dir")
	h.must(inline(map[string]string{"x": "in place of a link", "dir/f": "in a folder"}))
	h.holds(map[string]string{"x": "in place of a link", "dir/f": "in a folder", "terraform.tfstate": "state", "new.tfstate": "placed once"})
	h.put("d/terraform.tfstate", "deep")
	h.refused("state_in_the_way", inline(map[string]string{"d": "file"}))
	h.refused("state_in_the_way", inline(map[string]string{"terraform.tfstate/x": "file", "a": ""}))
	for _, name := range []string{"../x", "/x", "", "a/../b", "./a", ".git/hooks/x", "a\n"} {
		h.refused("bad_path", inline(map[string]string{name: ""}))
	}
	h.refused("bad_source", inline(nil))
	h.refused("bad_source", catalog.Source{Type: "svn"})
}
