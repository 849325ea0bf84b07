package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestFullDiskHasAHint(t *testing.T) {
	var out strings.Builder
	a := &app{IO: IO{Err: &out}, err: &terminal{}}
	a.report(fmt.Errorf("write the marker of the installation: %w", syscall.ENOSPC))
	if got := out.String(); !strings.Contains(got, "Hint: free some space") {
		t.Errorf("got %q, want a hint about the disk", got)
	}
}
