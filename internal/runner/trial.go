package runner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"legwork/internal/fault"
	"legwork/internal/wire"
)

// Try is Run for a program that is tried beside the one that it is to replace (see TrialVar): it reads what that one left on the disk,
// connects as the same Instance, and calls online when the Server has taken it. It takes nothing over and begins nothing: the working
// directory is the other's. It returns nil when ctx ends, and a fault when the Server will not take it as it is.
func (r *Runner) Try(ctx context.Context, online func()) error {
	defer r.leave()
	if err := r.lookAround(); err != nil {
		return err
	}
	var err error
	if r.http, err = wire.HTTPClient(r.cfg.CAFile); err != nil {
		return err
	}
	defer r.http.CloseIdleConnections()
	var p pace
	for ctx.Err() == nil {
		began := time.Now()
		welcomed, err := r.trySession(ctx, online)
		if ctx.Err() != nil {
			break
		}
		wait, final := p.next(err, welcomed, time.Since(began))
		if final != nil {
			return r.named(final)
		}
		r.sessionLog.Warn("not connected to the Server", "error", err, "next_try", wait.Round(time.Millisecond))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	r.tasks.Wait()
	return nil
}

// trySession is one Session in which nothing is done.
func (r *Runner) trySession(ctx context.Context, online func()) (welcomed bool, err error) {
	token, err := r.login(ctx)
	if err != nil {
		return false, err
	}
	conn, err := wire.Dial(ctx, wire.DialConfig{
		URL: r.cfg.ServerURL, Token: token.Value, HTTPClient: r.http,
		OrganizationID: r.cfg.OrganizationID, RunnerID: r.cfg.RunnerID, Instance: r.cfg.Instance,
	})
	if err != nil {
		r.forgetToken(err)
		return false, err
	}
	closing := context.AfterFunc(ctx, func() { conn.Close(wire.CloseNormal, "the trial is over") })
	defer func() {
		closing()
		conn.Close(wire.CloseNormal, "")
	}()
	welcome, err := r.greet(ctx, conn)
	if err != nil {
		r.forgetToken(err)
		return false, err
	}
	r.sessionLog.Info("connected to the Server, to be tried", "session", welcome.Session, "runner", welcome.Runner, "instance", r.cfg.Instance)
	online()
	beating, stop := context.WithCancel(ctx)
	defer stop()
	l := &link{conn: conn}
	r.spawn(func() { r.beat(beating, l, welcome.Heartbeat) })
	for {
		if _, err := conn.Receive(context.Background()); err != nil {
			return true, err
		}
	}
}

// lookAround reads what the Runner whose folder this is has noted, and changes nothing: it lives.
func (r *Runner) lookAround() error {
	dir := r.cfg.WorkingDirectory
	key, _, err := readKey(filepath.Join(dir, instanceKeyFile))
	if err != nil || key == "" {
		return fault.New(fault.Invalid, "working_directory_unusable", "the folder %s is no Runner's: the key of its Instance cannot be read", dir).
			WithHint("a trial wants the folder of the Runner that it is to replace").WithCause(err)
	}
	r.home = &home{dir: dir, key: key, scratched: map[int]bool{}}
	entries, err := os.ReadDir(r.home.jobs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, entry := range entries {
		if f, err := readJournal(filepath.Join(r.home.jobs(), entry.Name())); err == nil && len(f.steps) > 0 {
			r.found(f)
		}
	}
	return nil
}
