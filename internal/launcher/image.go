package launcher

import (
	"cmp"
	"net/netip"
	"net/url"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

// Image gives the image that the processes of a task run: Hosting.Image with the release in it, that of the task or else of this program.
// What a version may hold and a tag may not, "+", becomes "-".
func Image(task *work.RunnerTask, host Host) string {
	image := catalog.DefaultImage
	if task.Hosting != nil {
		image = cmp.Or(task.Hosting.Image, image)
	}
	version := cmp.Or(task.Version, host.Version, "latest")
	return strings.ReplaceAll(image, "{version}", strings.ReplaceAll(version, "+", "-"))
}

// Loopback tells whether the URL of the Server leads to the host of whoever asks it, and so not to the Server from inside of a container.
func Loopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return addr.IsLoopback() || addr.IsUnspecified()
	}
	return u.Hostname() == "localhost" || strings.HasSuffix(u.Hostname(), ".localhost")
}
