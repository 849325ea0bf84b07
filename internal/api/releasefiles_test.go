package api

import (
	"fmt"
	"testing"

	"golang.org/x/time/rate"
)

func TestDownloadsOfAnAddressAreBounded(t *testing.T) {
	d := &downloads{of: map[string]*rate.Limiter{}}
	n := 0
	for d.allow("192.0.2.1") {
		if n++; n > 1_000_000 {
			t.Fatal("an address gets as much as it likes")
		}
	}
	if n < downloadsBurst {
		t.Errorf("%d downloads were let through, %d may come at once", n, downloadsBurst)
	}
	if !d.allow("192.0.2.2") {
		t.Error("another address is held back")
	}
	for i := range addressesMost * 2 {
		d.allow(fmt.Sprint("2001:db8::", i))
	}
	if len(d.of) > addressesMost {
		t.Errorf("%d addresses are remembered", len(d.of))
	}
}
