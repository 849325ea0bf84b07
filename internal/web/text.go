package web

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// span says a length of time briefly, as app.js does: "42s", "7m", "3h 20m", "12d".
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour && int(d.Minutes())%60 == 0:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// stamp is a moment for programs.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// moment is a moment for people who point at it.
func moment(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04:05 UTC") }

// localtime is the link that names the time zone of a host.
const localtime = "/etc/localtime"

// serverZone returns the name of the time zone of this host, "UTC" when it has none.
var serverZone = sync.OnceValue(func() string {
	if name := time.Local.String(); name != "Local" && name != "" {
		return name
	}
	target, err := os.Readlink(localtime)
	if _, name, found := strings.Cut(target, "zoneinfo/"); err == nil && found {
		return name
	}
	return "UTC"
})

func number[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// counted says "1 Job", "3 Jobs".
func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
