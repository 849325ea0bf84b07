package access

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"legwork/internal/catalog"
)

func TestTokenShape(t *testing.T) {
	shape := regexp.MustCompile(`^lw_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 1000 {
		token, hash := NewToken()
		if !shape.MatchString(token) || !wellFormed(token) {
			t.Fatalf("token %q has the wrong shape", token)
		}
		if !bytes.Equal(hash, Hash(token)) {
			t.Fatal("the hash is not that of the token")
		}
		if seen[token] {
			t.Fatal("the same token twice")
		}
		seen[token] = true
	}
}

func TestMistypedTokenIsNotWellFormed(t *testing.T) {
	token, _ := NewToken()
	for i := range token {
		changed := []byte(token)
		changed[i] ^= 1
		if wellFormed(string(changed)) {
			t.Errorf("character %d changed and still well formed", i)
		}
	}
	for _, bad := range []string{"", "lw_", token[:len(token)-1], token + "0", "lws_" + token[3:]} {
		if wellFormed(bad) {
			t.Errorf("%q is well formed", bad)
		}
	}
}

func TestLimiterIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLimiter(rate.Every(time.Second), 3, 100)
	for i := range 10_000 {
		l.allow(fmt.Sprint(i), now)
		if len(l.buckets) > 100 {
			t.Fatalf("%d buckets", len(l.buckets))
		}
	}
}

func TestLimiterEmptiesAndFills(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLimiter(rate.Every(time.Second), 3, 10)
	for i := range 3 {
		if l.empty("a", now) || !l.allow("a", now) {
			t.Fatalf("attempt %d was refused", i)
		}
	}
	if !l.empty("a", now) || l.allow("a", now) {
		t.Error("the fourth attempt was allowed")
	}
	if l.empty("b", now) {
		t.Error("another key suffers")
	}
	if l.empty("a", now.Add(time.Second)) {
		t.Error("it does not fill again")
	}
}

func TestActorCache(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newActorCache()
	key := [32]byte{1}
	c.put(key, catalog.Actor{ID: "a"}, now, time.Time{})
	if actor, ok := c.get(key, now.Add(actorTTL-1)); !ok || actor.ID != "a" {
		t.Error("forgotten too early")
	}
	if _, ok := c.get(key, now.Add(actorTTL)); ok {
		t.Error("remembered too long")
	}
	c.put(key, catalog.Actor{ID: "a"}, now, now.Add(time.Second))
	if _, ok := c.get(key, now.Add(time.Second)); ok {
		t.Error("remembered beyond the end of the token")
	}
	for i := range maxKnownActors + 10 {
		c.put([32]byte{2, byte(i), byte(i >> 8), byte(i >> 16)}, catalog.Actor{}, now, time.Time{})
	}
	if len(c.m) > maxKnownActors {
		t.Errorf("%d entries", len(c.m))
	}
}
