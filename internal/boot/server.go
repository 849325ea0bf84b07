package boot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"legwork/internal/access"
	"legwork/internal/api"
	"legwork/internal/blob"
	"legwork/internal/bus"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/durable"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/web"
)

// RunServer runs a Server until ctx ends, then drains it: new work is refused, Runners are told, what they
// sent is stored, and the store is closed. ready is told the base URL once requests are answered. The program's
// log goes to out.
func RunServer(ctx context.Context, settings ServerSettings, out io.Writer, ready func(url string)) error {
	return runServer(ctx, settings, false, out, ready)
}

// runServer is RunServer; components says to serve the page that shows every component of the dashboard.
func runServer(ctx context.Context, settings ServerSettings, components bool, out io.Writer, ready func(url string)) error {
	defer keepMemoryLow()()
	log := newLog(out, settings.LogFormat, func(string) slog.Level { return settings.Level() })
	s, err := openServer(ctx, settings, log)
	if err != nil {
		return err
	}
	defer s.close()
	s.components = components
	listener, url, err := s.listen()
	if err != nil {
		return err
	}
	s.url = reachable(url)
	log.Info("the server is ready", "url", url, "version", Version(), "data", settings.Data)
	ready(url)
	return s.serve(ctx, listener)
}

// server is the parts of a Server, in the order in which they are opened.
type server struct {
	settings ServerSettings
	log      *slog.Logger
	store    *store.Store
	access   *access.Access
	bus      *bus.Bus
	blobs    *blob.Store
	control  *control.Control
	local    *localRunner   // nil: none
	closers  []func() error // in the order of opening

	components bool   // the page of components is served
	marker     marker // as it is in its file
	id         string // of this Server among several
	url        string // that processes connect to which launchers start
}

// openServer opens every part. On an error it closes those that are open.
func openServer(ctx context.Context, settings ServerSettings, log *slog.Logger) (*server, error) {
	s := &server{settings: settings, log: log}
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *server) open(ctx context.Context) (err error) {
	settings, log := s.settings, s.log
	if err := os.MkdirAll(settings.Data, 0o700); err != nil {
		return fault.New(fault.Invalid, "data_folder", "the data folder %s cannot be made", settings.Data).
			WithHint("choose another with --data, or give this user the right to write there").WithCause(err)
	}
	if err := checkDataFolder(settings.Data, settings.AllowGroupAccess); err != nil {
		return err
	}
	id, err := s.serverID()
	if err != nil {
		return err
	}
	// Other storage is opened first: a first start that fails leaves no tables and no admin token behind.
	if s.bus, err = bus.Open(ctx, bus.Config{URL: settings.NATSURL.Reveal()}); err != nil {
		return err
	}
	s.closers = append(s.closers, s.bus.Close)
	if s.blobs, err = blob.Open(ctx, blobsOf(settings)); err != nil {
		return err
	}
	s.closers = append(s.closers, s.blobs.Close)
	if s.store, err = store.Open(ctx, databaseOf(settings), log.With(categoryKey, "store")); err != nil {
		return err
	}
	s.closers = append(s.closers, s.store.Close)
	if err := s.useDatabase(ctx); err != nil {
		return err
	}
	s.access, err = access.New(ctx, s.store, access.Settings{
		Dir: settings.Data, MasterKey: masterKeyOf(settings), TokenLifetime: time.Duration(settings.TokenLifetime),
		RegistrationToken: settings.RunnerRegistrationToken.Reveal(),
	}, log.With(categoryKey, "access"))
	if err != nil {
		return err
	}
	keys, err := release.Trusted(settings.ReleaseKeys)
	if err != nil {
		return err
	}
	s.control = control.New(control.Config{
		ReleaseKeys: keys,
		Store:       s.store, Bus: s.bus, Blobs: s.blobs, Sealer: s.access.Sealer(), ServerID: id, Log: log.With(categoryKey, "control"),
		Limits: control.Limits{
			Lease: time.Duration(settings.Lease), Heartbeat: time.Duration(settings.Heartbeat),
			Stall: orNone(settings.StallTimeout), Recovery: orNone(settings.RecoveryWindow),
			Log:         store.LogLimits{Step: settings.LogMaxStepBytes, Job: settings.LogMaxJobBytes},
			LogRate:     settings.LogMaxBytesPerSecond,
			MaxAttempts: settings.MaxAttempts, JobsKept: orNone(settings.JobsKept), AuditKept: time.Duration(settings.AuditKept), Ephemeral: time.Duration(settings.EphemeralInstancesKept),
		},
		ServerURL:      func() string { return s.url },
		BootstrapToken: s.access.BootstrapToken,
		UncoveredLocal: settings.UncoveredNodes == uncoveredLocal,
		Webhooks: control.WebhookSettings{
			Wait: time.Duration(settings.WebhookWait), Repeat: time.Duration(settings.WebhookRepeat), DenyPrivate: settings.WebhookDenyPrivate,
		},
	})
	s.id = id
	if err := s.control.PrepareHold(ctx); err != nil {
		return err
	}
	if !settings.LocalRunner {
		return nil // it may be wanted later: see runLauncher
	}
	if s.local, err = s.openLocalRunner(); s.local != nil {
		s.closers = append(s.closers, s.local.close)
	}
	return err
}

