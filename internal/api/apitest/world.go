// Package apitest runs a whole Server face (api, access, control, SQLite) in a test's process, and Runners that
// do what the test says. It serves the tests of the API and of the command line.
package apitest

import (
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"legwork/internal/access"
	"legwork/internal/api"
	"legwork/internal/blob"
	"legwork/internal/bus"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/wire"
)

// Patience is how long something may take that has to happen.
const Patience = time.Minute

// World is one Server.
type World struct {
	T       *testing.T
	Dir     string // its data folder
	URL     string
	Token   string // of the admin
	Store   *store.Store
	Access  *access.Access
	Control *control.Control
	HTTP    *httptest.Server
	Client  *api.Client // of the admin
	Log     *Log

	ReleaseKey []byte // private, of minisign: releases that it signs are trusted

	Says func(hello *wire.Hello) // nil, or what Instances that connect from now on say otherwise
}

// Start runs a Server until the end of the test. change may adjust the options of its face.
func Start(t *testing.T, change ...func(*api.Options)) *World {
	t.Helper()
	dir := t.TempDir()
	return StartOn(t, filepath.Join(dir, "legwork.db"), dir, change...)
}

// StartOn is Start with a database and a data folder, which several servers may share.
func StartOn(t *testing.T, database, dir string, change ...func(*api.Options)) *World {
	t.Helper()
	w := &World{T: t, Dir: dir, Log: &Log{}}
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.NewTextHandler(w.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	w.Store, err = store.Open(ctx, database, log)
	w.Must(err)
	t.Cleanup(func() { w.Must(w.Store.Close()) })
	hints, err := bus.Open(ctx, bus.Config{})
	w.Must(err)
	t.Cleanup(func() { w.Must(hints.Close()) })
	blobs, err := blob.Open(ctx, filepath.Join(w.Dir, "blobs"))
	w.Must(err)
	t.Cleanup(func() { w.Must(blobs.Close()) })
	w.Access, err = access.New(ctx, w.Store, access.Settings{Dir: w.Dir}, log)
	w.Must(err)
	public, private, err := release.GenerateKey("")
	w.Must(err)
	w.ReleaseKey = private
	keys, err := release.Trusted([]string{string(public)})
	w.Must(err)
	w.Control = control.New(control.Config{ReleaseKeys: keys, BootstrapToken: w.Access.BootstrapToken, ServerURL: func() string { return w.URL }, Store: w.Store, Bus: hints, Blobs: blobs, Sealer: w.Access.Sealer(), Log: log})
	var parts sync.WaitGroup
	for _, run := range []func(context.Context) error{w.Control.Run, w.Access.Run} {
		parts.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil { // a test may end before they have begun
				t.Error(err)
			}
		})
	}
	options := api.Options{Control: w.Control, Access: w.Access, Log: log, Version: "test"}
	for _, adjust := range change {
		adjust(&options)
	}
	face := api.New(options)
	w.HTTP = httptest.NewUnstartedServer(face)
	w.HTTP.Config = face.HTTPServer()
	w.HTTP.Start()
	w.URL = w.HTTP.URL
	t.Cleanup(func() {
		cancel()
		parts.Wait()
		w.HTTP.CloseClientConnections()
		w.HTTP.Close()
	})
	token, err := os.ReadFile(filepath.Join(w.Dir, "admin-token"))
	w.Must(err)
	w.Token = strings.TrimSpace(string(token))
	w.Client = w.ClientWith(w.Token)
	return w
}

// Must ends the test on an error.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Error(err)
		w.T.FailNow()
	}
}

// ClientWith gives a client with another token.
func (w *World) ClientWith(token string) *api.Client {
	w.T.Helper()
	c, err := api.NewClient(api.ClientOptions{Server: w.URL, Token: token, Version: "test"})
	w.Must(err)
	w.T.Cleanup(c.Close)
	return c
}

// TokenFor makes a principal with a role, in the Organization of that name, and gives a token of it.
func (w *World) TokenFor(organization string, role catalog.Role) string {
	w.T.Helper()
	token, hash := access.NewToken()
	w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
		org, err := tx.OrganizationByName(organization)
		if err != nil {
			if org, err = tx.CreateOrganization(organization); err != nil {
				return err
			}
		}
		p := store.ServicePrincipal{OrganizationID: org.ID, Name: string(role), ClientID: string(role), Role: string(role)}
		if err := tx.PutPrincipal(&p); err != nil {
			return err
		}
		return tx.PutCredential(&store.Credential{PrincipalID: p.ID, Name: "test", Kind: "token", Hash: hash})
	}))
	return token
}

// Apply applies a manifest as the admin.
func (w *World) Apply(manifest string) api.ManifestResult {
	w.T.Helper()
	r, err := w.Client.ApplyManifest(context.Background(), []catalog.ManifestFile{{Name: "test.yaml", Data: []byte(manifest)}}, false)
	w.Must(err)
	return r
}

// Scripts is a manifest with the Module prod/net/a of engine script, for the Runner edge.
const Scripts = `
kind: Stack
name: prod
---
kind: Namespace
stack: prod
name: net
defaults: {engine: script, runner: edge}
---
{kind: Module, stack: prod, namespace: net, name: a, script: {run: 'true', repeatable: true}}
`

// Log keeps what the program logs. It is safe for concurrent use.
type Log struct {
	mu sync.Mutex
	b  strings.Builder
}

var _ io.Writer = (*Log)(nil)

// Write is part of io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String gives all that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
