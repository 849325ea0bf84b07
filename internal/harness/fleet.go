package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"legwork/internal/harness/fleet"
)

// fleetEnv has a test binary be a fleet instead.
const fleetEnv = "LEGWORK_TEST_FLEET"

// ServeFleet makes this process a simulated fleet when it was started as one, and then does not return. TestMain calls it first.
func ServeFleet() {
	if os.Getenv(fleetEnv) == "" {
		return
	}
	if err := fleet.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// FleetConfig makes a Runner record for simulated Instances, which all Modules may use.
func (s *Server) FleetConfig(runner string, instances, capacity int) fleet.Config {
	s.t.Helper()
	var made struct {
		ID             string `json:"id"`
		OrganizationID string `json:"organization_id"`
		ClientID       string `json:"client_id"`
		ClientSecret   string `json:"client_secret"`
	}
	s.JSON(&made, "runner", "create", runner, "--all-modules", "--multiple")
	return fleet.Config{
		URL: s.URL, OrganizationID: made.OrganizationID, RunnerID: made.ID, ClientID: made.ClientID, ClientSecret: made.ClientSecret,
		Instances: instances, Capacity: capacity, Engines: map[string]string{"script": "5.2", "opentofu": "1.12.6"},
	}
}

// Fleet is a simulated fleet in a process of its own, so that the memory of the Server is measured alone.
type Fleet struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	mu  sync.Mutex
	ask *json.Encoder
	say *json.Decoder
}

// StartFleet starts a simulated fleet and waits until all of it is connected.
func StartFleet(t testing.TB, cfg fleet.Config) *Fleet {
	t.Helper()
	f := &Fleet{t: t, cmd: exec.Command(os.Args[0])}
	f.cmd.Env = append(os.Environ(), fleetEnv+"=1")
	f.cmd.Stderr = os.Stderr
	in, err := f.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.in, f.ask, f.say = in, json.NewEncoder(in), json.NewDecoder(out)
	t.Cleanup(f.Stop)
	if err := f.ask.Encode(cfg); err != nil {
		t.Fatal(err)
	}
	Eventually(t, fmt.Sprintf("%d simulated instances are online", cfg.Instances), func() bool { return f.Ask("").Online == cfg.Instances })
	return f
}

// Ask asks what the fleet has seen, of one Job if it is named.
func (f *Fleet) Ask(job string) (a fleet.Answer) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ask.Encode(fleet.Question{Job: job}); err != nil {
		f.t.Fatalf("the fleet's process is gone: %v", err)
	}
	if err := f.say.Decode(&a); err != nil {
		f.t.Fatalf("the fleet's process is gone: %v", err)
	}
	return a
}

// Stop ends the fleet's process; its Instances leave.
func (f *Fleet) Stop() {
	f.in.Close()
	_ = f.cmd.Wait()
}
