package docker_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/launcher/docker"
	"legwork/internal/launcher/launchertest"
	"legwork/internal/work"
)

// bench puts a launcher before an engine.
func bench(t *testing.T, e *fakeEngine) *launchertest.Bench {
	return &launchertest.Bench{
		Open:    func(t *testing.T) launcher.Launcher { return open(t, func(string) {}) },
		Hosting: catalog.Hosting{Launcher: catalog.LaunchDocker, Docker: &catalog.DockerHosting{Host: e.host}}.Filled(),

		Processes: func(*testing.T) []string { return e.running() },
		Left:      func(*testing.T) []string { return e.left() },
		End:       func(_ *testing.T, unit string) { e.end(unit, 0) },
		Environ:   func(_ *testing.T, unit string) map[string]string { return e.environ(unit) },
		Break:     e.breakAt,
		Broke: func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.broke
		},
	}
}

func open(t *testing.T, say func(string)) launcher.Launcher {
	t.Helper()
	l, err := docker.New(launcher.Host{Version: "1.2.3", Say: say})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// isolate keeps the settings of whoever runs the tests away from the client.
func isolate(t *testing.T) {
	for _, name := range []string{"DOCKER_HOST", "DOCKER_API_VERSION", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"} {
		t.Setenv(name, "")
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
}

func TestConformance(t *testing.T) {
	isolate(t)
	for name, podman := range map[string]bool{"docker": false, "podman": true} {
		t.Run(name, func(t *testing.T) {
			launchertest.Run(t, func(t *testing.T) *launchertest.Bench { return bench(t, newEngine(t, podman)) })
		})
	}
}

// TestConformanceThroughAPull has every container wait for its image, so that calls of the pull break, too.
func TestConformanceThroughAPull(t *testing.T) {
	isolate(t)
	launchertest.Run(t, func(t *testing.T) *launchertest.Bench {
		e := newEngine(t, false)
		e.images = nil
		e.push("docker.io/library/legwork:1.2.3", 2)
		return bench(t, e)
	})
}

func TestAContainerIsConfined(t *testing.T) {
	isolate(t)
	e := newEngine(t, false)
	e.networks = append(e.networks, "jobs")
	b := bench(t, e)
	b.Hosting.Size, b.Hosting.Docker.User, b.Hosting.Docker.Network = catalog.SizeLarge, "10001:10001", "jobs"
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	if _, err := b.Open(t).Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	c := e.find("cloud-00000001").config
	h := c.HostConfig
	if h.Memory != 4<<30 || h.MemorySwap != h.Memory || h.PidsLimit == nil || *h.PidsLimit != 4096 || h.NanoCPUs != 2e9 || h.Init == nil || !*h.Init || h.AutoRemove || h.Privileged || string(h.RestartPolicy.Name) != "no" ||
		!slices.Equal(h.CapDrop, []string{"ALL"}) || !slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}) || len(h.Binds)+len(h.Mounts) > 0 || !h.ReadonlyRootfs || h.Tmpfs["/tmp"] == "" || h.NetworkMode != "jobs" {
		t.Errorf("its host configuration is %+v", h)
	}
	if c.Image != "legwork:1.2.3" || c.User != "10001:10001" || !slices.Equal(c.Cmd, []string{"runner", "start"}) {
		t.Errorf("it runs %q of %s as %q", c.Cmd, c.Image, c.User)
	}
	if _, volume := c.Volumes["/var/lib/legwork"]; !volume || len(c.Volumes) != 1 {
		t.Errorf("its volumes are %v", c.Volumes)
	}
	for key, value := range launcher.Tags(task) {
		if c.Labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, c.Labels[key], value)
		}
	}
	for key, value := range c.Labels {
		if strings.Contains(value, task.Units[0].Token) {
			t.Errorf("label %s bears the token", key)
		}
	}
}

