package releasetest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/release"
)

var targets = flag.String("targets", "linux/"+runtime.GOARCH, "platforms to build for, with blanks between them")

const (
	version = "1.4.0-rc.1"
	epoch   = "1790000000" // 2026-09-21
)

// sources copies what git knows, or would add, into a folder. Every file there has another time than here.
func sources(t *testing.T, to string, at time.Time) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted, and not committed yet
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(target, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// build makes a release out of a copy of the sources and gives its files.
func build(t *testing.T, dir, key string, at time.Time) map[string][]byte {
	t.Helper()
	sources(t, dir, at)
	out := filepath.Join(dir, "out of it")
	cmd := exec.Command(filepath.Join(dir, "scripts", "release.sh"))
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "VERSION=v"+version, "SOURCE_DATE_EPOCH="+epoch, "OUT="+out, "TARGETS="+*targets, "LEGWORK_RELEASE_KEY="+key,
		"LEGWORK_RELEASE_PASSWORD=", "RELEASE_KEYS=", "NOTES=")
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("release.sh: %v\n%s", err, text)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(out, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestAReleaseIsTheSameEachTime(t *testing.T) {
	public, private, err := release.GenerateKey("")
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, private, 0o600); err != nil {
		t.Fatal(err)
	}
	first := build(t, filepath.Join(t.TempDir(), "here"), key, time.Now().Add(-time.Hour))
	second := build(t, filepath.Join(t.TempDir(), "somewhere", "else entirely"), key, time.Now().Add(-9999*time.Hour))
	if len(first) != len(second) {
		t.Errorf("%d files, then %d", len(first), len(second))
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs: %d bytes, then %d, from byte %d on", name, len(content), len(second[name]), differs(content, second[name]))
		}
	}
	if t.Failed() {
		return
	}
	keys, err := release.Trusted([]string{string(public)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := release.Verify(first[release.ManifestName], first[release.SignatureName], keys)
	if err != nil {
		t.Fatal(err)
	}
	described(t, m, first)
	dir := t.TempDir()
	for name, content := range first {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	summed(t, dir)
	name := "legwork_" + version + "_linux_" + runtime.GOARCH
	if first[name] == nil {
		t.Skipf("the rest is about a release for linux/%s, and this one is for %s", runtime.GOARCH, *targets)
	}
	runs(t, filepath.Join(dir, name))
	sbom(t, first[name+".cdx.json"])
	debian(t, filepath.Join(dir, name+".deb"))
	redHat(t, filepath.Join(dir, name+".rpm"))
}

func differs(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// described checks that the manifest names every file by what it is.
func described(t *testing.T, m release.Manifest, files map[string][]byte) {
	t.Helper()
	if m.Version != version || m.Channel != release.Candidate || len(m.Assets) != len(files)-2 || fmt.Sprint(m.At.Unix()) != epoch {
		t.Errorf("the manifest is of %s, %s, with %d assets of %d files, at %s", m.Version, m.Channel, len(m.Assets), len(files), m.At)
	}
	for target := range strings.FieldsSeq(*targets) {
		system, arch, _ := strings.Cut(target, "/")
		if _, err := m.Program(release.Platform{OS: system, Arch: arch}); err != nil {
			t.Error(err)
		}
		for kind, end := range map[string]string{release.SBOM: ".cdx.json", release.Package: ".deb", release.RPM: ".rpm"} {
			if a, ok := m.Asset("legwork_" + version + "_" + system + "_" + arch + end); ok != (kind == release.SBOM || system == "linux") || ok && (a.Kind != kind || a.Arch != arch) {
				t.Errorf("%s of %s: %v, %+v", kind, target, ok, a)
			}
		}
	}
}

// summed checks SHA256SUMS by the program that people take.
func summed(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

func runs(t *testing.T, program string) {
	t.Helper()
	if text, err := exec.Command(program, "--version").CombinedOutput(); err != nil || strings.TrimSpace(string(text)) != version {
		t.Errorf("%s --version says %q, %v", program, text, err)
	}
}

func sbom(t *testing.T, content []byte) {
	t.Helper()
	var bom struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Version, PURL string }
		Metadata   struct{ Component struct{ Version string } }
	}
	if err := json.Unmarshal(content, &bom); err != nil || bom.Format != "CycloneDX" || bom.Metadata.Component.Version != version {
		t.Fatalf("the SBOM is of %q, %q: %v", bom.Format, bom.Metadata.Component.Version, err)
	}
	found := map[string]string{}
	for _, c := range bom.Components {
		found[c.Name] = c.Version
	}
	for _, name := range []string{"std", "aead.dev/minisign", "github.com/coder/websocket", "modernc.org/sqlite"} {
		if found[name] == "" {
			t.Errorf("%s is not in the SBOM of %d components", name, len(found))
		}
	}
}

// output runs a program of a distribution. On others the package cannot be looked into.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%s is not here: scripts/prerequisites.sh installs it where there is apt", name)
	}
	text, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, text)
	}
	return string(text)
}

