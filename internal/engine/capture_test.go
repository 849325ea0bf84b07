package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"legwork/internal/engine"
)

func capture(ctx context.Context, t *testing.T, script string, limit int64, read func(io.Reader) error) error {
	t.Helper()
	return engine.Capture(ctx, []string{"/bin/sh", "-c", script}, []string{"PATH=/usr/bin:/bin"}, t.TempDir(), limit, read)
}

func TestCapture(t *testing.T) {
	var got []byte
	readAll := func(r io.Reader) (err error) { got, err = io.ReadAll(r); return err }
	if err := capture(t.Context(), t, "printf hello; printf noise >&2", 5, readAll); err != nil || string(got) != "hello" {
		t.Errorf("%q %v", got, err)
	}
	if err := capture(t.Context(), t, "printf hello", 4, readAll); !errors.Is(err, engine.ErrTooMuch) {
		t.Errorf("over the limit: %v", err)
	}
	if err := capture(t.Context(), t, "yes", 1<<20, readAll); !errors.Is(err, engine.ErrTooMuch) {
		t.Errorf("endless: %v", err)
	}
	var bad *engine.CaptureError
	err := capture(t.Context(), t, "echo s3cret >&2; exit 3", 10, readAll)
	if !errors.As(err, &bad) || bad.Code != 3 || bad.Stderr != "s3cret" || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("exit status: %v", err)
	}
	if err := capture(t.Context(), t, "kill -KILL $$", 10, readAll); !errors.As(err, &bad) || bad.Code != -1 {
		t.Errorf("signal: %v", err)
	}
	refuse := errors.New("refused")
	if err := capture(t.Context(), t, "yes", 1<<20, func(io.Reader) error { return refuse }); !errors.Is(err, refuse) {
		t.Errorf("reader fails: %v", err)
	}
	if err := capture(t.Context(), t, "yes | head -c 1000000", 1<<20, func(io.Reader) error { return nil }); err != nil {
		t.Errorf("reader leaves most: %v", err)
	}
	if err := engine.Capture(t.Context(), []string{"/missing"}, nil, "/", 1, readAll); err == nil {
		t.Error("a program that is missing was run")
	}
}

// TestCaptureKillsAll ends the program and its children with the context, even those that hold the output.
func TestCaptureKillsAll(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	pidFile := filepath.Join(t.TempDir(), "pid")
	why := errors.New("enough")
	err := capture(ctx, t, "sleep 600 & echo $! > "+pidFile+"; echo ready; wait", 100, func(r io.Reader) error {
		_, err := io.ReadFull(r, make([]byte, 6))
		cancel(why)
		return err
	})
	if !errors.Is(err, why) {
		t.Fatalf("%v", err)
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("the child %d is still there", pid)
	}
}

// gone waits for a process to be gone, or to be a zombie that nobody has collected yet.
func gone(pid int) bool {
	deadline := time.After(time.Minute)
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") || syscall.Kill(pid, 0) != nil {
			return true
		}
		select {
		case <-deadline:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
}
