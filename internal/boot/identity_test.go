package boot

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/process"
)

// registeredFolder returns a working directory in which a runner registered itself.
func registeredFolder(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	err := writeTokenFile(filepath.Join(dir, registeredFile), tokenFile{Server: "https://legwork.example.com",
		OrganizationID: organizationID, RunnerID: runnerID, Runner: name, Instance: "i", ClientID: "c", ClientSecret: clientSecret, RegisteredAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestNameOfAnotherRunnerIsRefused starts a runner in a folder that another runner registered in, such as a copy.
func TestNameOfAnotherRunnerIsRefused(t *testing.T) {
	dir := registeredFolder(t, "edge-7")
	load := func(more ...string) (RunnerSettings, error) {
		return LoadRunnerSettings(Layers{Environ: append([]string{"HOME=" + t.TempDir(),
			"LEGWORK_RUNNER__REGISTRATION_TOKEN=lwr_x", "LEGWORK_WORKINGDIRECTORY__WORKINGDIRECTORY=" + dir}, more...)})
	}
	_, err := load("LEGWORK_RUNNER__NAME=edge-9")
	got := strings.Join(problems(t, err), "\n")
	if !strings.Contains(got, "edge-9") || !strings.Contains(got, "belongs to runner edge-7") {
		t.Errorf("another name: got %q, want both names", got)
	}
	for _, more := range [][]string{{"LEGWORK_RUNNER__NAME=edge-7"}, {"LEGWORK_RUNNER__INSTANCE=other"},
		{"LEGWORK_RUNNER__NAME=renamed", "LEGWORK_RUNNER__LIFETIME=" + string(catalog.Ephemeral)}} {
		if s, err := load(more...); err != nil || s.Runner.ID != runnerID {
			t.Errorf("%q: got runner %q, %v, want the one of the token file", more, s.Runner.ID, err)
		}
	}
}

// TestNothingIsRegisteredInAFolderInUse keeps a use of the token, a record and the credential of the runner that
// is there.
func TestNothingIsRegisteredInAFolderInUse(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	settings := DefaultRunnerSettings()
	settings.Server.URL, settings.Runner.Name = server.URL, "edge"
	settings.Runner.RegistrationToken = NewSecret("lwr_x")
	dir := t.TempDir()
	settings.WorkingDirectory.WorkingDirectory = dir
	settings.Runner.TokenFile = filepath.Join(dir, registeredFile)
	lock, err := os.Create(filepath.Join(dir, "runner.lock"))
	if err == nil {
		err = process.Lock(lock)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := ensureRegistered(t.Context(), &settings, quiet()); fault.Code(err) != "working_directory_in_use" {
		t.Errorf("got %v, want working_directory_in_use", err)
	}
	if asked != 0 {
		t.Errorf("requests to the server: got %d, want none", asked)
	}
}
