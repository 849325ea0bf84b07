package api

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"legwork/internal/access"
)

// rateLimitHeaders adds to an answer the limit that its request counts against, in the form of the IETF draft
// draft-ietf-httpapi-ratelimit-headers-09: q is the quota of a window of w seconds, r is its rest, and t is the time in
// seconds until the rest grows. Retry-After of an answer 429 is the time until the next request is accepted.
func rateLimitHeaders(h http.Header, status int, quotas *access.Quotas) {
	q, ok := quotas.Tightest()
	if !ok {
		return
	}
	h.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", q.Name, q.Limit, wholeSeconds(q.Window)))
	h.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", q.Name, q.Remaining, wholeSeconds(q.Reset)))
	if status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.Itoa(max(1, wholeSeconds(q.Reset))))
	}
}

func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
