//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/fault"
)

// The files of a keeper in its folder.
const (
	lockName   = "keeper.lock"
	socketName = "keeper.sock"
	logName    = "keeper.log"
	keyName    = "keeper.key"
)

const (
	idleGrace   = 10 * time.Second // a keeper without a Runner that keeps nothing stays that long
	leaveGrace  = time.Second      // for answers that are on their way when it leaves
	logCheck    = time.Minute
	maxLogBytes = 1 << 20
)

// keeper is the detached process.
type keeper struct {
	dir     string
	version string
	idle    time.Duration
	log     *slog.Logger
	session int
	boot    string
	spares  *Spares
	pid     int
	null    *os.File // what commands read
	key     string   // what a peer has to know

	mu       sync.Mutex
	commands map[string]*command
	peers    map[*peer]bool
	leaving  bool // nothing is started any more
	retiring bool // it leaves as soon as it keeps nothing
	changed  chan struct{}
}

// RunKeeper is the keeper's process: it serves the Runner over a socket in dir until it keeps nothing
// and is not needed any more. The folder is made with mode 0700 when it is missing. A second keeper
// for the same folder returns a fault.Conflict with code "keeper_runs".
//
// When ctx ends it leaves as soon as the commands it keeps have ended; it does not end them.
func RunKeeper(ctx context.Context, dir, version string, log *slog.Logger) error {
	return runKeeper(ctx, dir, version, idleGrace, log)
}

func runKeeper(ctx context.Context, dir, version string, idle time.Duration, log *slog.Logger) error {
	if err := privateDir(dir); err != nil {
		return err
	}
	lock, err := takeLock(filepath.Join(dir, lockName))
	if err != nil {
		return err
	}
	defer lock.Close()
	defer detach()()
	key, err := writeKey(dir)
	if err != nil {
		return err
	}
	listener, err := listen(dir)
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("opening what commands read: %w", err)
	}
	defer null.Close()
	session, _ := unix.Getsid(0) // cannot fail for oneself
	k := &keeper{
		dir: dir, version: version, idle: idle, log: log, session: session, boot: bootID(),
		commands: map[string]*command{}, peers: map[*peer]bool{}, changed: make(chan struct{}, 1),
		spares: NewSpares(dir), pid: os.Getpid(), null: null, key: key,
	}
	log.Info("keeper serves", "pid", os.Getpid(), "version", version, "protocol", protocolMax)
	var serving sync.WaitGroup
	serving.Go(func() { k.accept(listener) })
	k.stay(ctx)
	// The socket goes first: whoever finds none starts the next keeper, which waits for the lock.
	_ = os.Remove(filepath.Join(dir, socketName))
	_ = listener.Close()
	k.dismiss()
	serving.Wait()
	log.Info("keeper leaves", "pid", os.Getpid())
	return nil
}

// detach makes this process the leader of a session of its own, where it is not already, and sees to
// it that commands start with the usual handling of signals: one that is ignored here, because
// the Runner was started by a shell with "&", would be ignored by them too, a caught one is not.
func detach() (attach func()) {
	_, _ = unix.Setsid()              // fails when it already leads a process group, as when started by hand
	caught := make(chan os.Signal, 1) // never read: the keeper outlives terminals; SIGTERM is the caller's to handle
	signal.Notify(caught, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	return func() { signal.Stop(caught) }
}

// privateDir makes sure that the folder is there and no one else's.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the keeper's folder: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("looking at the keeper's folder: %w", err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return fault.New(fault.Forbidden, "keeper_dir_foreign", "the keeper's folder %s belongs to another user", dir).
			WithHint("run the Runner as the user that owns its data folder")
	}
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("closing the keeper's folder to others: %w", err)
		}
	}
	return nil
}

func takeLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the keeper's lock: %w", err)
	}
	if err := Lock(file); err != nil {
		_ = file.Close()
		return nil, fault.New(fault.Conflict, "keeper_runs", "a keeper already runs for this folder").WithCause(err)
	}
	return file, nil
}

// listen opens the socket. One that a killed keeper left behind is in the way; the lock is ours, so
// nobody serves it.
func listen(dir string) (net.Listener, error) {
	if err := os.Remove(filepath.Join(dir, socketName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	short, done, err := socketDir(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the keeper's folder: %w", err)
	}
	defer done()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, socketName), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening for the Runner: %w", err)
	}
	listener.SetUnlinkOnClose(false) // its short name is gone by then
	return listener, nil
}

