package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/cli"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/runner"
	"legwork/internal/wire"
)

// canRegister tells whether the Runner can register itself at its start: it has a token, and the settings themselves do not
// say what it logs in with.
func (s *RunnerSettings) canRegister() bool {
	return !s.Runner.RegistrationToken.Empty() && (s.registered || s.Runner.Credentials.ClientSecret.Empty())
}

// takeIdentity fills in what the settings leave out of the Runner's identity from the token file. It tells whether it named
// the problem, when that file cannot be used.
func (s *RunnerSettings) takeIdentity(h *host, problem report) (named bool) {
	r := &s.Runner
	h.path(&r.TokenFile, "Runner.token_file", problem)
	if r.TokenFile == "" && (s.canRegister() || s.registering) && s.WorkingDirectory.WorkingDirectory != "" {
		r.TokenFile = filepath.Join(s.WorkingDirectory.WorkingDirectory, registeredFile)
	}
	asked := r.Name
	if r.Name == "" {
		r.Name = nameFrom(r.Instance)
	}
	if r.Lifetime == string(catalog.Ephemeral) {
		r.AllowMultipleInstances = true
	}
	complete := r.ID != "" && r.OrganizationID != "" && r.Credentials.ClientID != "" && !r.Credentials.ClientSecret.Empty()
	if complete || r.TokenFile == "" {
		return false
	}
	t, err := readTokenFile(r.TokenFile)
	switch {
	case s.registering && s.Server.URL == "":
		s.Server.URL = t.Server
	case s.registering:
	case err == nil && s.canRegister() && r.Lifetime == string(catalog.Persistent) && asked != "" && asked != t.Runner:
		problem("Runner.Name", "is %s, but the token file %s belongs to runner %s: to register another runner, set another "+
			"WorkingDirectory or Runner.token_file; otherwise remove Runner.Name", asked, r.TokenFile, t.Runner)
		return true
	case err == nil:
		s.use(t)
	case !errors.Is(err, fs.ErrNotExist):
		problem("Runner.token_file", "cannot be used: %s; %s", fault.Of(err).Message, fault.Of(err).Hint)
		return true
	case !s.canRegister():
		problem("Runner.token_file", "names %s, which does not exist: run `legwork runner register` first", r.TokenFile)
		return true
	}
	return false
}

// use takes an identity into the settings. What they say themselves goes before it.
func (s *RunnerSettings) use(t tokenFile) {
	r := &s.Runner
	if r.Credentials.ClientSecret.Empty() {
		s.registered = true
		r.Credentials.ClientSecret = NewSecret(t.ClientSecret)
	}
	for target, value := range map[*string]string{&r.ID: t.RunnerID, &r.OrganizationID: t.OrganizationID,
		&r.Credentials.ClientID: t.ClientID, &s.Server.URL: t.Server} {
		if *target == "" {
			*target = value
		}
	}
}

// nameFrom makes the name of a Runner out of that of a host: what a name may not hold becomes a hyphen.
func nameFrom(instance string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(instance))
	name = strings.Trim(name[:min(len(name), 63)], "-_.")
	if catalog.NameProblem(name) != "" {
		return ""
	}
	return name
}

// LoadRegistration reads and checks the settings of a Runner that is about to register or to unregister: its identity is
// not needed yet.
func LoadRegistration(from Layers) (RunnerSettings, error) {
	settings := DefaultRunnerSettings()
	settings.registering = true
	_, err := load("runner", &settings, from, runnerVariable)
	return settings, err
}

