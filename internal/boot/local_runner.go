package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/engine"
	"legwork/internal/fault"
	"legwork/internal/launcher"
	"legwork/internal/runner"
	"legwork/internal/store"
	"legwork/internal/wire"
)

// The Local Runner is an Instance inside the Server's own process. It logs in, connects and executes like any other; what it
// starts outlives the Server under a keeper, and the next start goes on with it. Several Servers are Instances of one record.
const (
	localRunnerFolder = "local-runner" // in the data folder: the working directory
	localRetry        = 10 * time.Second
)

// localRunner is the Local Runner of a Server, with the loopback port through which it alone connects.
type localRunner struct {
	server   *server
	settings RunnerSettings
	instance string
	listener net.Listener
	launcher bool // it launches, and does nothing else
	log      *slog.Logger
}

// runLauncher runs the Local Runner of a Server whose settings want none, once there is a hosted Runner that only the Server itself can launch.
// It offers nothing but that: no Job of a Module or of a Runbook comes to it.
func (s *server) runLauncher(ctx context.Context, server *http.Server) error {
	select {
	case <-s.control.LauncherWanted():
	case <-ctx.Done():
		return nil
	}
	var l *localRunner
	opened := untilDone(ctx, func() (err error) {
		if l, err = s.openLocalRunner(); err != nil {
			s.log.Error("hosted runners cannot be launched by this server; it is tried again", "error", err)
		}
		return err
	})
	if !opened {
		return nil
	}
	l.launcher = true
	s.log.Info("the local runner starts: there are hosted runners to launch")
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l.listener) }) // until the Server stops answering, or the Local Runner has ended
	err := l.run(ctx)
	return errors.Join(err, l.close())
}

// untilDone does something again until it succeeds, after a second at first and after a minute at last. It gives false when ctx ended before.
func untilDone(ctx context.Context, do func() error) bool {
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, time.Minute) {
		if do() == nil {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return false
}

// openLocalRunner makes the Local Runner ready.
func (s *server) openLocalRunner() (*localRunner, error) {
	l := &localRunner{server: s, settings: DefaultRunnerSettings(), log: s.log.With("runner", catalog.LocalRunner)}
	host, err := os.Hostname()
	if err != nil {
		host = "server"
	}
	l.instance = fmt.Sprintf("%s-%.8s", host, s.id)
	dir, err := filepath.Abs(filepath.Join(s.settings.Data, localRunnerFolder))
	if err != nil {
		return nil, fmt.Errorf("find the folder of the local runner: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the local runner: %w", err)
	}
	l.settings.WorkingDirectory.WorkingDirectory = dir
	l.settings.WorkingDirectory.TempDirectory = filepath.Join(dir, "temp")
	l.settings.Runner.Instance = l.instance
	l.settings.Runner.Launcher = true // the host is the Server's own
	l.settings.Runner.LauncherEnvironment = s.settings.LauncherEnvironment
	l.settings.Runner.ReleaseKeys = s.settings.ReleaseKeys
	l.settings.launcherLimits = s.settings.launcherLimits()
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fault.New(fault.Unavailable, "listen", "the local runner finds no free port on the loopback").WithCause(err).
			WithHint("turn it off with local_runner: false, or free some ports")
	}
	l.listener = hostLimit(l.log).listener(l.listener)
	return l, nil
}

// close lets go of the port; that the Server has closed it already is no error.
func (l *localRunner) close() error {
	if err := l.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// run keeps the Local Runner connected until ctx ends. That it cannot be is said in the log, and tried again: the Server
// goes on without it.
func (l *localRunner) run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	for {
		err := l.connect(ctx, self)
		if ctx.Err() != nil {
			return nil
		}
		if refusedLogin(err) {
			err = errors.Join(err, os.Remove(l.tokenFile())) // the record was deleted or its secret ended: it is made anew
		}
		l.log.Error("the local runner ended", "error", err)
		select {
		case <-time.After(localRetry):
		case <-ctx.Done():
			return nil
		}
	}
}

// refusedLogin tells whether the Runner ended because the Server does not know its credentials any more.
func refusedLogin(err error) bool {
	var refused *wire.CloseError
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.NotFound) ||
		errors.As(err, &refused) && refused.Code == wire.CloseUnauthorized
}

func (l *localRunner) tokenFile() string {
	return filepath.Join(l.settings.WorkingDirectory.WorkingDirectory, registeredFile)
}

func (l *localRunner) connect(ctx context.Context, self string) error {
	token, err := readTokenFile(l.tokenFile())
	if errors.Is(err, fs.ErrNotExist) {
		token, err = l.register(ctx)
	}
	if err != nil {
		return err
	}
	settings := l.settings
	settings.use(token)
	settings.Server.URL = "http://" + l.listener.Addr().String()
	config := runnerConfig(settings, self, l.log)
	config.Confine = l.server.settings.confinement()
	if l.launcher {
		config.Engines = engine.Set{launcher.Name: config.Engines[launcher.Name]}
	}
	return runner.New(config).Run(ctx)
}

// register makes the record of the Local Runner, or joins it, and keeps what this Server logs in with.
func (l *localRunner) register(ctx context.Context) (t tokenFile, err error) {
	var org string
	err = l.server.store.View(ctx, func(tx *store.Tx) error {
		o, err := tx.OrganizationByName(access.DefaultOrganization)
		org = o.ID
		return err
	})
	if err != nil {
		return t, fmt.Errorf("find the organization of the local runner: %w", err)
	}
	by := catalog.Registrar{OrganizationID: org, ID: catalog.ServerRegistrar, Name: catalog.ServerRegistrar, AnyLabels: true}
	made, err := l.server.control.RegisterRunner(ctx, by, catalog.Registration{
		Name: catalog.LocalRunner, Instance: l.instance, Description: "Inside the Server's own process, see the setting local_runner",
		AllowMultipleInstances: true, Lifetime: catalog.Persistent,
	}, control.Proof{})
	if err != nil {
		return t, fmt.Errorf("register the local runner: %w", err)
	}
	t = tokenFile{Server: "loopback", OrganizationID: made.OrganizationID, RunnerID: made.Runner.ID, Runner: made.Runner.Name,
		Instance: l.instance, ClientID: made.ClientID, ClientSecret: made.ClientSecret, RegisteredAt: time.Now().UTC()}
	return t, writeTokenFile(l.tokenFile(), t)
}