// stay returns when the keeper has to leave; from then on it starts nothing.
func (k *keeper) stay(ctx context.Context) {
	idle := time.NewTimer(k.idle)
	defer idle.Stop()
	logs := time.NewTicker(logCheck)
	defer logs.Stop()
	stopped, expired := ctx.Done(), false
	for !k.leave(expired) {
		expired = false
		select {
		case <-k.changed:
			idle.Reset(k.idle)
		case <-idle.C:
			expired = true
		case <-logs.C:
			boundLog(os.Stderr)
		case <-stopped:
			stopped = nil
			k.retire()
		}
	}
}

// leave decides whether to leave, and makes it final.
func (k *keeper) leave(expired bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leaving = len(k.commands) == 0 && (k.retiring || expired && len(k.peers) == 0)
	return k.leaving
}

// retire makes the keeper leave as soon as it keeps nothing. Until then it goes on as before.
func (k *keeper) retire() {
	k.mu.Lock()
	k.retiring = true
	k.mu.Unlock()
	k.wake()
}

// wake makes stay look again.
func (k *keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// accept serves connections until the listener closes.
func (k *keeper) accept(listener net.Listener) {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			k.log.Warn("accepting a connection failed", "error", err)
			time.Sleep(100 * time.Millisecond) // out of file descriptors: others must end first
			continue
		}
		p := newPeer(k, conn)
		if !k.admit(p) {
			_ = conn.Close()
			continue
		}
		serving.Go(func() {
			defer k.forget(p)
			if err := p.serve(); err != nil {
				k.log.Warn("connection ended", "error", err)
			}
		})
	}
}

func (k *keeper) admit(p *peer) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.leaving || len(k.peers) >= 64 {
		return false
	}
	k.peers[p] = true
	return true
}

func (k *keeper) forget(p *peer) {
	k.mu.Lock()
	delete(k.peers, p)
	k.mu.Unlock()
	k.wake()
}

// dismiss lets the connections finish their answers and closes them.
func (k *keeper) dismiss() {
	k.mu.Lock()
	peers := make([]*peer, 0, len(k.peers))
	for p := range k.peers {
		peers = append(peers, p)
	}
	k.mu.Unlock()
	for _, p := range peers {
		p.dismiss(leaveGrace)
	}
}

// start starts a command unless it runs or has run.
func (k *keeper) start(spec Spec) error {
	if err := spec.check(); err != nil {
		return err
	}
	c, mine, err := k.reserve(spec)
	if err != nil {
		return err
	}
	if !mine { // somebody else's Start of the same command
		<-c.begun
		return c.failure
	}
	c.failure = c.begin()
	close(c.begun)
	if c.failure != nil || c.over() {
		k.drop(c)
	}
	return c.failure
}

// reserve returns the command of this ID; mine tells that it is new and the caller's to start.
func (k *keeper) reserve(spec Spec) (c *command, mine bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c, ok := k.commands[spec.ID]; ok {
		return c, false, nil
	}
	if k.leaving {
		return nil, false, fault.New(fault.Unavailable, codeLeaving, "the keeper is leaving").
			WithHint("connect again; a new one is started")
	}
	if len(k.commands) >= maxKept {
		return nil, false, fault.New(fault.RateLimited, "keeper_full", "the keeper runs %d commands and takes no more", maxKept)
	}
	c = newCommand(k, spec)
	k.commands[spec.ID] = c
	return c, true, nil
}

func (k *keeper) drop(c *command) {
	k.mu.Lock()
	if k.commands[c.spec.ID] == c {
		delete(k.commands, c.spec.ID)
	}
	k.mu.Unlock()
	k.wake()
}

// find returns a command that was started and has not ended.
func (k *keeper) find(id string) (*command, error) {
	k.mu.Lock()
	c, ok := k.commands[id]
	k.mu.Unlock()
	if ok {
		<-c.begun
	}
	if !ok || c.failure != nil {
		return nil, fault.New(fault.NotFound, codeNotKept, "the keeper does not keep command %s", id).
			WithHint("its exit record tells how it ended, if it ran")
	}
	return c, nil
}

func (k *keeper) list() []Kept {
	k.mu.Lock()
	commands := make([]*command, 0, len(k.commands))
	for _, c := range k.commands {
		commands = append(commands, c)
	}
	k.mu.Unlock()
	kept := make([]Kept, 0, len(commands))
	for _, c := range commands {
		select {
		case <-c.begun:
			if c.failure == nil {
				kept = append(kept, c.kept())
			}
		default: // being started
		}
	}
	return kept
}

// publish tells every Runner that a spool has grown or that a command is blocked.
func (k *keeper) publish(state SpoolState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.peers {
		p.note(state)
	}
}
