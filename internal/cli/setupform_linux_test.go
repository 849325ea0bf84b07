package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"legwork/internal/cli"
)

// terminal is a pseudo terminal: what a command prints on it, and the keys that it reads.
type terminal struct {
	t           *testing.T
	keys, tty   *os.File
	mu          sync.Mutex
	shown       strings.Builder
	lastVisible int // how much of shown was waited for
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120})
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, keys: keys, tty: tty}
	t.Cleanup(func() { _, _ = keys.Close(), tty.Close() })
	go term.read()
	return term
}

func (term *terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := term.keys.Read(buffer)
		if err != nil {
			return
		}
		term.mu.Lock()
		term.shown.Write(buffer[:n])
		term.mu.Unlock()
	}
}

// see waits until a text is printed after the last one that was waited for.
func (term *terminal) see(text string) {
	term.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		term.mu.Lock()
		shown := term.shown.String()[term.lastVisible:]
		at := strings.Index(shown, text)
		if at >= 0 {
			term.lastVisible += at + len(text)
		}
		term.mu.Unlock()
		if at >= 0 {
			return
		}
		if time.Now().After(deadline) {
			term.t.Fatalf("did not see %q in %q", text, shown)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// setup runs the form of `legwork runner setup` on the terminal.
func (term *terminal) setup() (status chan int) {
	status = make(chan int, 1)
	file := filepath.Join(term.t.TempDir(), "runner.json")
	go func() {
		streams := cli.IO{In: term.tty, Out: term.tty, Err: term.tty, Env: func(name string) string { return map[string]string{"TERM": "xterm"}[name] }}
		status <- cli.Run(term.t.Context(), streams, cli.Programs{Version: "test"}, []string{"runner", "setup", "--config", file})
	}()
	return status
}

const (
	enter    = "\r"
	shiftTab = "\x1b[Z"
	ctrlC    = "\x03"
)

// TestSetupFormGoesBackFromAnEmptyField takes back a wrong "Yes": the field after it is empty, and that is not valid.
func TestSetupFormGoesBackFromAnEmptyField(t *testing.T) {
	term := openTerminal(t)
	status := term.setup()
	term.see("URL")
	term.press(enter)
	term.see("already have")
	term.press("y")
	term.see("printed") // by legwork runner create
	term.press(shiftTab)
	term.see("already have")
	term.press("n")
	term.see("Modules") // name it
	term.press(ctrlC)
	if got := <-status; got != 130 {
		t.Errorf("exit status: got %d, want 130", got)
	}
	term.press("\n") // the library reads once more before it ends
	term.see("interrupted")
	if strings.Contains(term.shown.String(), "Hint") {
		t.Errorf("an interrupt is reported as an error: %q", term.shown.String())
	}
}
