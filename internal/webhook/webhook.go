// Package webhook signs calls after the Standard Webhooks specification (standardwebhooks.com, version 1.0.0) and sends them, each
// within bounds: of time, of what is read of the answer, of whom it may reach. It keeps nothing and tries once; when to call again is
// for others to decide.
package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"legwork/internal/fault"
)

// The headers of a call, as the specification names them.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32 // the specification wants 24 to 64
)

// NewSecret makes a secret of 256 random bits: whsec_ and base64.
func NewSecret() string {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // it never fails: see crypto/rand
	return secretPrefix + base64.StdEncoding.EncodeToString(b)
}

// Sign gives the headers of a call. id is the same for every try of an event and holds no full stop; at is when this try is made. Each
// secret gives one signature, the newest first, so that receivers that know any of them take the call.
func Sign(id string, at time.Time, body []byte, secrets ...string) (http.Header, error) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err != nil || len(key) == 0 {
			return nil, fault.New(fault.Internal, "webhook_secret", "the secret of the webhook cannot be used") // without the cause, which quotes it
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return http.Header{HeaderID: {id}, HeaderTimestamp: {stamp}, HeaderSignature: {strings.Join(signatures, " ")}}, nil
}