// checkDataFolder refuses a data folder that other users of the host may read or write: it holds the database and the keys.
// With allowGroup, the members of the folder's group may.
func checkDataFolder(path string, allowGroup bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at the data folder: %w", err)
	}
	mode := info.Mode().Perm()
	if runtime.GOOS == "windows" || mode&access.ForbiddenMode(allowGroup) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "data_folder_open", "the data folder %s is open to other users of this host (mode %04o)", path, mode).
		WithHint("run: chmod 700 %s; on a volume that a group shares, run: chmod o= %s, and set allow_group_access", path, path)
}

// masterKeyOf returns the file of the master key that the settings name.
func masterKeyOf(s ServerSettings) access.MasterKeyFile {
	return access.MasterKeyFile{Path: access.MasterKeyPath(s.Data, s.MasterKeyFile), AllowGroupAccess: s.AllowGroupAccess}
}

// orNone says a setting of 0, which turns its limit off, as control's Limits say it.
func orNone(d catalog.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return time.Duration(d)
}

// serverID gives the id of this Server among several, the same after each start, so that it knows at
// once which Sessions its former life held. The data folder is locked: it is one process's own.
func (s *server) serverID() (string, error) {
	lock, err := lockDataFolder(filepath.Join(s.settings.Data, "server.lock"), s.settings.Data)
	if err != nil {
		return "", err
	}
	s.closers = append(s.closers, lock.Close)
	path := filepath.Join(s.settings.Data, "server-id")
	if b, err := os.ReadFile(path); err == nil && len(b) == 36 {
		return string(b), nil
	}
	id := uuid.NewString()
	return id, os.WriteFile(path, []byte(id), 0o600)
}

// lockDataFolder takes the data folder for this process. The lock ends when the file is closed.
func lockDataFolder(path, dir string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data folder: %w", err)
	}
	if err := process.Lock(lock); err != nil {
		return nil, fault.New(fault.Conflict, "data_folder_in_use", "another Server uses the data folder %s", dir).
			WithHint("stop it, or give this one a folder of its own with --data").WithCause(errors.Join(err, lock.Close()))
	}
	if err := durable.RemoveTemporary(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("remove temporary files of a crash: %w", err), lock.Close())
	}
	return lock, nil
}

func databaseOf(settings ServerSettings) string {
	if url := settings.Database.Reveal(); url != "" {
		return url
	}
	return filepath.Join(settings.Data, "legwork.db")
}

func blobsOf(settings ServerSettings) string {
	if url := settings.BlobURL.Reveal(); url != "" {
		return url
	}
	return filepath.Join(settings.Data, "blobs")
}

// close closes what is open, the last first.
func (s *server) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		if err := s.closers[i](); err != nil {
			s.log.Error("closing", "error", err)
		}
	}
}

// listen opens the port, with TLS if there is a certificate, and gives the base URL.
func (s *server) listen() (net.Listener, string, error) {
	l, err := net.Listen("tcp", s.settings.Listen)
	if err != nil {
		return nil, "", cannotListen(s.settings.Listen, err)
	}
	l = s.limitConnections().listener(l)
	scheme := "http"
	if s.settings.TLSCert != "" {
		pair, err := loadCertificate(s.settings.TLSCert, s.settings.TLSKey, func(err error) {
			s.log.Error("the renewed certificate is not used", "error", err)
		})
		if err != nil {
			l.Close()
			return nil, "", fault.New(fault.Invalid, "tls_certificate", "the TLS certificate cannot be used: %v", err).WithHint("look at --tls-cert and --tls-key")
		}
		// A Runner asks for http/1.1 only, which its WebSocket needs.
		l = tls.NewListener(l, &tls.Config{GetCertificate: pair.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}})
		scheme = "https"
	}
	if s.settings.PublicURL != "" {
		return l, s.settings.PublicURL, nil
	}
	return l, scheme + "://" + l.Addr().String(), nil
}

