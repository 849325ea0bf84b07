package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// startMost is how long PostgreSQL may take to start.
const startMost = time.Minute

// server is the one PostgreSQL of a test process.
var server struct {
	sync.Mutex
	managed bool // Main is there to stop it
	cluster *cluster
	err     error
	count   int // databases made
}

// Main runs the tests of a package that uses Postgres, and stops PostgreSQL at the end:
//
//	func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
func Main(m *testing.M) int {
	server.managed = true
	code := m.Run()
	server.Lock()
	defer server.Unlock()
	if server.cluster != nil {
		if err := server.cluster.stop(); err != nil {
			log.Printf("stop PostgreSQL: %v", err)
			code = max(code, 1)
		}
	}
	return code
}

// Postgres gives the URL of a new, empty database. The first call of a process starts PostgreSQL in a temporary
// folder, reached by a unix socket there. Without PostgreSQL on the machine the test fails and says
// what to install; LEGWORK_TEST_POSTGRES=off skips it instead.
func Postgres(t testing.TB) string {
	t.Helper()
	if os.Getenv("LEGWORK_TEST_POSTGRES") == "off" {
		t.Skip("tests on PostgreSQL are off: LEGWORK_TEST_POSTGRES=off")
	}
	server.Lock()
	defer server.Unlock()
	if !server.managed {
		t.Fatal("a package that uses storetest.Postgres runs its tests with storetest.Main")
	}
	if server.cluster == nil && server.err == nil {
		server.cluster, server.err = start()
	}
	if server.err != nil {
		t.Fatal(server.err)
	}
	server.count++
	name := "legwork_" + strconv.Itoa(server.count)
	cluster := server.cluster
	if err := cluster.do("CREATE DATABASE " + name); err != nil {
		t.Fatalf("make a database: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.do("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("drop the database: %v", err)
		}
	})
	return cluster.url(name)
}

// cluster is a running PostgreSQL.
type cluster struct {
	dir  string
	port int // that is not the default one; 0: it is
	cmd  *exec.Cmd
	log  *os.File
	done chan error
	db   *sql.DB // of the database "postgres"
}

// start makes a cluster and waits until it answers.
func start() (c *cluster, err error) { return startAt(0) }

// startAt is start with a port, or 0 for the default one, and with more settings, name=value.
func startAt(port int, options ...string) (c *cluster, err error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	owner, err := account()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "legwork-postgres-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	c = &cluster{dir: dir, port: port, done: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return nil, err
		}
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", c.data(), "-U", "legwork", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: owner}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := c.run(bin, owner, options); err != nil {
		return nil, err
	}
	return c, c.ready()
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

// run starts the server. It ends with this process, however that ends: the kernel sends it a signal. For that the
// thread that started it must live as long, so it has a goroutine of its own that never leaves it.
func (c *cluster) run(bin string, owner *syscall.Credential, options []string) (err error) {
	if c.log, err = os.Create(filepath.Join(c.dir, "log")); err != nil {
		return err
	}
	c.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", c.data(), "-k", c.dir, "-c", "listen_addresses=",
		"-c", "max_connections=200", "-c", "fsync=on", "-c", "shared_buffers=32MB", "-c", "deadlock_timeout=50ms")
	for _, option := range options {
		c.cmd.Args = append(c.cmd.Args, "-c", option)
	}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = c.dir, c.log, c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGINT, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.done <- c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		c.cmd = nil
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// ready waits until the server answers.
func (c *cluster) ready() (err error) {
	if c.db, err = sql.Open("pgx", c.url("postgres")); err != nil {
		return err
	}
	for deadline := time.Now().Add(startMost); ; {
		if err = c.db.Ping(); err == nil {
			return nil
		}
		select {
		case end := <-c.done:
			c.cmd = nil
			said, _ := os.ReadFile(c.log.Name())
			return fmt.Errorf("PostgreSQL ended: %w: %s", end, said)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		}
	}
}

func (c *cluster) url(database string) string {
	query := url.Values{"host": {c.dir}, "sslmode": {"disable"}}
	if c.port != 0 {
		query.Set("port", strconv.Itoa(c.port)) // a part of the name of the socket
	}
	return "postgres://legwork@/" + database + "?" + query.Encode()
}

func (c *cluster) do(statement string) error {
	_, err := c.db.ExecContext(context.Background(), statement)
	return err
}

// stop ends the server and removes its folder.
func (c *cluster) stop() (err error) {
	if c.db != nil {
		err = c.db.Close()
	}
	if c.cmd != nil {
		err = errors.Join(err, c.cmd.Process.Signal(syscall.SIGINT), <-c.done)
	}
	if c.log != nil {
		err = errors.Join(err, c.log.Close())
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// binaries finds PostgreSQL's programs: where Debian puts them, the highest version first, else on PATH.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	best, version := "", 0
	for _, path := range found {
		bin := filepath.Dir(path)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(bin))); err == nil && v > version {
			best, version = bin, v
		}
	}
	if best != "" {
		return best, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errors.New("the tests need PostgreSQL: apt-get install postgresql (or leave its tests out with LEGWORK_TEST_POSTGRES=off)")
}

// account gives whom PostgreSQL runs as: it refuses root, so then the user postgres, else nobody in particular.
func account() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root and there is no user postgres: %w", err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
}
