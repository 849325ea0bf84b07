package control

import "sync"

// waitingMost bounds the bytes that all Sessions together may have waiting to be stored, or being stored. One Session alone is
// bounded by maxWaiting.
const waitingMost = 256 << 20

// budget is the memory that messages may take. Beyond it connections are read no further, which slows their peers down.
type budget struct {
	mu    sync.Mutex
	limit int
	used  int
	freed chan struct{} // closed when some was given back; nil when nobody waits for that
}

// take counts bytes in, or gives a channel that is closed when it is worth to try again. What is larger than the limit is let in
// when it is alone.
func (b *budget) take(size int) (freed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used > 0 && b.used+size > b.limit {
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		return b.freed
	}
	b.used += size
	return nil
}

func (b *budget) give(size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= size
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}
