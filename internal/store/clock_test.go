package store

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestDatabaseClockGoesByTheDatabaseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c databaseClock
		far := time.Date(2040, 1, 2, 3, 4, 5, 6000, time.UTC)
		c.set(far, time.Now().Add(-time.Second))
		time.Sleep(time.Minute)
		if got, want := c.now(), far.Add(time.Minute+time.Second); !got.Equal(want) {
			t.Fatalf("%s, want %s", got, want)
		}
		c.set(far, time.Now()) // it was set back
		if got := c.now(); !got.Equal(far) {
			t.Fatalf("%s, want %s", got, far)
		}
	})
}
