package engine

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestStartGroup has a script that heeds no SIGINT wait for a child.
func TestStartGroup(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "trap '' INT; sleep 600 & echo $!; wait")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = in
	ctx, cancel := context.WithCancel(t.Context())
	end, err := StartGroup(ctx, cmd, 50*time.Millisecond)
	if err = errors.Join(err, in.Close()); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	if _, err := out.Read(line); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well")
	}
	end()
	if _, err := out.Read(line); !errors.Is(err, io.EOF) { // the child has the pipe open as long as it lives
		t.Errorf("its child lives on: %v", err)
	}
}
