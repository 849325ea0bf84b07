package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"legwork/internal/fault"
)

// The cost of one password hash: argon2id (RFC 9106) with 19 MiB, two passes and one lane, the least that OWASP's
// password storage page names. It takes about 20 ms of a core.
const (
	argonMemory   = 19 << 10 // KiB
	argonPasses   = 2
	argonLanes    = 1
	argonSalt     = 16 // bytes
	argonKey      = 32 // bytes
	hashesAtOnce  = 2  // so that a flood of log ins takes 38 MiB, not all there is
	hashesWaiting = 62 // more are sent away: these take some 0.6 s
	minPassword   = 10 // characters
	maxPassword   = 256
	hashPrefix    = "$argon2id$v=19$m=%d,t=%d,p=%d$"
	wrongPassword = "login_wrong"
)

// passwordProblem says what is wrong with a new password, "" when nothing is.
func passwordProblem(user, password string) string {
	switch {
	case utf8.RuneCountInString(password) < minPassword:
		return fmt.Sprintf("a password has at least %d characters", minPassword)
	case len(password) > maxPassword:
		return fmt.Sprintf("a password has at most %d bytes", maxPassword)
	case !utf8.ValidString(password) || strings.ContainsAny(password, "\x00\r\n"):
		return "a password is one line of text"
	case strings.EqualFold(password, user):
		return "a password is not the name of its user"
	}
	return ""
}

func passwordFault(problem string) *fault.Fault {
	return fault.New(fault.Invalid, "password_invalid", "%s", problem).WithDetails(fault.Problem{Field: "password", Message: problem})
}

// hasher makes and checks password hashes, few at once, and few may wait for that.
type hasher struct {
	running chan struct{}
	waiting chan struct{} // those that run among them
}

func newHasher() hasher {
	return hasher{running: make(chan struct{}, hashesAtOnce), waiting: make(chan struct{}, hashesAtOnce+hashesWaiting)}
}

func (h hasher) run(ctx context.Context, fn func()) error {
	select {
	case h.waiting <- struct{}{}:
		defer func() { <-h.waiting }()
	default:
		return fault.New(fault.RateLimited, "too_many_logins", "too many log in at once").WithHint("try again in 2 seconds")
	}
	select {
	case h.running <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.running }()
	fn()
	return nil
}

// hash gives the hash of a password with a salt of its own, in the PHC string format.
func (h hasher) hash(ctx context.Context, password string) (text string, err error) {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails
	err = h.run(ctx, func() { text = phc(password, salt, argonMemory, argonPasses, argonLanes) })
	return text, err
}

func phc(password string, salt []byte, memory, passes uint32, lanes uint8) string {
	key := argon2.IDKey([]byte(password), salt, passes, memory, lanes, argonKey)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf(hashPrefix, memory, passes, lanes) + b64.EncodeToString(salt) + "$" + b64.EncodeToString(key)
}

// right tells whether a password fits a hash. It takes the same time whether it does or not.
func (h hasher) right(ctx context.Context, hash, password string) (ok bool, err error) {
	var memory, passes uint32
	var lanes uint8
	parts := strings.Split(hash, "$")
	if len(parts) != 6 {
		return false, fmt.Errorf("a stored password hash is damaged")
	}
	if _, err := fmt.Sscanf(strings.Join(parts[:4], "$")+"$", hashPrefix, &memory, &passes, &lanes); err != nil {
		return false, fmt.Errorf("a stored password hash is damaged: %w", err)
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, fmt.Errorf("a stored password hash is damaged: %w", err)
	}
	err = h.run(ctx, func() {
		ok = subtle.ConstantTimeCompare([]byte(phc(password, salt, memory, passes, lanes)), []byte(hash)) == 1
	})
	return ok, err
}
