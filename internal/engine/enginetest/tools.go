package enginetest

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// The versions that the tests are made for.
const (
	openTofuVersion  = "1.12.6"
	terraformVersion = "1.5.7"
	pulumiVersion    = "3.223.0"
)

// OpenTofu gives the folder of a real tofu: that of LEGWORK_TEST_TOFU, or the one that make test built.
func OpenTofu(t testing.TB) string {
	t.Helper()
	return program(t, "LEGWORK_TEST_TOFU", "opentofu-"+openTofuVersion, "tofu")
}

// Terraform gives the folder of a real terraform: that of LEGWORK_TEST_TERRAFORM, or the one that make test built.
func Terraform(t testing.TB) string {
	t.Helper()
	return program(t, "LEGWORK_TEST_TERRAFORM", "terraform-"+terraformVersion, "terraform")
}

// Pulumi gives the folder of a real pulumi, with its language host for YAML: that of LEGWORK_TEST_PULUMI, or the one that
// make test built.
func Pulumi(t testing.TB) string {
	t.Helper()
	return program(t, "LEGWORK_TEST_PULUMI", "pulumi-"+pulumiVersion, "pulumi")
}

func program(t testing.TB, variable, folder, name string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		path = filepath.Join(toolsDir(t), folder, name)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no %s at %s: run `make test`, which builds it, or set %s to one", name, path, variable)
	}
	return filepath.Dir(path)
}

// toolsDir is where make test keeps the programs that tests need, outside the repository.
func toolsDir(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "legwork", "tools")
}

// EmptyCLIConfig gives the path of a settings file of OpenTofu and Terraform that says nothing, so that those of
// the machine do not matter.
func EmptyCLIConfig(t testing.TB) string {
	t.Helper()
	return cliConfig(t, "")
}

// ProviderCLIConfig gives the path of a settings file with which both engines install the test provider, as
// example.com/legwork/legwork, and nothing else. The provider is built when it is not there yet.
func ProviderCLIConfig(t testing.TB) string {
	t.Helper()
	return cliConfig(t, fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", providerMirror(t)))
}

func cliConfig(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cli.tfrc")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// providerMirror gives a filesystem mirror that holds the test provider, packed as a registry has it.
func providerMirror(t testing.TB) string {
	t.Helper()
	source := providerSource(t)
	mirror := filepath.Join(toolsDir(t), "testprovider-"+sourceHash(t, source))
	folder := filepath.Join(mirror, "example.com", "legwork", "legwork")
	archive := filepath.Join(folder, fmt.Sprintf("terraform-provider-legwork_1.0.0_%s_%s.zip", runtime.GOOS, runtime.GOARCH))
	if _, err := os.Stat(archive); err == nil {
		return mirror
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	defer hold(t, filepath.Join(mirror, "build.lock"))()
	if _, err := os.Stat(archive); err == nil {
		return mirror // somebody else built it meanwhile
	}
	binary := filepath.Join(t.TempDir(), "terraform-provider-legwork_v1.0.0")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	build.Dir = source
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test provider: %v\n%s", err, out)
	}
	pack(t, binary, archive)
	return mirror
}

// providerSource is tools/testprovider of this repository.
func providerSource(t testing.TB) string {
	t.Helper()
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the test does not know where its source is")
	}
	return filepath.Join(filepath.Dir(here), "..", "..", "..", "tools", "testprovider")
}

func sourceHash(t testing.TB, dir string) string {
	t.Helper()
	h := sha256.New()
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// pack writes the zip beside its place and then moves it there, so that it is there as a whole or not at all.
func pack(t testing.TB, binary, archive string) {
	t.Helper()
	out, err := os.Create(archive + ".new")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	z := zip.NewWriter(out)
	header := &zip.FileHeader{Name: filepath.Base(binary), Method: zip.Deflate}
	header.SetMode(0o755)
	entry, err := z.CreateHeader(header)
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := io.Copy(entry, in); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(archive+".new", archive); err != nil {
		t.Fatal(err)
	}
}
