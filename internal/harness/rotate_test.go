package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/harness"
)

// TestASecretIsRotatedUnderARunner: the earlier secret ends before the new one is in the file. The Runner takes it from there by itself.
func TestASecretIsRotatedUnderARunner(t *testing.T) {
	s := harness.StartServer(t)
	file := filepath.Join(t.TempDir(), "secret")
	put := func(secret string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := s.StartRunner("edge", func(m map[string]any) {
		credentials := m["Runner"].(map[string]any)["Credentials"].(map[string]any)
		put(credentials["ClientSecret"].(string))
		credentials["ClientSecret"] = "${file:" + file + "}"
	})
	var made struct {
		ClientSecret string `json:"client_secret"`
	}
	s.JSON(&made, "runner", "credential", "edge", "--disconnect")
	harness.Eventually(t, "the login is refused", func() bool { return strings.Contains(r.Output(), "refused the Runner's login") })
	put(made.ClientSecret)
	harness.Eventually(t, "it is connected again", func() bool {
		if r.Ended() {
			t.Fatalf("it ended: %s", r.Output())
		}
		return r.Connections() == 2
	})
}
