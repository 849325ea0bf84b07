package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func TestDownloadsOfAnAddressAreBounded(t *testing.T) {
	d := &downloads{of: map[string]*rate.Limiter{}}
	n := 0
	for d.allow(t.Context(), "192.0.2.1") {
		if n++; n > 1_000_000 {
			t.Fatal("an address gets as much as it likes")
		}
	}
	if n < downloadsBurst {
		t.Errorf("%d downloads were let through, %d may come at once", n, downloadsBurst)
	}
	if !d.allow(t.Context(), "192.0.2.2") {
		t.Error("another address is held back")
	}
	for i := range addressesMost * 2 {
		d.allow(t.Context(), fmt.Sprint("2001:db8::", i))
	}
	if len(d.of) > addressesMost {
		t.Errorf("%d addresses are remembered", len(d.of))
	}
}

// TestOneAddressTakesNotAllPlaces: whoever holds all places of an address, or of all, has further ones refused, until one is free again.
func TestOneAddressTakesNotAllPlaces(t *testing.T) {
	d := &downloads{places: make(chan struct{}, downloadsAtOnce), of: map[string]*rate.Limiter{}, held: map[string]int{}}
	d.server = &Server{Options: Options{Log: slog.New(slog.DiscardHandler)}}
	held := func(address string) (n int) {
		for d.hold(address) {
			n++
		}
		return n
	}
	if n := held("192.0.2.1"); n != downloadsAtOnceOf {
		t.Errorf("one address holds %d places", n)
	}
	all := downloadsAtOnceOf
	for i := 2; all < downloadsAtOnce; i++ {
		n := held(fmt.Sprint("192.0.2.", i))
		if all += n; n == 0 {
			t.Fatalf("another address gets no place while %d are taken", all)
		}
	}
	asks := func(address, name string) string {
		r := httptest.NewRequest("GET", releasePath+"latest/"+name, nil)
		r.SetPathValue("version", "latest")
		r.SetPathValue("name", name)
		r = r.WithContext(context.WithValue(r.Context(), requestKey, &requestInfo{address: address}))
		w := httptest.NewRecorder()
		d.serve(w, r)
		return fmt.Sprint(w.Code, " ", w.Body.String())
	}
	if got := asks("192.0.2.200", "legwork-linux-amd64"); !strings.HasPrefix(got, "503") || !strings.Contains(got, "downloads_busy") {
		t.Errorf("while all places are taken a download is answered with %s", got)
	}
	if !isManifest("manifest.json") || !isManifest("manifest.json.minisig") || isManifest("legwork-linux-amd64") {
		t.Error("manifests need places, or assets do not")
	}
	d.free("192.0.2.1")
	if !d.hold("192.0.2.200") || d.hold("192.0.2.201") {
		t.Error("a place that is given back is not there for one other")
	}
	d.free("192.0.2.200")
	if !d.hold("192.0.2.1") {
		t.Error("an address that gave one back gets none")
	}
	for address := range d.held {
		for range d.held[address] {
			d.free(address)
		}
	}
	if len(d.held) != 0 || len(d.places) != 0 {
		t.Errorf("%d addresses hold %d places after all gave them back", len(d.held), len(d.places))
	}
}

// TestNetworks: a host has one address of IPv4, and a whole network of IPv6.
func TestNetworks(t *testing.T) {
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8:0:0:1::": "2001:db8::/64", "2001:db8:0:1::1": "2001:db8:0:1::/64", "": ""} {
		if got := network(address); got != want {
			t.Errorf("%q is of %q", address, got)
		}
	}
}

// TestDownloadsComeOn: one that takes nothing has a minute; one that takes little by little has as much as the least rate gives it, and one
// that is quick a minute for each part.
func TestDownloadsComeOn(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		sent  int64
		after time.Duration
		want  time.Duration // since it began
	}{
		{0, 0, downloadStill},
		{0, 50 * time.Second, downloadStill},
		{32 << 10, 50 * time.Second, downloadStill + 2*time.Second},
		{60 * downloadLeast, downloadStill, 2 * downloadStill},
		{60 * downloadLeast, 2*downloadStill + time.Second, 2 * downloadStill}, // it is over
		{1 << 40, time.Hour, time.Hour + downloadStill},
	} {
		s := &steady{began: began, sent: c.sent}
		if got := s.until(began.Add(c.after)).Sub(began); got != c.want {
			t.Errorf("%d bytes after %s: until %s, not %s", c.sent, c.after, got, c.want)
		}
	}
}