// limitConnections returns the limit of the connections to this Server.
func (s *server) limitConnections() *connectionLimit {
	total := connectionsWithin(s.settings.MaxConnections, maxOpenFiles())
	if total < s.settings.MaxConnections {
		s.log.Info("the limit of open files allows fewer connections than max_connections", "max_connections", s.settings.MaxConnections, "allowed", total)
	}
	proxies := s.settings.Proxies()
	shared := func(address netip.Addr) bool {
		return address.IsLoopback() || slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(address) })
	}
	return newConnectionLimit(total, min(s.settings.MaxConnectionsPerAddress, max(total/2, 1)), shared, s.log)
}

// reachable gives a URL at which processes on this host reach a Server that listens on all addresses.
func reachable(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return u.String()
}

// cannotListen says why an address cannot be listened on.
func cannotListen(address string, err error) error {
	f := fault.New(fault.Unavailable, "listen", "cannot listen on %s", address).WithCause(err).
		WithHint("choose another address with --listen; the cause is: %v", err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		f = f.WithHint("something listens there already: if it is another Server, stop it, or choose another address with --listen")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		f = f.WithHint("that is no address of this host: --listen 127.0.0.1:8440 is for this host alone, --listen :8440 for every address it has")
	case errors.Is(err, syscall.EACCES):
		f = f.WithHint("ports below 1024 are not for every user: choose one above with --listen")
	}
	return f
}

// serve answers until ctx ends, then stops in order: no new work, Runners told, requests over, control over.
func (s *server) serve(ctx context.Context, l net.Listener) error {
	stopping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	streaming, endStreams := context.WithCancel(stopping)
	defer endStreams()
	var face *api.Server
	face = api.New(api.Options{
		Control: s.control, Access: s.access, Log: s.log.With(categoryKey, "api"), Version: Version(),
		TrustedProxies: s.settings.Proxies(), MaxBodyBytes: s.settings.MaxBodyBytes,
		MaxSessions: s.settings.MaxSessions, MetricsPublic: s.settings.MetricsPublic,
		Draining: func() bool { return ctx.Err() != nil },
		Pages: web.New(web.Options{
			Control: s.control, Access: s.access, Log: s.log.With(categoryKey, "web"), Version: Version(), PublicURL: s.settings.PublicURL,
			Address: func(r *http.Request) string { return face.ClientAddress(r) }, TLS: func(r *http.Request) bool { return face.ClientTLS(r) }, Components: s.components,
			Streaming: streaming,
		}),
	})
	server := face.HTTPServer()
	server.RegisterOnShutdown(endStreams)
	parts, failed := errgroup.WithContext(stopping)
	parts.Go(func() error { return s.control.Run(stopping) })
	parts.Go(func() error { return s.access.Run(stopping) })
	parts.Go(func() error { return s.keepMarker(stopping) })
	listeners := []net.Listener{l}
	if s.local != nil {
		listeners = append(listeners, s.local.listener)
		parts.Go(func() error { return s.local.run(ctx) }) // it leaves before the Server stops answering
	}
	if s.local == nil {
		parts.Go(func() error { return s.runLauncher(ctx, server) })
	}
	for _, l := range listeners {
		parts.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("answering requests: %w", err)
			}
			return nil
		})
	}
	parts.Go(func() error {
		select {
		case <-ctx.Done():
		case <-failed.Done():
		}
		s.drain(server)
		stop()
		return nil
	})
	return parts.Wait()
}

// drain refuses what is new and waits, for a bounded time, until what is under way is over.
func (s *server) drain(server *http.Server) {
	s.log.Info("the server is stopping")
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.settings.DrainTimeout))
	defer cancel()
	s.control.Drain(ctx)
	if err := server.Shutdown(ctx); err != nil {
		s.log.Warn("some requests were cut short", "error", err)
		server.Close()
	}
}
