package access

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"
)

// The prefixes of what this program hands out, so that scanners for leaked secrets (and people) know
// what they see.
const (
	tokenPrefix  = "lw_"  // bearer tokens
	secretPrefix = "lws_" // client secrets
)

const (
	secretBytes  = 32
	bodyLength   = 43 // base62 digits that hold 32 bytes
	sumLength    = 6  // base62 digits that hold a CRC-32
	base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewToken makes a bearer token of 256 random bits and gives it with the hash under which it is stored.
func NewToken() (token string, hash []byte) { return mint(tokenPrefix) }

// NewSecret makes a client secret of 256 random bits and gives it with the hash under which it is stored.
func NewSecret() (secret string, hash []byte) { return mint(secretPrefix) }

// Hash gives the SHA-256 of a token or secret. A slow hash is for what people choose; these are random and long.
func Hash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func mint(prefix string) (string, []byte) {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails
	body := prefix + base62(new(big.Int).SetBytes(random), bodyLength)
	token := body + checksum(body)
	return token, Hash(token)
}

// wellFormed tells whether a token could be one of ours. A mistyped or cut one is told so without a query.
func wellFormed(token string) bool {
	if !strings.HasPrefix(token, tokenPrefix) || len(token) != len(tokenPrefix)+bodyLength+sumLength {
		return false
	}
	cut := len(token) - sumLength
	return checksum(token[:cut]) == token[cut:]
}

func checksum(body string) string {
	return base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(body)))), sumLength)
}

// base62 writes n with exactly length digits.
func base62(n *big.Int, length int) string {
	digits := make([]byte, length)
	base, rest := big.NewInt(int64(len(base62Digits))), new(big.Int)
	for i := length - 1; i >= 0; i-- {
		n.DivMod(n, base, rest)
		digits[i] = base62Digits[rest.Int64()]
	}
	return string(digits)
}
