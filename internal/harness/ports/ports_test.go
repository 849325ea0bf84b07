package ports

import (
	"sync"
	"testing"
)

// TestNoPortIsGivenTwice also to those who ask at once.
func TestNoPortIsGivenTwice(t *testing.T) {
	var mu sync.Mutex
	given := map[int]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				port := Free(t)
				mu.Lock()
				if given[port] || port < lowest || port >= highest() {
					t.Errorf("%d is given", port)
				}
				given[port] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for port := range given {
		if claim(port) {
			t.Errorf("%d could be had by another process", port)
		}
	}
}
