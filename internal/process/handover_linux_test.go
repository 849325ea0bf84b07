package process

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// handedOverProgram reads what was handed over, writes its environment to a file and waits for a FIFO.
func handedOverProgram(dir string) {
	err := TakeHandedOver()
	text := fmt.Sprintf("%v %s", err, strings.Join(os.Environ(), "\x00"))
	if err := os.WriteFile(filepath.Join(dir, "got"), []byte(text), 0o600); err != nil {
		os.Exit(1)
	}
	fifo, err := os.Open(filepath.Join(dir, "end"))
	if err != nil {
		os.Exit(1)
	}
	_ = fifo.Close()
	os.Exit(0)
}

// TestHandOver starts a program with secrets: it has them in its environment, and the kernel does not show them to
// others.
func TestHandOver(t *testing.T) {
	b := newBench(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(b.dir, "end"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := "LARGE=" + strings.Repeat("hunter2-", 64<<10) // more than a socket holds
	want := []string{"SECRET=hunter2 of\nthe executor", "EMPTY=", large}
	spec := shellSpec(b.dir, "executor", "")
	spec.Argv, spec.Env, spec.HandOver = []string{self}, []string{handOverTestVar + "=" + b.dir, "SHOWN=1"}, want
	b.start(spec)
	b.until("the program has its environment", func() bool {
		got, err := os.ReadFile(filepath.Join(b.dir, "got"))
		return err == nil && len(got) > 0
	})
	kept, err := b.client.List(b.ctx())
	if err != nil || len(kept) != 1 {
		t.Fatalf("commands: got %v, %v, want one", kept, err)
	}
	for _, k := range kept {
		for _, name := range []string{"environ", "cmdline"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", k.Pid, name))
			if err != nil || len(text) == 0 || bytes.Contains(text, []byte("hunter2")) {
				t.Errorf("%s: got %.200q, %v, want no secret", name, text, err)
			}
		}
	}
	end, err := os.OpenFile(filepath.Join(b.dir, "end"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	if exit := b.wait(spec); exit.Code != 0 {
		t.Errorf("exit: got %+v, want 0", exit)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "got"))
	if err != nil {
		t.Fatal(err)
	}
	failure, all, _ := strings.Cut(string(text), " ")
	entries := strings.Split(all, "\x00")
	for _, entry := range append(want, "SHOWN=1") {
		if !slices.Contains(entries, entry) {
			t.Errorf("environment: got %.300q (%s), want %.40q in it", all, failure, entry)
		}
	}
	if strings.Contains(all, handOverVar) {
		t.Errorf("environment: got %s in it, want it removed", handOverVar)
	}
}

// TestHandOverToAnOldKeeper: a keeper that does not know the field gets the entries as part of the environment.
func TestHandOverToAnOldKeeper(t *testing.T) {
	there, here := net.Pipe()
	defer there.Close()
	c := &Client{dialing: make(chan struct{}, 1), conn: &clientConn{
		conn: here, peer: helloBody{Max: protocolHandOver - 1, Version: "v1"},
		gone: make(chan struct{}), calls: map[uint64]chan frame{},
	}}
	go func() { _ = c.Start(t.Context(), Spec{ID: "a", Env: []string{"A=1"}, HandOver: []string{"B=2"}}) }()
	f, err := readFrame(there)
	if err != nil {
		t.Fatal(err)
	}
	var got Spec
	if err := decodeBody(f, &got); err != nil {
		t.Fatal(err)
	}
	if want := []string{"A=1", "B=2"}; !slices.Equal(got.Env, want) || got.HandOver != nil {
		t.Errorf("got %q and %q, want %q and nothing", got.Env, got.HandOver, want)
	}
}

// TestHandOverThatBreaksOff: a program does not begin with a part of its secrets.
func TestHandOverThatBreaksOff(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "a part": "A=1\x00B=2", "without the last byte": "A=1\x00"} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_, err = write.WriteString(text)
		_ = write.Close()
		if err != nil {
			t.Fatal(err)
		}
		owned, err := unix.Dup(int(read.Fd())) // readHandedOver closes it
		_ = read.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readHandedOver(fmt.Sprint(owned)); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
}
