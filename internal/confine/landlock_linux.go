package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights of Landlock, by what they are for.
const (
	readFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	readDir  = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR

	changeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	changeDir  = changeFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER

	devices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK // nobody gets these
	all     = readDir | changeDir | devices
)

// What every confined program may change: temporary files, and the devices that are no more than a convenience.
var (
	temporary = []string{"/tmp", "/var/tmp", "/dev/shm"}
	terminals = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}
)

// leftCapabilities are the capabilities that root keeps. None of them bypasses Landlock.
var leftCapabilities = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID,
	unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW,
}

// Supported returns nil when programs can be confined on this host, and otherwise a fault that says what is missing.
func Supported() error {
	_, err := version()
	return err
}

// version returns the version of Landlock that the kernel speaks.
func version() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, unsupported("the kernel of this host has no Landlock (Linux 5.13 or newer, enabled with lsm=...,landlock)")
	}
	return int(v), nil
}

// Exec replaces this process by argv, confined. It returns only when that failed.
func Exec(p Policy, argv, environ []string) error {
	runtime.LockOSThread() // restrictions are those of a thread, and it is this one that becomes the program
	if p.Home != "" {
		if err := os.MkdirAll(p.Home, 0o700); err != nil {
			return fmt.Errorf("make the home folder of a confined program: %w", err)
		}
		p.Write = append(p.Write[:len(p.Write):len(p.Write)], p.Home)
		environ = withHome(environ, p.Home)
	}
	path, err := program(argv[0], environ)
	if err != nil {
		return err
	}
	if err := restrict(p); err != nil {
		return err
	}
	return syscall.Exec(path, argv, environ)
}

// withHome returns the environment with home as its only HOME. Programs differ in which of two entries they take.
func withHome(environ []string, home string) []string {
	isHome := func(entry string) bool { return strings.HasPrefix(entry, "HOME=") }
	return append(slices.DeleteFunc(slices.Clone(environ), isHome), "HOME="+home)
}

// program finds the program of a command line on the PATH of its environment. Folders that are not absolute are passed over.
func program(name string, environ []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	search := ""
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			search = value
		}
	}
	for _, dir := range filepath.SplitList(search) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if filepath.IsAbs(path) && err == nil && !info.IsDir() && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot start %s: no such program on the PATH", name)
}

// restrict confines the calling thread for good.
func restrict(p Policy) error {
	v, err := version()
	if err != nil {
		return err
	}
	set, err := newRules(v)
	if err != nil {
		return err
	}
	defer unix.Close(set.fd)
	hidden := resolved(p.Hidden)
	for _, step := range []func() error{
		func() error { return set.allow("/", readDir, append([]string{"/dev"}, hidden...)) },
		func() error {
			return set.allowEach(append([]string{"/dev/fd"}, terminals...), readDir|changeFile, hidden)
		},
		func() error { return set.allowEach(temporary, readDir|changeDir, hidden) },
		func() error { return set.allowEach(p.Read, readDir, nil) },
		func() error { return set.allowEach(p.Write, readDir|changeDir, nil) },
		dropCapabilities,
		func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("confine a program: %w", err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set.fd), 0, 0); errno != 0 {
		return fmt.Errorf("confine a program: %w", errno)
	}
	return nil
}

// rules is a set of rules of Landlock that is being made.
type rules struct {
	fd      int
	handled uint64 // the rights that the kernel knows
}

func newRules(version int) (*rules, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	for right, since := range map[uint64]int{unix.LANDLOCK_ACCESS_FS_REFER: 2, unix.LANDLOCK_ACCESS_FS_TRUNCATE: 3, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV: 5} {
		if version < since {
			attr.Handled_access_fs &^= right
		}
	}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("confine a program: %w", errno)
	}
	return &rules{fd: int(fd), handled: attr.Handled_access_fs}, nil
}

func (r *rules) allowEach(paths []string, rights uint64, hidden []string) error {
	for _, path := range paths {
		if err := r.allow(resolve(path), rights, hidden); err != nil {
			return err
		}
	}
	return nil
}

// allow grants rights on a folder and what is in it, apart from what is hidden. A folder that holds something hidden is not granted
// itself, because that would reach the hidden part: only its other entries are. What is added to it later is not visible.
// Nothing is granted in a folder that this user cannot list.
func (r *rules) allow(path string, rights uint64, hidden []string) error {
	if within(path, hidden) {
		return nil
	}
	if !contains(path, hidden) {
		return r.grant(path, rights)
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 {
			continue // what it leads to is granted where it is
		}
		if err := r.allow(filepath.Join(path, entry.Name()), rights, hidden); err != nil {
			return err
		}
	}
	return nil
}

// grant adds one rule. What does not exist, or cannot be reached, needs none.
func (r *rules) grant(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= readFile | changeFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights & r.handled, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return &fs.PathError{Op: "landlock", Path: path, Err: errno}
	}
	return nil
}

// dropCapabilities takes from root what would lead around the rules: modules of the kernel, raw devices, tracing and the like.
func dropCapabilities() error {
	if os.Geteuid() != 0 {
		return nil
	}
	keep := map[uintptr]bool{}
	for _, capability := range leftCapabilities {
		keep[capability] = true
	}
	for capability := uintptr(0); capability < 64; capability++ {
		held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0)
		if err != nil {
			return nil // the kernel knows no more of them
		}
		if held == 0 || keep[capability] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capabilities: %w", err)
		}
	}
	return nil
}
