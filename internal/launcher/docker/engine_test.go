package docker_test

import (
	"archive/tar"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/system"

	"legwork/internal/launcher"
)

// fakeEngine answers as the API of Docker's engine (swagger.yaml, 1.40 to 1.56) and Podman's rendering of it document, over a socket of
// its own. It holds containers, images, volumes and networks, and starts nothing.
type fakeEngine struct {
	t          *testing.T
	host       string // unix://...
	podman     bool
	newest     string // version of the API
	mu         sync.Mutex
	boxes      map[string]*box // by id
	images     []string        // normalized, with tag
	imageUser  string          // of all images
	entrypoint []string        // likewise
	registry   map[string]func(w http.ResponseWriter, r *http.Request)
	networks   []string
	volumes    map[string]bool
	cpus       int
	auth       []string // what pulls were authorized with
	calls      []string // "POST /containers/create", of all that came, without ids
	refuse     map[string]answer
	n, seen    int // the call that breaks, and those that came since that was said
	after      bool
	broke      bool
	made       int
}

// box is a container.
type box struct {
	id, name string
	config   container.CreateRequest
	state    container.ContainerState
	code     int
	oom      bool
	log      [][2]string // stream and text
	volume   string
	files    map[string]string // that were copied in
}

// answer is a status and a sentence.
type answer struct {
	status  int
	message string
}

// newEngine starts an engine that holds the image legwork:1.2.3.
func newEngine(t *testing.T, podman bool) *fakeEngine {
	t.Helper()
	e := &fakeEngine{t: t, podman: podman, newest: "1.51", boxes: map[string]*box{}, images: []string{"docker.io/library/legwork:1.2.3"}, volumes: map[string]bool{},
		registry: map[string]func(http.ResponseWriter, *http.Request){}, networks: []string{"bridge", "host", "none"}, cpus: 4, refuse: map[string]answer{}}
	if podman {
		e.newest = "1.41"
	}
	dir, err := os.MkdirTemp("", "engine") // a path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "docker.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(e)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	e.host = "unix://" + socket
	return e
}

// ServeHTTP breaks the call that is to break, and else does it.
func (e *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.seen++
	breaks := e.n > 0 && e.seen == e.n
	e.broke = e.broke || breaks
	after := e.after
	e.mu.Unlock()
	if breaks {
		if after {
			e.serve(httptest.NewRecorder(), r)
		}
		e.fail(w, http.StatusInternalServerError, "server error: an injected fault")
		return
	}
	e.serve(w, r)
}

var (
	versioned = regexp.MustCompile(`^/v(\d+)\.(\d+)(/.*)$`)
	oneBox    = regexp.MustCompile(`^/containers/([^/]+)(/(json|start|stop|logs|archive))?$`)
	boxName   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)
)

func (e *fakeEngine) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", e.newest)
	w.Header().Set("Ostype", "linux")
	if e.podman {
		w.Header().Set("Libpod-Api-Version", "5.4.0")
	}
	if r.URL.Path == "/_ping" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if r.Method == http.MethodGet {
			fmt.Fprint(w, "OK")
		}
		return
	}
	path := r.URL.Path
	if m := versioned.FindStringSubmatch(path); m != nil {
		path = m[3]
		minor, _ := strconv.Atoi(m[2])
		most, _ := strconv.Atoi(strings.TrimPrefix(e.newest, "1."))
		if m[1] != "1" || minor > most {
			e.fail(w, http.StatusBadRequest, fmt.Sprintf("client version %s.%s is too new. Maximum supported API version is %s", m[1], m[2], e.newest))
			return
		}
	}
	id, what := "", path
	if m := oneBox.FindStringSubmatch(path); m != nil && m[1] != "json" && m[1] != "create" {
		id, what = m[1], "/containers/{id}"+m[2]
	}
	call := r.Method + " " + what
	e.mu.Lock()
	e.calls = append(e.calls, call)
	refusal, refused := e.refuse[call]
	e.mu.Unlock()
	if refused {
		e.fail(w, refusal.status, refusal.message)
		return
	}
	e.route(w, r, call, id)
}

