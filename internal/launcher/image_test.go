package launcher_test

import (
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

func TestImageBearsTheRelease(t *testing.T) {
	for _, c := range []struct{ image, task, host, want string }{
		{"", "1.2.3", "1.0.0", "legwork:1.2.3"},
		{"", "", "1.0.0", "legwork:1.0.0"},
		{"", "", "", "legwork:latest"},
		{"ghcr.io/a/legwork:v{version}-slim", "1.2.3+g1", "", "ghcr.io/a/legwork:v1.2.3-g1-slim"},
		{"legwork@sha256:ab", "1.2.3", "", "legwork@sha256:ab"},
	} {
		task := &work.RunnerTask{Version: c.task, Hosting: &catalog.Hosting{Image: c.image}}
		if got := launcher.Image(task, launcher.Host{Version: c.host}); got != c.want {
			t.Errorf("image %q of task %q on %q is %q, want %q", c.image, c.task, c.host, got, c.want)
		}
	}
	if got := launcher.Image(&work.RunnerTask{}, launcher.Host{Version: "1"}); got != "legwork:1" {
		t.Errorf("without hosting it is %q", got)
	}
}

func TestLoopback(t *testing.T) {
	for server, want := range map[string]bool{
		"http://127.0.0.1:8440": true, "http://localhost:8440": true, "http://[::1]:1": true, "http://0.0.0.0:1": true,
		"https://legwork.example.com": false, "https://10.0.0.1": false, "://": false, "": false,
	} {
		if got := launcher.Loopback(server); got != want {
			t.Errorf("%q: %v", server, got)
		}
	}
}