func TestAContainerMayBeWritable(t *testing.T) {
	isolate(t)
	e := newEngine(t, false)
	b := bench(t, e)
	b.Hosting.Docker.Writable = true
	if _, err := b.Open(t).Ensure(t.Context(), b.Task("owner-a", "cloud", "cloud-00000001")); err != nil {
		t.Fatal(err)
	}
	if h := e.find("cloud-00000001").config.HostConfig; h.ReadonlyRootfs || !slices.Equal(h.CapDrop, []string{"ALL"}) {
		t.Errorf("its host configuration is %+v", h)
	}
}

func TestTheAuthorityOfTheServerComesAlong(t *testing.T) {
	isolate(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	e := newEngine(t, true)
	task := bench(t, e).Task("owner-a", "cloud", "cloud-00000001")
	l, err := docker.New(launcher.Host{Version: "1.2.3", CAFile: ca, Say: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Ensure(t.Context(), task)
	wantFault(t, err, "launcher_authority", fault.Failed, ca)
	if err := os.WriteFile(ca, []byte("an authority"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	text := e.find("cloud-00000001").files["/var/lib/legwork/server-ca.pem"]
	e.mu.Unlock()
	if told := e.environ("cloud-00000001")["LEGWORK_SERVER__CAFILE"]; text != "an authority" || told != "/var/lib/legwork/server-ca.pem" || len(e.running()) != 1 {
		t.Errorf("it finds %q, and is told of %s", text, told)
	}
}

func TestOneThatEndedIsReportedWithItsLastWordsAndRemoved(t *testing.T) {
	isolate(t)
	e := newEngine(t, false)
	b := bench(t, e)
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	ensure(t, b, task)
	e.end("cloud-00000001", 3, [2]string{"stdout", "first\n"}, [2]string{"stderr", "no\nroute\n"}, [2]string{"stdout", "a\n"}, [2]string{"stdout", "b\n"}, [2]string{"stderr", "c\n"}, [2]string{"stdout", "good bye\n"})
	again := ensure(t, b, task)
	if len(again) != 1 || again[0].State != work.UnitStopped || len(e.left()) != 2 {
		t.Fatalf("ensured again it is %+v, and %q are there", again, e.left())
	}
	reports, err := b.Open(t).List(t.Context(), task)
	if err != nil || len(reports) != 1 || reports[0].State != work.UnitStopped {
		t.Fatalf("%+v, %v", reports, err)
	}
	if note := reports[0].Note; note != "ended with 3; it said last: no | route | a | b | c | good bye" {
		t.Errorf("its note is %q", note)
	}
	if left := e.left(); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if reports, err = b.Open(t).List(t.Context(), task); err != nil || len(reports) > 0 {
		t.Errorf("it is seen again: %+v, %v", reports, err)
	}
}

func TestNoteTellsThatMemoryRanOut(t *testing.T) {
	isolate(t)
	e := newEngine(t, true)
	b := bench(t, e)
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	ensure(t, b, task)
	e.end("cloud-00000001", 137, [2]string{"stdout", strings.Repeat("ä", 5000)})
	e.find("cloud-00000001").oom = true
	reports, err := b.Open(t).List(t.Context(), task)
	if err != nil || len(reports) != 1 || !strings.Contains(reports[0].Note, "ended with 137: it needed more memory") || len(reports[0].Note) > 700 {
		t.Fatalf("%+v, %v", reports, err)
	}
}

// TestOneThatWasMadeAndNotStarted is what an Ensure that died between two calls leaves.
func TestOneThatWasMadeAndNotStarted(t *testing.T) {
	isolate(t)
	e := newEngine(t, false)
	b := bench(t, e)
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	e.refuse["POST /containers/{id}/start"] = answer{http.StatusServiceUnavailable, "the engine is going down"}
	_, err := b.Open(t).Ensure(t.Context(), task)
	wantFault(t, err, "launcher_failing", fault.Unavailable, "start the container cloud-00000001")
	if made := e.find("cloud-00000001"); made == nil || made.state != container.StateCreated {
		t.Fatalf("there is %+v", made)
	}
	delete(e.refuse, "POST /containers/{id}/start")
	ensure(t, b, task)
	if n := e.count("POST /containers/create"); n != 1 || !slices.Equal(e.running(), []string{"cloud-00000001"}) {
		t.Fatalf("made %d times, running %q", n, e.running())
	}
}

func TestAStrangerWithTheNameOfAUnit(t *testing.T) {
	isolate(t)
	for _, podman := range []bool{false, true} {
		e := newEngine(t, podman)
		b := bench(t, e)
		ensure(t, b, b.Task("owner-b", "cloud", "cloud-00000001"))
		_, err := b.Open(t).Ensure(t.Context(), b.Task("owner-a", "cloud", "cloud-00000001"))
		wantFault(t, err, "launcher_taken", fault.Conflict, "cloud-00000001")
		if n := e.count("POST /containers/{id}/start"); n != 1 {
			t.Errorf("containers were started %d times", n)
		}
	}
}

// TestAContainerOfTwoWhoLaunchAtOnce has another launcher make the container between the list and the create.
func TestAContainerOfTwoWhoLaunchAtOnce(t *testing.T) {
	isolate(t)
	for _, podman := range []bool{false, true} {
		e := newEngine(t, podman)
		b := bench(t, e)
		b.Hosting.Image = "legwork:2.0.0"
		task := b.Task("owner-a", "cloud", "cloud-00000001")
		e.push("docker.io/library/legwork:2.0.0", 1)
		serve := e.registry["docker.io/library/legwork:2.0.0"]
		e.registry["docker.io/library/legwork:2.0.0"] = func(w http.ResponseWriter, r *http.Request) {
			serve(w, r)
			e.registry = nil
			ensure(t, b, task)
		}
		reports := ensure(t, b, task)
		if len(reports) != 1 || reports[0].State != work.UnitRunning || reports[0].ID == "" || !slices.Equal(e.running(), []string{"cloud-00000001"}) {
			t.Errorf("podman %v: %+v, running %q", podman, reports, e.running())
		}
	}
}

func TestWhatAnEngineRefuses(t *testing.T) {
	isolate(t)
	for name, c := range map[string]struct {
		call   string
		answer answer
		code   string
		kind   fault.Kind
		says   string
	}{
		"a plugin that authorizes": {"POST /containers/create", answer{403, "authorization denied by plugin opa: creating is not allowed"}, "launcher_denied", fault.Forbidden, "denies to create the container cloud-00000001"},
		"listing denied":           {"GET /containers/json", answer{403, "authorization denied by plugin opa"}, "launcher_denied", fault.Forbidden, "denies to list containers"},
		"throttled":                {"POST /containers/create", answer{429, "too many requests"}, "launcher_throttled", fault.RateLimited, "too many"},
		"busy":                     {"POST /containers/{id}/start", answer{503, "no"}, "launcher_failing", fault.Unavailable, "start the container"},
		"a bad gateway":            {"GET /containers/json", answer{502, "bad gateway"}, "launcher_failing", fault.Unavailable, "bad gateway"},
		"nonsense":                 {"POST /containers/create", answer{400, "invalid user"}, "launcher_refused", fault.Invalid, "invalid user"},
		"no room on disk":          {"POST /containers/{id}/start", answer{500, "mkdir: no space left on device"}, "launcher_quota", fault.Conflict, "no space left"},
		"a network that is gone":   {"POST /containers/{id}/start", answer{404, "network jobs not found"}, "launcher_missing", fault.NotFound, "network jobs not found"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, false)
			b := bench(t, e)
			e.refuse[c.call] = c.answer
			_, err := b.Open(t).Ensure(t.Context(), b.Task("owner-a", "cloud", "cloud-00000001"))
			wantFault(t, err, c.code, c.kind, c.says)
			if strings.Contains(fmt.Sprintf("%+v %v", fault.Of(err), err), "token-of") {
				t.Errorf("the token is in %v", err)
			}
		})
	}
}

func TestStopOfWhatIsEndingAlready(t *testing.T) {
	isolate(t)
	e := newEngine(t, false)
	b := bench(t, e)
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	ensure(t, b, task)
	e.refuse["DELETE /containers/{id}"] = answer{409, "removal of container cloud-00000001 is already in progress"}
	err := b.Open(t).Stop(t.Context(), task, []string{"cloud-00000001"})
	wantFault(t, err, "launcher_conflict", fault.Unavailable, "already in progress")
	delete(e.refuse, "DELETE /containers/{id}")
	if err := b.Open(t).Stop(t.Context(), task, []string{"cloud-00000001"}); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutAnEngine(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	notASocket := filepath.Join(dir, "f")
	if err := os.WriteFile(notASocket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for host, code := range map[string]string{
		"unix://" + dir + "/none": "launcher_unreachable", "unix://" + notASocket: "launcher_unreachable", "tcp://127.0.0.1:9": "launcher_unreachable",
		"ssh://host": "launcher_host", "nonsense": "launcher_host",
	} {
		b := &launchertest.Bench{Hosting: catalog.Hosting{Launcher: catalog.LaunchDocker, Docker: &catalog.DockerHosting{Host: host}}.Filled()}
		_, err := open(t, nil).Describe(t.Context(), b.Task("owner-a", "cloud"))
		if f := fault.Of(err); fault.Code(err) != code || f.Hint == "" || (code == "launcher_unreachable" && (!f.Retryable() || !strings.Contains(f.Message, host))) {
			t.Errorf("%s: %+v", host, f)
		}
	}
}

func TestASocketThatMayNotBeOpened(t *testing.T) {
	isolate(t)
	b := &launchertest.Bench{Hosting: catalog.Hosting{Launcher: catalog.LaunchDocker, Docker: &catalog.DockerHosting{Host: "unix:///run/docker.sock"}}.Filled()}
	l := docker.Dialing(launcher.Host{}, os.ErrPermission)
	_, err := l.List(t.Context(), b.Task("owner-a", "cloud"))
	wantFault(t, err, "launcher_denied", fault.Forbidden, "/run/docker.sock")
}

func TestTheEngineOfTheEnvironment(t *testing.T) {
	isolate(t)
	e := newEngine(t, false)
	b := bench(t, e)
	b.Hosting.Docker = &catalog.DockerHosting{}
	t.Setenv("DOCKER_HOST", e.host)
	ensure(t, b, b.Task("owner-a", "cloud", "cloud-00000001"))
	if len(e.running()) != 1 {
		t.Fatal("DOCKER_HOST is passed over")
	}
}

func TestDescribe(t *testing.T) {
	isolate(t)
	for name, c := range map[string]struct {
		podman bool
		change func(*fakeEngine, *work.RunnerTask)
		said   string
		code   string
	}{
		"docker":          {change: func(*fakeEngine, *work.RunnerTask) {}, said: "Docker 28.3.3 at unix://"},
		"its version":     {change: func(*fakeEngine, *work.RunnerTask) {}, said: "API 1.51"},
		"podman":          {podman: true, change: func(*fakeEngine, *work.RunnerTask) {}, said: "API 1.41"},
		"the image":       {change: func(*fakeEngine, *work.RunnerTask) {}, said: "the image legwork:1.2.3 is here"},
		"a new image":     {change: func(_ *fakeEngine, task *work.RunnerTask) { task.Version = "3.0.0" }, said: "the image legwork:3.0.0 is not here yet"},
		"loopback":        {change: func(*fakeEngine, *work.RunnerTask) {}, said: "beware: http://127.0.0.1:9 leads to the host itself"},
		"no room":         {change: func(e *fakeEngine, task *work.RunnerTask) { e.cpus, task.Hosting.Size = 2, catalog.SizeXLarge }, code: "launcher_quota"},
		"no network":      {change: func(_ *fakeEngine, task *work.RunnerTask) { task.Hosting.Docker.Network = "jobs" }, code: "launcher_network"},
		"denied":          {change: func(e *fakeEngine, _ *work.RunnerTask) { e.refuse["GET /info"] = answer{403, "denied by plugin"} }, code: "launcher_denied"},
		"not of Docker's": {change: func(e *fakeEngine, _ *work.RunnerTask) { e.refuse["GET /version"] = answer{501, "no"} }, code: "launcher_unsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, c.podman)
			b := bench(t, e)
			task := b.Task("owner-a", "cloud")
			c.change(e, task)
			said, err := b.Open(t).Describe(t.Context(), task)
			if fault.Code(err) != c.code || !strings.Contains(strings.Join(said, "\n"), c.said) {
				t.Fatalf("it said %q: %v", said, err)
			}
			if c.code != "" && fault.Of(err).Hint == "" {
				t.Error("it has no hint")
			}
		})
	}
}

func TestImageIsPulled(t *testing.T) {
	isolate(t)
	config := `{"auths":{"registry.example.com:5000":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("me:secret")) + `"}}}`
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, false)
	e.push("registry.example.com:5000/legwork:2.0.0", 200)
	var said []string
	b := bench(t, e)
	b.Hosting.Image = "registry.example.com:5000/legwork:{version}"
	task := b.Task("owner-a", "cloud", "cloud-00000001", "cloud-00000002")
	task.Version = "2.0.0"
	if _, err := open(t, func(line string) { said = append(said, line) }).Ensure(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if len(e.auth) != 1 || len(e.running()) != 2 {
		t.Fatalf("pulled %d times for %q", len(e.auth), e.running())
	}
	if auth, err := base64.URLEncoding.DecodeString(e.auth[0]); err != nil || !strings.Contains(string(auth), `"password":"secret"`) {
		t.Errorf("with %q", auth)
	}
	if text := strings.Join(said, "\n"); len(said) > 30 || !strings.Contains(text, "is not here yet: pulling it") || strings.Contains(text, "secret") {
		t.Errorf("600 messages became %d lines: %q", len(said), said)
	}
}

func TestImageThatCannotBeHad(t *testing.T) {
	isolate(t)
	const image = "docker.io/library/legwork:2.0.0"
	for name, c := range map[string]struct {
		serve func(w http.ResponseWriter, r *http.Request)
		kind  fault.Kind
	}{
		"unknown": {nil, fault.NotFound},
		"no such tag": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			says(w, `{"message":"manifest for legwork:2.0.0 not found: manifest unknown: manifest unknown"}`)
		}, fault.NotFound},
		"denied": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			says(w, `{"message":"Head \"https://ghcr.io/v2/a/manifests/1\": denied"}`)
		}, fault.NotFound},
		"Podman's way": {func(w http.ResponseWriter, _ *http.Request) {
			says(w, `{"status":"Trying to pull"}`, `{"error":"initializing source: reading manifest: manifest unknown","errorDetail":{"message":"initializing source: reading manifest: manifest unknown"}}`)
		}, fault.NotFound},
		"in the middle": {func(w http.ResponseWriter, _ *http.Request) {
			says(w, `{"status":"Downloading","id":"a"}`, `{"errorDetail":{"message":"read tcp: connection reset by peer"},"error":"read tcp: connection reset by peer"}`)
		}, fault.Unavailable},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			says(w, `{"status":"Downloading","id":"a"}`)
			panic(http.ErrAbortHandler)
		}, fault.Unavailable},
		"too often": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(429)
			says(w, `{"message":"toomanyrequests: You have reached your pull rate limit."}`)
		}, fault.RateLimited},
		"registry is down": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			says(w, `{"message":"received unexpected HTTP status: 503 Service Unavailable"}`)
		}, fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, false)
			if c.serve != nil {
				e.registry[image] = c.serve
			}
			b := bench(t, e)
			task := b.Task("owner-a", "cloud", "cloud-00000001")
			task.Version = "2.0.0"
			_, err := b.Open(t).Ensure(t.Context(), task)
			wantFault(t, err, "launcher_image", c.kind, "legwork:2.0.0")
			if len(e.left()) > 0 {
				t.Errorf("%q are left", e.left())
			}
		})
	}
}

