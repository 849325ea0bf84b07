package boot

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// leanMemory keeps the program's own file out of memory where it is not in use. The kernel maps sixteen pages
// around each one that is touched, which suits a small program and costs a large one that idles many
// megabytes; and what only the start needed stays mapped. Both are undone here: pages of the file that are
// needed again come back out of the page cache. It is an optimization: errors change nothing.
func leanMemory() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		var mode string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); n != 3 {
			continue
		}
		if !strings.HasSuffix(lines.Text(), self) || strings.Contains(mode, "w") {
			continue
		}
		for _, advice := range []uintptr{unix.MADV_RANDOM, unix.MADV_DONTNEED} {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, advice)
		}
	}
}
