package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/api/apitest"
)

func TestReleases(t *testing.T) {
	w := apitest.Start(t)
	s := shellFor(w)
	dir := filepath.Join(t.TempDir(), "1.4.0")
	key := filepath.Join(t.TempDir(), "key")
	w.Must(os.Mkdir(dir, 0o755))
	w.Must(os.WriteFile(key, w.ReleaseKey, 0o600))
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		w.Must(os.WriteFile(path, []byte(content), 0o644))
		return path
	}
	program := file("legwork_1.4.0_linux_amd64", "a program")
	file("legwork_1.4.0_linux_amd64.deb", "a package")
	notes := filepath.Join(t.TempDir(), "notes.md")
	w.Must(os.WriteFile(notes, []byte("# What is new\n\nEverything:\n\n- \x1b[31mthis\n\t- \u202ethat\n"), 0o644))

	fails := func(want string, args ...string) {
		t.Helper()
		if r := s.run(append([]string{"release"}, args...)...); r.status == 0 || !strings.Contains(r.err, want) || !strings.Contains(r.err, "Hint:") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	works := func(want string, args ...string) {
		t.Helper()
		if r := s.run(append([]string{"release"}, args...)...); r.status != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	fails("the version is not known", "publish", dir)
	fails("no version of a release", "sign", dir, "--version", "1.4")
	fails("no program of version 1.5.0", "sign", dir, "--version", "1.5.0")
	fails("candidates have versions such as", "sign", dir, "--version", "1.4.0", "--channel", "candidate")
	fails("VERSION=1.4.0 make release", "sign", dir, "--version", "1.4.0-rc.1", "--channel", "stable")
	fails("there is no stable release yet", "show", "latest")
	works("not signed", "sign", dir, "--version", "1.4.0")
	fails("is not signed", "publish", dir)
	fails("--notes needs --key", "publish", dir, "--notes", notes)
	fails("cannot be read", "sign", dir, "--key", filepath.Join(dir, "nowhere"))
	works("stable 1.4.0, 2 assets, signed", "sign", dir, "--key", key)
	file("legwork_1.4.0_linux_amd64", "another program")
	fails("not what the manifest says", "publish", dir)
	w.Must(os.WriteFile(program, []byte("a program"), 0o644))
	w.Must(os.Rename(program+".deb", notes+".deb"))
	fails(program+".deb is missing", "publish", dir)
	w.Must(os.Rename(notes+".deb", program+".deb"))
	works("published", "publish", dir, "--notes", notes, "--key", key)
	if r := s.run("release", "publish", dir); r.status != 0 || !strings.Contains(r.err, "1.4.0 was published already, and is the same.") || !strings.Contains(r.out, "published") {
		t.Errorf("a second time: %+v", r)
	}
	works("1.4.0    stable   published", "list")
	works("\n# What is new\n\nEverything:\n\n- [31mthis\n    - that\n", "show", "latest")
	works("legwork_1.4.0_linux_amd64.deb (9 bytes)", "show", "v1.4.0")
	w.Must(os.WriteFile(notes, []byte("Others.\n"), 0o644))
	fails("was published", "publish", dir, "--notes", notes, "--key", key)
	works("withdrawn", "withdraw", "1.4.0")
	fails("was withdrawn", "publish", dir)
	fails("there is no stable release yet", "show", "latest")
	fails("there is no release", "show", "1.4.1")

	other := filepath.Join(t.TempDir(), "other")
	works("RW", "keygen", other)
	fails("is there already", "keygen", other)
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key: %v, %v", info, err)
	}
	w.Must(os.Rename(program, filepath.Join(dir, "legwork_1.5.0_linux_amd64")))
	works("1.5.0", "sign", dir, "--version", "1.5.0", "--key", other)
	fails("which is not trusted here", "publish", dir)
}