// register registers the Runner with a token and keeps what it gets in the token file.
func register(ctx context.Context, s RunnerSettings, token string) (cli.Registered, error) {
	var done cli.Registered
	path := s.Runner.TokenFile
	if path == "" {
		return done, fault.New(fault.Invalid, "token_file_missing", "the settings name no file for what the Runner logs in with").WithHint("set Runner.token_file")
	}
	if err := writable(path); err != nil {
		return done, err
	}
	request := api.RegistrationRequest{Registration: s.registration()}
	nonce, err := nonceFor(path)
	if err != nil {
		return done, err
	}
	request.Nonce = nonce
	if old, err := readTokenFile(path); err == nil {
		request.ClientID, request.ClientSecret = old.ClientID, old.ClientSecret
	}
	client, err := api.NewClient(api.ClientOptions{Server: s.Server.URL, Token: token, CAFile: s.Server.CAFile, Version: Version(), OfRunner: true, AllowPlainHTTP: s.Runner.AllowPlainHTTP})
	if err != nil {
		return done, err
	}
	defer client.Close()
	made, err := client.RegisterRunner(ctx, request)
	if err != nil {
		return done, err
	}
	err = writeTokenFile(path, tokenFile{Server: s.Server.URL, OrganizationID: made.OrganizationID, RunnerID: made.ID, Runner: made.Name,
		Instance: s.Runner.Instance, ClientID: made.ClientID, ClientSecret: made.ClientSecret, RegisteredAt: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = forgetNonce(path)
	}
	return cli.Registered{Runner: made.Name, ID: made.ID, Server: s.Server.URL, File: path, Labels: made.Labels,
		AllModules: made.IsAssignedToAllModules}, err
}

// registration is what the settings say of the Runner.
func (s *RunnerSettings) registration() catalog.Registration {
	return catalog.Registration{
		Name: s.Runner.Name, Instance: s.Runner.Instance, Description: s.Runner.Description, Labels: s.Runner.Labels, OS: catalog.OS(runtime.GOOS),
		Lifetime: catalog.Lifetime(s.Runner.Lifetime), AllowMultipleInstances: s.Runner.AllowMultipleInstances,
		MaxParallelJobs: s.Runner.MaxParallelJobs, Webhook: s.Runner.Webhook,
	}
}

// registerRunner is `legwork runner register`. ask gets the token when the settings have none.
func registerRunner(ctx context.Context, o cli.StartOptions, ask func(have bool) (string, error)) (cli.Registered, error) {
	settings, err := LoadRegistration(layers(o))
	if err != nil {
		return cli.Registered{}, err
	}
	token := settings.Runner.RegistrationToken.Reveal()
	if asked, err := ask(token != ""); err != nil {
		return cli.Registered{}, err
	} else if asked != "" {
		token = asked
	}
	if token == "" {
		return cli.Registered{}, fault.New(fault.Invalid, "registration_token_missing", "there is no registration token").
			WithHint("send it to --stdin-registration-token, or set LEGWORK_RUNNER__REGISTRATION_TOKEN or Runner.RegistrationToken")
	}
	if old, err := readTokenFile(settings.Runner.TokenFile); err == nil && old.Runner != settings.Runner.Name {
		return cli.Registered{}, fault.New(fault.Conflict, "token_file_of_other", "the token file %s is that of the Runner %s", settings.Runner.TokenFile, old.Runner).
			WithHint("set Runner.Name to that or another Runner.token_file, or give the Runner up first: legwork runner unregister")
	}
	unlock, err := lockRegistration(settings.Runner.TokenFile)
	if err != nil {
		return cli.Registered{}, err
	}
	defer unlock()
	return register(ctx, settings, token)
}

// unregisterRunner is `legwork runner unregister`. The file goes when the Server's side is gone; with local it goes anyway.
func unregisterRunner(ctx context.Context, o cli.StartOptions, local bool) (cli.Registered, error) {
	settings, err := LoadRegistration(layers(o))
	if err != nil {
		return cli.Registered{}, err
	}
	path := settings.Runner.TokenFile
	t, err := readTokenFile(path)
	done := cli.Registered{Runner: t.Runner, ID: t.RunnerID, Server: t.Server, File: path}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return done, fault.New(fault.NotFound, "not_registered", "there is no token file %s: this Runner is not registered here", path).
			WithHint("look at Runner.token_file; a Runner that was created without registering is deleted with legwork runner delete")
	case err != nil && !local:
		return done, err
	case local:
		if _, err := ownPlace(path); err != nil {
			return done, err
		}
		return done, os.Remove(path)
	}
	if settings.Server.URL == "" {
		settings.Server.URL = t.Server
	}
	if done.Left, err = unregisterAt(ctx, settings, t); err != nil {
		return done, err
	}
	return done, os.Remove(path)
}