// installed are the paths of a package.
var installed = []string{"./usr/bin/legwork", "./usr/lib/systemd/system/legwork-server.service", "./usr/lib/systemd/system/legwork-runner.service",
	"./etc/legwork"}

// debian looks into the package, unpacks it and runs what is in it.
func debian(t *testing.T, file string) {
	t.Helper()
	about, list := output(t, "dpkg-deb", "-I", file), output(t, "dpkg-deb", "-c", file)
	for _, want := range []string{"Package: legwork", "Version: 1.4.0~rc.1-1", "Architecture: " + runtime.GOARCH, "preinst", "postinst", "prerm"} {
		if !strings.Contains(about, want) {
			t.Errorf("the deb does not say %q:\n%s", want, about)
		}
	}
	for _, path := range append(slices.Concat(installed, documents), "./usr/share/zsh/vendor-completions/_legwork") {
		if !strings.Contains(list, path) {
			t.Errorf("the deb has no %s:\n%s", path, list)
		}
	}
	if !strings.Contains(list, "drwxr-x--- root/legwork") {
		t.Errorf("/etc/legwork is for everybody:\n%s", list)
	}
	root := t.TempDir()
	output(t, "dpkg-deb", "-x", file, root)
	placed(t, root)
	linked(t, root)
	share := filepath.Join(root, "usr", "share")
	shellsRead(t, filepath.Join(share, "zsh", "vendor-completions", "_legwork"),
		filepath.Join(share, "fish", "vendor_completions.d", "legwork.fish"))
	installs(t, file)
}

// redHat does the same with the package for rpm.
func redHat(t *testing.T, file string) {
	t.Helper()
	root := t.TempDir()
	output(t, "bsdtar", "-x", "-f", file, "-C", root)
	for _, path := range installed {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Errorf("the rpm: %v", err)
		}
	}
	placed(t, root)
	rpmSays(t, file)
}

// placed checks what is unpacked: the program runs, and the units start it where it is.
func placed(t *testing.T, root string) {
	t.Helper()
	runs(t, filepath.Join(root, "usr", "bin", "legwork"))
	for _, unit := range []string{"legwork-server.service", "legwork-runner.service"} {
		text, err := os.ReadFile(filepath.Join(root, "usr", "lib", "systemd", "system", unit))
		if err != nil || !strings.Contains(string(text), "ExecStart=/usr/bin/legwork ") {
			t.Errorf("%s starts something else: %v", unit, err)
		}
	}
}

// TestReleasesAreRefused: what would be no release is said before anything is built.
func TestReleasesAreRefused(t *testing.T) {
	for setting, want := range map[string]string{"VERSION=1.4": "no version", "VERSION=latest": "no version", "SOURCE_DATE_EPOCH=yesterday": "SOURCE_DATE_EPOCH"} {
		cmd := exec.Command(filepath.Join("..", "..", "..", "scripts", "release.sh"))
		cmd.Env = append(os.Environ(), "VERSION=1.4.0", "SOURCE_DATE_EPOCH="+epoch, "OUT="+t.TempDir(), setting)
		text, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %s", setting, err, text)
		}
	}
}
