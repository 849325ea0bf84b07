package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// throttle bounds the failed attempts to prove who one is: of users, Service principals and Runners alike. It counts them
// by address, by name and address, and by name. The count by name is shared by everybody, so it does not apply to an
// address from which the name logged in before, and no shared count applies to a device that did. Otherwise anybody could
// lock anybody out.
type throttle struct {
	byPair    *limiter // by name and address, or by name and device
	byAddress *limiter
	byName    *limiter // from addresses without an earlier success

	mu        sync.Mutex
	succeeded map[string]struct{} // names with the addresses from which they logged in
}

const (
	maxPairs     = 10_000
	maxSucceeded = 100_000
)

func newThrottle() *throttle {
	return &throttle{
		byPair:    newLimiter(rate.Every(10*time.Second), 8, maxPairs),
		byAddress: newLimiter(rate.Every(time.Second), 100, maxPairs),
		byName:    newLimiter(rate.Every(30*time.Second), 50, maxPairs),
		succeeded: map[string]struct{}{},
	}
}

// attempt counts an attempt before it is looked at, as failed. device is "" or a device from which the name logged in.
func (t *throttle) attempt(name, address, device string, now time.Time) (attempt, error) {
	return take(now, t.buckets(name, address, device)...)
}

// buckets returns what an attempt counts against.
func (t *throttle) buckets(name, address, device string) []taken {
	if device != "" {
		return []taken{{t.byPair, pairKey(name, "device "+device)}}
	}
	network := networkOf(address)
	pair := pairKey(name, network)
	each := []taken{{t.byPair, pair}, {t.byAddress, network}}
	if !t.hasSucceeded(pair) {
		each = append(each, taken{t.byName, name})
	}
	return each
}

func pairKey(name, place string) string { return name + "\x00" + place }

func (t *throttle) hasSucceeded(pair string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, found := t.succeeded[pair]
	return found
}

// success records that a name logged in from an address.
func (t *throttle) success(name, address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pair := range t.succeeded {
		if len(t.succeeded) < maxSucceeded {
			break
		}
		delete(t.succeeded, pair) // any one: its address is counted by name until its next success
	}
	t.succeeded[pairKey(name, networkOf(address))] = struct{}{}
}

// attempt is a log in that counts as failed until it gives back what it took: otherwise all that are made at once would pass.
type attempt []taken

// taken is one that was taken from a bucket.
type taken struct {
	from *limiter
	key  string
}

// take takes one from each bucket, or, when one of them is empty, from none.
func take(now time.Time, each ...taken) (attempt, error) {
	for i, t := range each {
		if !t.from.allow(t.key, now) {
			attempt(each[:i]).giveBack(now)
			return nil, tooManyLogins()
		}
	}
	return each, nil
}

func (t attempt) giveBack(now time.Time) {
	for _, one := range t {
		one.from.giveBack(one.key, now)
	}
}

// networkOf returns what counts as one address: of IPv6 the network of 64 bits, which one person has whole.
func networkOf(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Is4() {
		return address
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return network.String()
}

// NewDevice returns the text of a cookie that proves that a browser logged in with a name. It lets nobody in: it only keeps
// failed attempts of others from slowing this browser.
func (a *Access) NewDevice(name string) string {
	id := rand.Text()
	return id + "." + a.deviceSignature(name, id)
}

// deviceOf returns the id of the device whose cookie was signed for a name, "" when there is none.
func (a *Access) deviceOf(name, cookie string) string {
	id, signature, _ := strings.Cut(cookie, ".")
	if id == "" || !hmac.Equal([]byte(signature), []byte(a.deviceSignature(name, id))) {
		return ""
	}
	return id
}

func (a *Access) deviceSignature(name, id string) string {
	mac := hmac.New(sha256.New, a.signing)
	mac.Write([]byte("device\x00" + name + "\x00" + id))
	return hex.EncodeToString(mac.Sum(nil))
}