// unregisterAt takes the Runner from the Server. left tells that the record stays for further Instances.
func unregisterAt(ctx context.Context, s RunnerSettings, t tokenFile) (left bool, err error) {
	token, err := loginWith(ctx, s, t)
	if err != nil {
		if fault.Is(err, fault.Unauthenticated) {
			err = fault.New(fault.Unauthenticated, "credential_gone", "the Server does not take the credential in the token file any more").
				WithHint("if the Runner is deleted there, remove the file with: legwork runner unregister --local").WithCause(err)
		}
		return false, err
	}
	client, err := api.NewClient(api.ClientOptions{Server: s.Server.URL, Token: token.Value, CAFile: s.Server.CAFile, Version: Version(), OfRunner: true, AllowPlainHTTP: s.Runner.AllowPlainHTTP})
	if err != nil {
		return false, err
	}
	defer client.Close()
	done, err := client.UnregisterRunner(ctx, api.UnregisterRequest{ID: t.RunnerID})
	return !done.Deleted, err
}

// currentSecret gives what the Runner logs in with now: one that registered anew, beside a Runner that runs, is in its file.
func currentSecret(s RunnerSettings, otherwise func() string) func() string {
	if !s.registered {
		return otherwise
	}
	return func() string {
		t, err := readTokenFile(s.Runner.TokenFile)
		if err != nil || t.ClientID != s.Runner.Credentials.ClientID {
			return otherwise()
		}
		return t.ClientSecret
	}
}

func loginWith(ctx context.Context, s RunnerSettings, t tokenFile) (wire.Token, error) {
	client, err := wire.HTTPClient(s.Server.CAFile)
	if err != nil {
		return wire.Token{}, err
	}
	defer client.CloseIdleConnections()
	return wire.FetchToken(ctx, client, s.Server.URL, wire.Client{OrganizationID: t.OrganizationID, ID: t.ClientID, Secret: t.ClientSecret})
}

// ensureRegistered has a Runner that can register do so, unless it has what it logs in with already and the Server takes
// it. It tries until the Server answers.
func ensureRegistered(ctx context.Context, s *RunnerSettings, log *slog.Logger) error {
	if !s.canRegister() {
		return nil
	}
	unlock, err := lockRegistration(s.Runner.TokenFile)
	if err != nil {
		return err
	}
	defer unlock()
	var pace wire.Backoff // so that many that start at once do not come back at once
	for {
		err := registerOnce(ctx, s, log)
		if err == nil || !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.RateLimited) {
			return err
		}
		wait := pace.Next()
		log.Warn("not registered yet, trying again", "error", fault.Of(err).Message, "in", wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

func registerOnce(ctx context.Context, s *RunnerSettings, log *slog.Logger) error {
	t, err := readTokenFile(s.Runner.TokenFile)
	if err == nil {
		if _, err = loginWith(ctx, *s, t); !fault.Is(err, fault.Unauthenticated) {
			s.use(t) // also when the Server is not there: the Runner tries by itself
			return nil
		}
		log.Warn("the credential of the token file has ended; registering again", "file", s.Runner.TokenFile)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := runner.CheckUnused(s.WorkingDirectory.WorkingDirectory); err != nil {
		return err
	}
	done, err := register(ctx, *s, s.Runner.RegistrationToken.Reveal())
	if err != nil {
		return err
	}
	log.Info("registered", "runner", done.Runner, "runner_id", done.ID, "file", done.File)
	if t, err = readTokenFile(s.Runner.TokenFile); err != nil {
		return err
	}
	s.Runner.ID, s.Runner.OrganizationID, s.Runner.Credentials = "", "", CredentialsSettings{}
	s.use(t)
	return nil
}

// lockRegistration lets one process of a host register a Runner at a time.
func lockRegistration(path string) (unlock func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	if err := writable(path); err != nil {
		return nil, err
	}
	for {
		lock, err := lockAt(path + ".lock")
		if err != nil {
			return nil, err
		}
		mine, err := lock.Stat()
		there, lookErr := os.Lstat(lock.Name())
		if err == nil && lookErr == nil && os.SameFile(mine, there) {
			return func() {
				os.Remove(lock.Name()) // while it is held: who has it open sees that it is another one
				lock.Close()
			}, nil
		}
		lock.Close() // the one before has removed it in between
		if err != nil {
			return nil, fmt.Errorf("look at the lock of the token file: %w", err)
		}
	}
}

func lockAt(path string) (*os.File, error) {
	if _, err := ownPlace(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the token file: %w", err)
	}
	if err := process.Lock(lock); err != nil {
		lock.Close()
		return nil, fault.New(fault.Conflict, "registering_already", "another process registers this Runner: it holds %s", lock.Name()).
			WithHint("wait for it and try again").WithCause(err)
	}
	return lock, nil
}
