package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stat reads what /proc tells about one process.
func stat(pid int) (member, error) {
	text, err := readPlain("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return member{}, fmt.Errorf("reading process %d: %w", pid, err)
	}
	m, ok := parseStat(text)
	if !ok {
		return member{}, fmt.Errorf("reading process %d: unknown form", pid)
	}
	m.pid = pid
	return m, nil
}

// parseStat reads /proc/PID/stat, see proc_pid_stat(5). The program's name stands in brackets and
// may itself hold brackets and spaces.
func parseStat(text []byte) (member, bool) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return member{}, false
	}
	fields := strings.Fields(string(text[end+1:])) // from field 3, state, on
	if len(fields) < 20 {
		return member{}, false
	}
	group, err1 := strconv.Atoi(fields[2])
	session, err2 := strconv.Atoi(fields[3])
	birth, err3 := strconv.ParseUint(fields[19], 10, 64)
	dead := fields[0] == "Z" || fields[0] == "X"
	return member{group: group, session: session, birth: birth, dead: dead}, errors.Join(err1, err2, err3) == nil
}

// processes lists all processes that pass.
func processes(pass func(member) bool) ([]member, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []member
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if m, err := stat(pid); err == nil && pass(m) { // an error: it ended meanwhile
			found = append(found, m)
		}
	}
	return found, nil
}

// groupMembers lists the living members of a process group.
func groupMembers(group int) ([]member, error) {
	return processes(func(m member) bool { return m.group == group && !m.dead })
}

// marked lists the living processes of this user whose environment, as they were started, has this entry.
func marked(entry string) ([]member, error) {
	return processes(func(m member) bool {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(m.pid) + "/environ")
		return err == nil && !m.dead && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+entry+"\x00"))
	})
}

// catchesInterrupt tells whether a process has a handler for SIGINT: it will end by itself.
func catchesInterrupt(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && bits&(1<<(uint(unix.SIGINT)-1)) != 0
		}
	}
	return false
}

// bootID identifies this run of the kernel.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// awaitExit waits for a child to end and leaves it to be reaped, so that its number stays taken.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// peerUser returns the user at the other end of a socket.
func peerUser(fd int) (int, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

// socketDir gives a path to the folder dir that is short enough for a socket's address.
func socketDir(dir string) (path string, done func(), err error) {
	file, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", file.Fd()), func() { _ = file.Close() }, nil
}
