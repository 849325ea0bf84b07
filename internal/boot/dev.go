package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// DevOptions say what RunDev starts.
type DevOptions struct {
	Manifests []catalog.ManifestFile // applied once the Runner is online
	Home      string                 // folder for everything it keeps
	Listen    string                 // address of the Server
}

// devRunner is the name of the Runner record that RunDev makes.
const devRunner = "dev"

// RunDev runs a Server in this process and one Runner in a process of its own that logs in and connects
// like any other, applies manifests, and stays until ctx ends. The file env in Home then holds what a shell needs
// to reach the Server. What it says goes to out, the programs' own logs to files in Home.
func RunDev(ctx context.Context, o DevOptions, out io.Writer) error {
	if err := os.MkdirAll(o.Home, 0o700); err != nil {
		return fmt.Errorf("make the folder of dev: %w", err)
	}
	home, err := filepath.Abs(o.Home)
	if err != nil {
		return fmt.Errorf("find the folder of dev: %w", err)
	}
	d := &dev{DevOptions: o, home: home, out: out}
	defer os.Remove(filepath.Join(home, "env"))
	log, err := os.OpenFile(d.path("server.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("make the server's log: %w", err)
	}
	defer log.Close()
	settings := DefaultServerSettings()
	settings.Data, settings.Listen = d.path("data"), o.Listen
	settings.WebhookDenyPrivate = false // receivers run on this host, too
	// The Runner goes first and the Server last, so that the Runner can say goodbye.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	urls := make(chan string, 1)
	ended := make(chan error, 1)
	go func() { ended <- runServer(serving, settings, true, log, func(url string) { urls <- url }) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case url := <-urls:
		err = d.live(ctx, url, ended)
	}
	stopServing()
	return errors.Join(err, <-ended)
}

type dev struct {
	DevOptions
	home   string
	out    io.Writer
	url    string
	client *api.Client
}

func (d *dev) path(name string) string { return filepath.Join(d.home, name) }

// adminToken takes the admin token out of the data folder of the Server, and keeps it where the environment of the user reads it.
func (d *dev) adminToken() ([]byte, error) {
	err := os.Rename(d.path("data/admin-token"), d.path("token"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.ReadFile(d.path("token"))
}

// live runs the Runner beside a Server that answers, until ctx ends.
func (d *dev) live(ctx context.Context, url string, serverEnded chan error) error {
	token, err := d.adminToken()
	if err != nil {
		return fmt.Errorf("read the admin token: %w", err)
	}
	d.url = url
	d.client, err = api.NewClient(api.ClientOptions{Server: url, Token: strings.TrimSpace(string(token)), Version: Version()})
	if err != nil {
		return err
	}
	if err := d.writeRunnerSettings(ctx); err != nil {
		return err
	}
	runner, err := d.startRunner()
	if err != nil {
		return err
	}
	defer runner.stop()
	if err := d.ready(ctx, runner); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-runner.ended:
		return fault.New(fault.Failed, "runner_ended", "the runner ended by itself").WithHint("read %s", d.path("runner.log"))
	case err := <-serverEnded:
		serverEnded <- err
		return nil
	}
}

// writeRunnerSettings makes the Runner record and the settings file of its process, unless they are
// there from an earlier time. The secret is shown by the Server once, so that both are made together.
func (d *dev) writeRunnerSettings(ctx context.Context) error {
	var settings map[string]map[string]any
	if b, err := os.ReadFile(d.path("runner.json")); err == nil && json.Unmarshal(b, &settings) == nil {
		settings["Server"]["Url"] = d.url // another port than last time
		return d.writeJSON("runner.json", settings)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the runner's settings: %w", err)
	}
	if err := d.client.DeleteRunner(ctx, devRunner); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	made, err := d.client.CreateRunner(ctx, catalog.RunnerSpec{Name: devRunner, Description: "the runner of legwork dev", IsAssignedToAllModules: true})
	if err != nil {
		return err
	}
	return d.writeJSON("runner.json", map[string]map[string]any{
		"Runner": {"Id": made.ID, "OrganizationId": made.OrganizationID, "Instance": devRunner + "-1",
			"Credentials": map[string]string{"ClientId": made.ClientID, "ClientSecret": made.ClientSecret}},
		"Server":           {"Url": d.url},
		"WorkingDirectory": {"WorkingDirectory": d.path("runner")},
	})
}

func (d *dev) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.WriteFile(d.path(name), append(b, '\n'), 0o600)
}

// child is the Runner's process.
type child struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
}

func (d *dev) startRunner() (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	log, err := os.OpenFile(d.path("runner.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the runner's log: %w", err)
	}
	c := &child{cmd: exec.Command(self, "runner", "start", "--config", d.path("runner.json")), log: log, ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	// A group of its own: an interrupt from the terminal is for this process, which then stops the Runner in order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start the runner: %w", err)
	}
	go func() {
		_ = c.cmd.Wait() // how it ended stands in its log
		close(c.ended)
	}()
	return c, nil
}

// stop lets the Runner finish its Jobs for a moment, then cancels them, then ends it.
func (c *child) stop() {
	defer c.log.Close()
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, 5 * time.Second}, {syscall.SIGTERM, 10 * time.Second}, {syscall.SIGKILL, time.Minute}} {
		_ = c.cmd.Process.Signal(step.signal) // it may have ended just now
		select {
		case <-c.ended:
			return
		case <-time.After(step.wait):
		}
	}
}

// ready waits until the Runner is online, applies the manifests and says how to go on.
func (d *dev) ready(ctx context.Context, runner *child) error {
	if err := d.online(ctx, runner); err != nil {
		return err
	}
	if len(d.Manifests) > 0 {
		if _, err := d.client.ApplyManifest(ctx, d.Manifests, false); err != nil {
			return err
		}
	}
	env := fmt.Sprintf("export LEGWORK_SERVER=%s LEGWORK_TOKEN=$(cat '%s')\n", d.url, d.path("token"))
	if err := os.WriteFile(d.path("env.new"), []byte(env), 0o600); err != nil {
		return fmt.Errorf("write the environment: %w", err)
	}
	if err := os.Rename(d.path("env.new"), d.path("env")); err != nil {
		return fmt.Errorf("write the environment: %w", err)
	}
	fmt.Fprintf(d.out, "Legwork is ready at %s with the runner %q online.\nIn another terminal:\n\n  . %s\n  legwork module list\n\nLogs of both programs: %s, %s. Stop with Ctrl-C.\n",
		d.url, devRunner, d.path("env"), d.path("server.log"), d.path("runner.log"))
	return nil
}

// online looks until an Instance of the Runner is there.
func (d *dev) online(ctx context.Context, runner *child) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		instances, err := d.client.Instances(ctx, devRunner)
		if err != nil {
			return err
		}
		for _, i := range instances {
			if i.State == "online" {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-runner.ended:
			return fault.New(fault.Failed, "runner_ended", "the runner did not start").WithHint("read %s", d.path("runner.log"))
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "runner_offline", "the runner did not come online").WithHint("read %s", d.path("runner.log"))
		}
	}
}
