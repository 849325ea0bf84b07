package boot

import (
	"context"
	"runtime/debug"
	"sync"
	"time"
)

const (
	startOver     = 5 * time.Second // when memory that only the start needed is returned
	releasePeriod = time.Minute
)

// keepMemoryLow releases memory that the process does not need at the moment: the pages of the program's file every
// minute, and once, after the start, the garbage of package initialization. It returns at once; stop ends it.
func keepMemoryLow() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { releaseMemory(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func releaseMemory(ctx context.Context) {
	releaseProgramFile()
	started := time.NewTimer(startOver)
	defer started.Stop()
	ticker := time.NewTicker(releasePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-started.C:
			debug.FreeOSMemory()
		case <-ticker.C:
		}
		releaseProgramFile()
	}
}