// TestASilentPull is given up: the registry holds its answer back.
func TestASilentPull(t *testing.T) {
	isolate(t)
	e := newEngine(t, false)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	e.registry["docker.io/library/legwork:2.0.0"] = func(w http.ResponseWriter, r *http.Request) {
		says(w, `{"status":"Pulling fs layer","id":"a"}`)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	b := bench(t, e)
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	task.Version = "2.0.0"
	_, err := docker.Impatient(launcher.Host{Version: "2.0.0", Say: func(string) {}}, 50*time.Millisecond).Ensure(t.Context(), task)
	wantFault(t, err, "launcher_image", fault.Unavailable, "said nothing for 50ms")

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := b.Open(t).Ensure(ctx, task); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled, it says %v", err)
	}
}

func ensure(t *testing.T, b *launchertest.Bench, task *work.RunnerTask) []work.UnitReport {
	t.Helper()
	reports, err := b.Open(t).Ensure(t.Context(), task)
	if err != nil {
		t.Error(err)
	}
	return reports
}

func wantFault(t *testing.T, err error, code string, kind fault.Kind, says string) {
	t.Helper()
	if fault.Code(err) != code || !fault.Is(err, kind) || !strings.Contains(fault.Of(err).Message, says) {
		t.Fatalf("got %v (%s, %s), want %s, %s with %q", err, fault.Code(err), fault.Of(err).Kind, code, kind, says)
	}
}

