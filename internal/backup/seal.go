package backup

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"legwork/internal/fault"
)

// Keys are the secrets of a Server that are outside of its database.
type Keys struct {
	MasterKey  string `json:"master_key"`            // as it is in its file
	AdminToken string `json:"admin_token,omitempty"` // likewise; empty when there is no file
}

// MinPassphrase is the least number of bytes of a passphrase.
const MinPassphrase = 12

// sealedKeys are Keys sealed with XChaCha20-Poly1305 under a key that argon2id makes of the passphrase.
type sealedKeys struct {
	Salt   []byte `json:"salt"`
	Time   uint32 `json:"time"`
	Memory uint32 `json:"memory_kib"`
	Nonce  []byte `json:"nonce"`
	Sealed []byte `json:"sealed"`
}

// The cost of one guess of a passphrase, and what a file may ask for at most.
const (
	sealTime      = 3
	sealMemory    = 64 << 10 // KiB
	maxSealTime   = 16
	maxSealMemory = 1 << 20 // KiB
)

func (s sealedKeys) key(passphrase string) []byte {
	return argon2.IDKey([]byte(passphrase), s.Salt, s.Time, s.Memory, 4, chacha20poly1305.KeySize)
}

// seal seals keys with a passphrase. id, of the archive, is bound to what is sealed.
func seal(keys Keys, passphrase, id string) (sealedKeys, error) {
	if len(passphrase) < MinPassphrase {
		return sealedKeys{}, fault.New(fault.Invalid, "passphrase_short", "the passphrase is shorter than %d bytes", MinPassphrase).
			WithHint("choose a longer one: whoever has the backup can guess at it")
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return sealedKeys{}, fmt.Errorf("seal the keys: %w", err)
	}
	s := sealedKeys{Salt: make([]byte, 16), Time: sealTime, Memory: sealMemory, Nonce: make([]byte, chacha20poly1305.NonceSizeX)}
	_, _ = rand.Read(s.Salt) // never fails
	_, _ = rand.Read(s.Nonce)
	aead, err := chacha20poly1305.NewX(s.key(passphrase))
	if err != nil {
		return sealedKeys{}, fmt.Errorf("seal the keys: %w", err)
	}
	s.Sealed = aead.Seal(nil, s.Nonce, text, []byte(id))
	return s, nil
}

// open opens what seal sealed.
func (s sealedKeys) open(passphrase, id string) (keys Keys, err error) {
	if s.Time < 1 || s.Time > maxSealTime || s.Memory > maxSealMemory || len(s.Nonce) != chacha20poly1305.NonceSizeX || len(s.Salt) < 8 {
		return keys, damaged("its sealed keys cannot be read")
	}
	aead, err := chacha20poly1305.NewX(s.key(passphrase))
	if err != nil {
		return keys, fmt.Errorf("open the keys: %w", err)
	}
	text, err := aead.Open(nil, s.Nonce, s.Sealed, []byte(id))
	if err != nil {
		return keys, fault.New(fault.Invalid, "passphrase_wrong", "the passphrase does not open the keys of the backup").
			WithHint("use the passphrase that was given when the backup was made")
	}
	if err := json.Unmarshal(text, &keys); err != nil {
		return keys, damaged("its keys cannot be read")
	}
	return keys, nil
}
