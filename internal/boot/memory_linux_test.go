package boot

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func TestMappingsOfAFile(t *testing.T) {
	const maps = `00400000-044a7000 r-xp 00000000 fe:00 7 /usr/bin/legwork
044a7000-078a8000 r--p 040a7000 fe:00 7 /usr/bin/legwork
078a8000-07a33000 rw-p 074a8000 fe:00 7 /usr/bin/legwork
07a33000-09a9b000 rw-p 00000000 00:00 0
7f00622d0000-7f00623cc000 r-xp 00000000 fe:00 9 /usr/lib/libc.so.6
7f00623cc000-7f00623de000 r-xp 00000000 fe:00 8 /opt/usr/bin/legwork
`
	got := mappingsOf("/usr/bin/legwork", maps)
	want := []mapping{{0x400000, 0x44a7000}, {0x44a7000, 0x78a8000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x: the writable mapping and other files must stay", got, want)
	}
}

func TestReleaseProgramFileKeepsTheProgramRunning(t *testing.T) {
	before := resident(t, "RssFile")
	releaseProgramFile()
	if after := resident(t, "RssFile"); after >= before {
		t.Errorf("RssFile is %d KiB after the release, was %d KiB", after, before)
	}
}

// resident returns a field of /proc/self/status in KiB.
func resident(t *testing.T, field string) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), field+":")
	if !found {
		t.Fatalf("/proc/self/status has no %s", field)
	}
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