func TestAnImageOfRootIsWarnedOf(t *testing.T) {
	isolate(t)
	for _, c := range []struct {
		image, hosting string
		warned         bool
	}{{"", "", true}, {"0:0", "", true}, {"root", "", true}, {"10001:10001", "", false}, {"", "10001", false}} {
		e := newEngine(t, false)
		e.imageUser = c.image
		b := bench(t, e)
		b.Hosting.Docker.User = c.hosting
		said, err := b.Open(t).Describe(t.Context(), b.Task("owner-a", "cloud"))
		if warned := strings.Contains(strings.Join(said, "\n"), "runs as root"); err != nil || warned != c.warned {
			t.Errorf("of an image of %q, with %q, it is said %q, %v", c.image, c.hosting, said, err)
		}
	}
}

// TestOneInit gives a container the engine's init only where its image does not begin with one.
func TestOneInit(t *testing.T) {
	isolate(t)
	for name, c := range map[string]struct {
		entrypoint []string
		pulled     bool
		want       bool
	}{
		"that of the image":             {[]string{"/sbin/tini", "--", "legwork"}, false, false},
		"that of an image to be pulled": {[]string{"/sbin/tini", "--", "legwork"}, true, false},
		"the engine's":                  {[]string{"legwork"}, false, true},
		"the engine's, no entrypoint":   {nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, false)
			e.entrypoint = c.entrypoint
			if c.pulled {
				e.images = nil
				e.push("docker.io/library/legwork:1.2.3", 1)
			}
			b := bench(t, e)
			if _, err := b.Open(t).Ensure(t.Context(), b.Task("owner-a", "cloud", "cloud-00000001")); err != nil {
				t.Fatal(err)
			}
			if got := *e.find("cloud-00000001").config.HostConfig.Init; got != c.want {
				t.Errorf("init of the engine: got %v, want %v", got, c.want)
			}
		})
	}
}
