package kubernetes

import (
	"time"

	"legwork/internal/launcher"
)

// Quick makes a launcher that looks every millisecond, at Pods that begin for a time, and asks for a number of objects at once.
func Quick(host launcher.Host, settle, ending time.Duration, page int64) launcher.Launcher {
	return &Launcher{host: host, settle: settle, tick: time.Millisecond, ending: ending, page: page}
}

// JobName is jobName.
var JobName = jobName