func (e *fakeEngine) route(w http.ResponseWriter, r *http.Request, call, id string) {
	switch {
	case call == "POST /images/create":
		e.pull(w, r) // takes its time, so it does not hold the lock
		return
	case strings.HasPrefix(call, "GET /images/"):
		e.image(w, strings.TrimSuffix(strings.TrimPrefix(call, "GET /images/"), "/json"))
		return
	case strings.HasPrefix(call, "GET /networks/"):
		e.network(w, strings.TrimPrefix(call, "GET /networks/"))
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch call {
	case "GET /version":
		name := "Engine"
		if e.podman {
			name = "Podman Engine"
		}
		e.json(w, 200, map[string]any{"Version": "28.3.3", "ApiVersion": e.newest, "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64", "Components": []map[string]any{{"Name": name, "Version": "28.3.3"}}})
		return
	case "GET /info":
		e.json(w, 200, system.Info{NCPU: e.cpus, MemTotal: 16 << 30, OSType: "linux"})
		return
	case "GET /containers/json":
		e.list(w, r)
		return
	case "POST /containers/create":
		e.create(w, r)
		return
	}
	b := e.find(id)
	if b == nil {
		e.fail(w, http.StatusNotFound, "No such container: "+id)
		return
	}
	switch call {
	case "GET /containers/{id}/json":
		e.inspect(w, b)
	case "POST /containers/{id}/start":
		e.start(w, b)
	case "POST /containers/{id}/stop":
		if b.state != container.StateRunning {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		b.state, b.code = container.StateExited, 143
		w.WriteHeader(http.StatusNoContent)
	case "GET /containers/{id}/logs":
		e.logs(w, r, b)
	case "PUT /containers/{id}/archive":
		if _, volume := b.config.Config.Volumes[r.URL.Query().Get("path")]; b.config.HostConfig.ReadonlyRootfs && !volume {
			e.fail(w, http.StatusForbidden, "container rootfs is marked read-only")
			return
		}
		files := tar.NewReader(r.Body)
		for header, err := files.Next(); err == nil; header, err = files.Next() {
			text, _ := io.ReadAll(files)
			b.files[r.URL.Query().Get("path")+"/"+header.Name] = string(text)
		}
		w.WriteHeader(http.StatusOK)
	case "DELETE /containers/{id}":
		e.remove(w, r, b)
	default:
		e.t.Errorf("the engine has no %s", call)
		e.fail(w, http.StatusNotFound, "page not found")
	}
}

func (e *fakeEngine) json(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (e *fakeEngine) fail(w http.ResponseWriter, status int, message string) {
	if e.podman {
		e.json(w, status, map[string]any{"cause": message, "message": message, "response": status})
		return
	}
	e.json(w, status, map[string]string{"message": message})
}

// find gives a container by its id, a prefix of it, or its name.
func (e *fakeEngine) find(id string) *box {
	for _, b := range e.boxes {
		if b.name == id || strings.HasPrefix(b.id, id) {
			return b
		}
	}
	return nil
}

func normal(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	return reference.TagNameOnly(named).String()
}

func (e *fakeEngine) create(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	var config container.CreateRequest
	if err := json.NewDecoder(r.Body).Decode(&config); err != nil || !boxName.MatchString(name) || config.Config == nil {
		e.fail(w, http.StatusBadRequest, fmt.Sprintf("bad request: %q %v", name, err))
		return
	}
	if !slices.Contains(e.images, normal(config.Image)) {
		e.fail(w, http.StatusNotFound, "No such image: "+config.Image)
		return
	}
	if other := e.find(name); other != nil {
		if e.podman {
			e.fail(w, http.StatusInternalServerError, fmt.Sprintf("container create: creating container storage: the container name %q is already in use by %s. You have to remove that container to be able to reuse that name: that name is already in use", name, other.id))
			return
		}
		e.fail(w, http.StatusConflict, fmt.Sprintf("Conflict. The container name %q is already in use by container %q. You have to remove (or rename) that container to be able to reuse that name.", "/"+name, other.id))
		return
	}
	if cpus := config.HostConfig.NanoCPUs; cpus > int64(e.cpus)*1e9 {
		e.fail(w, http.StatusBadRequest, fmt.Sprintf("range of CPUs is from 0.01 to %d.00, as there are only %d CPUs available", e.cpus, e.cpus))
		return
	}
	e.made++
	b := &box{id: fmt.Sprintf("%064x", 0xc0ffee0000+e.made), name: name, config: config, state: container.StateCreated, files: map[string]string{}, volume: fmt.Sprintf("volume-%d", e.made)}
	e.boxes[b.id], e.volumes[b.volume] = b, true // the image has a VOLUME
	e.json(w, http.StatusCreated, container.CreateResponse{ID: b.id, Warnings: []string{}})
}

func (e *fakeEngine) start(w http.ResponseWriter, b *box) {
	if b.state == container.StateRunning {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if mode := string(b.config.HostConfig.NetworkMode); mode != "" && mode != "default" && !slices.Contains(e.networks, mode) {
		e.fail(w, http.StatusNotFound, "network "+mode+" not found")
		return
	}
	b.state = container.StateRunning
	w.WriteHeader(http.StatusNoContent)
}

func (e *fakeEngine) remove(w http.ResponseWriter, r *http.Request, b *box) {
	if b.state == container.StateRunning && r.URL.Query().Get("force") != "1" {
		e.fail(w, http.StatusConflict, fmt.Sprintf("cannot remove container %q: container is running: stop the container before removing or force remove", "/"+b.name))
		return
	}
	delete(e.boxes, b.id)
	if r.URL.Query().Get("v") == "1" {
		delete(e.volumes, b.volume)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (e *fakeEngine) list(w http.ResponseWriter, r *http.Request) {
	var filters map[string]map[string]bool
	if text := r.URL.Query().Get("filters"); text != "" {
		if err := json.Unmarshal([]byte(text), &filters); err != nil {
			e.fail(w, http.StatusBadRequest, "invalid filter")
			return
		}
	}
	found := []container.Summary{}
	for _, b := range e.boxes {
		if b.state != container.StateRunning && r.URL.Query().Get("all") != "1" {
			continue
		}
		matches := true
		for label := range filters["label"] {
			key, value, _ := strings.Cut(label, "=")
			matches = matches && b.config.Labels[key] == value
		}
		if matches {
			found = append(found, container.Summary{ID: b.id, Names: []string{"/" + b.name}, Image: b.config.Image, Labels: b.config.Labels, State: b.state})
		}
	}
	e.json(w, 200, found)
}

func (e *fakeEngine) inspect(w http.ResponseWriter, b *box) {
	e.json(w, 200, container.InspectResponse{ID: b.id, Name: "/" + b.name, Config: b.config.Config, HostConfig: b.config.HostConfig,
		State: &container.State{Status: b.state, Running: b.state == container.StateRunning, ExitCode: b.code, OOMKilled: b.oom, StartedAt: "2026-01-02T03:04:05Z"}})
}

func (e *fakeEngine) logs(w http.ResponseWriter, r *http.Request, b *box) {
	w.Header().Set("Content-Type", "application/vnd.docker.multiplexed-stream")
	lines := b.log
	if n, err := strconv.Atoi(r.URL.Query().Get("tail")); err == nil && n < len(lines) {
		lines = lines[len(lines)-n:]
	}
	for _, line := range lines {
		header := [8]byte{0: 1}
		if line[0] == "stderr" {
			header[0] = 2
		}
		binary.BigEndian.PutUint32(header[4:], uint32(len(line[1])))
		_, _ = w.Write(append(header[:], line[1]...))
	}
}

func (e *fakeEngine) image(w http.ResponseWriter, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.images, normal(name)) {
		e.fail(w, http.StatusNotFound, "No such image: "+name)
		return
	}
	e.json(w, 200, map[string]any{"Id": "sha256:" + strings.Repeat("a", 64), "RepoTags": []string{name}, "Os": "linux",
		"Config": map[string]any{"User": e.imageUser, "Entrypoint": e.entrypoint}})
}

func (e *fakeEngine) network(w http.ResponseWriter, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.networks, name) {
		e.fail(w, http.StatusNotFound, "network "+name+" not found")
		return
	}
	e.json(w, 200, network.Inspect{Network: network.Network{Name: name, ID: strings.Repeat("b", 64)}})
}

func (e *fakeEngine) pull(w http.ResponseWriter, r *http.Request) {
	image := r.URL.Query().Get("fromImage") + ":" + r.URL.Query().Get("tag")
	e.mu.Lock()
	e.auth = append(e.auth, r.Header.Get("X-Registry-Auth"))
	serve := e.registry[image]
	e.mu.Unlock()
	if serve == nil {
		name, _, _ := strings.Cut(strings.TrimPrefix(image, "docker.io/library/"), ":")
		e.fail(w, http.StatusNotFound, "pull access denied for "+name+", repository does not exist or may require 'docker login': denied: requested access to the resource is denied")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	serve(w, r)
}

// says writes messages of a pull, as lines of JSON.
func says(w http.ResponseWriter, messages ...string) {
	for _, m := range messages {
		fmt.Fprintln(w, m)
		w.(http.Flusher).Flush()
	}
}

// push has a registry serve an image, in layers.
func (e *fakeEngine) push(image string, layers int) {
	e.registry[image] = func(w http.ResponseWriter, _ *http.Request) {
		says(w, `{"status":"Pulling from library/legwork","id":"2.0.0"}`)
		for i := range layers {
			says(w, fmt.Sprintf(`{"status":"Pulling fs layer","progressDetail":{},"id":"layer%d"}`, i),
				fmt.Sprintf(`{"status":"Downloading","progressDetail":{"current":1048576,"total":2097152},"progress":"[=>]","id":"layer%d"}`, i),
				fmt.Sprintf(`{"status":"Pull complete","progressDetail":{},"id":"layer%d"}`, i))
		}
		e.mu.Lock()
		e.images = append(e.images, image)
		e.mu.Unlock()
		says(w, `{"status":"Digest: sha256:abc"}`, `{"status":"Status: Downloaded newer image for legwork:2.0.0"}`)
	}
}

// end has the process of a Unit end by itself.
func (e *fakeEngine) end(unit string, code int, log ...[2]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b := e.find(unit); b != nil {
		b.state, b.code, b.log = container.StateExited, code, log
	}
}

func (e *fakeEngine) running() (names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.boxes {
		if b.state == container.StateRunning {
			names = append(names, b.config.Labels[launcher.TagUnit])
		}
	}
	return names
}

// left names containers that do not run, and volumes.
func (e *fakeEngine) left() (names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.boxes {
		names = append(names, "container "+b.name)
	}
	for v := range e.volumes {
		names = append(names, v)
	}
	return names
}

func (e *fakeEngine) environ(unit string) map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	env := map[string]string{}
	if b := e.find(unit); b != nil {
		for _, entry := range b.config.Env {
			name, value, _ := strings.Cut(entry, "=")
			env[name] = value
		}
	}
	return env
}

func (e *fakeEngine) count(call string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		if c == call {
			n++
		}
	}
	return n
}

// breakAt has a call fail; see launchertest.Bench.
func (e *fakeEngine) breakAt(n int, after bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n, e.after, e.seen, e.broke = n, after, 0, false
}
