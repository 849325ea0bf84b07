package boot

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgramFile drops the pages of the program's own file from resident memory. The kernel maps sixteen pages
// around each one that is touched, which costs a large program that idles many megabytes, and the pages that only
// the start needed stay mapped. Pages that are needed again come back from the page cache. It is an
// optimization: errors change nothing.
func releaseProgramFile() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	// Everything is parsed before the first page goes: parsing would bring pages back.
	for _, m := range mappingsOf(self, string(maps)) {
		for _, advice := range []uintptr{unix.MADV_RANDOM, unix.MADV_DONTNEED} {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, advice)
		}
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// mappingsOf returns the mappings of a file that the process cannot write, from the text of /proc/PID/maps.
func mappingsOf(file, maps string) []mapping {
	var found []mapping
	for line := range strings.Lines(maps) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[5] != file || strings.Contains(fields[1], "w") {
			continue
		}
		first, last, _ := strings.Cut(fields[0], "-")
		from, err := strconv.ParseUint(first, 16, 64)
		if err != nil {
			continue
		}
		to, err := strconv.ParseUint(last, 16, 64)
		if err != nil {
			continue
		}
		found = append(found, mapping{from: uintptr(from), to: uintptr(to)})
	}
	return found
}
