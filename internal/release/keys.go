package release

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"aead.dev/minisign"

	"legwork/internal/fault"
)

// builtinKey holds the public keys that this program trusts from the beginning, with commas between them. It is set by the linker:
//
//	-X legwork/internal/release.builtinKey=RWQ...
var builtinKey string

// keysMost bounds how many keys are trusted.
const keysMost = 50

// Keys are public keys of minisign that are trusted to sign releases.
type Keys []minisign.PublicKey

// Trusted gives the keys that were built in, and further ones as text: the line that begins with RW, or the whole file of minisign.
// Its fault is "release_key".
func Trusted(further []string) (Keys, error) {
	var keys Keys
	for _, text := range slices.Concat(strings.Split(builtinKey, ","), further) {
		if strings.TrimSpace(text) == "" {
			continue
		}
		k, err := ParseKey(text)
		if err != nil {
			return nil, err
		}
		if len(keys) == keysMost {
			return nil, fault.New(fault.TooLarge, "release_key", "there are more than %d keys of releases", keysMost)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// ParseKey reads a public key of minisign: the line that begins with RW, or the whole file. Its fault is "release_key".
func ParseKey(text string) (k minisign.PublicKey, err error) {
	if len(text) > SignatureMost {
		err = fmt.Errorf("%d bytes are too many", len(text))
	} else {
		err = k.UnmarshalText([]byte(strings.TrimSpace(text)))
	}
	if err != nil {
		return k, fault.New(fault.Invalid, "release_key", "%q is no public key of minisign", short(text)).
			WithHint("it is the line that begins with RW in the .pub file; `legwork release keygen` makes one").WithCause(err)
	}
	return k, nil
}

// KeyName gives what people call a key: its id in upper hexadecimal, as minisign prints it.
func KeyName(id uint64) string { return fmt.Sprintf("%016X", id) }

// Names gives the names of all keys.
func (k Keys) Names() []string {
	names := make([]string, len(k))
	for i, key := range k {
		names[i] = KeyName(key.ID())
	}
	return names
}

// Verify tells whether a manifest is signed by one of the keys, and reads it. The fault of a signature that is not right, or of a key that is not known, is
// "release_signature"; that of no key at all, "release_no_keys".
func Verify(manifest, signature []byte, keys Keys) (Manifest, error) {
	if len(manifest) > ManifestMost || len(signature) > SignatureMost {
		return Manifest{}, fault.New(fault.TooLarge, "release_manifest", "the manifest of the release or its signature is too large").
			WithHint("a manifest has at most %d bytes, a signature %d", ManifestMost, SignatureMost)
	}
	if len(keys) == 0 {
		return Manifest{}, fault.New(fault.Forbidden, "release_no_keys", "no key is trusted to sign releases").
			WithHint("name the public key in release_keys of the settings")
	}
	var s minisign.Signature
	if err := s.UnmarshalText(signature); err != nil {
		return Manifest{}, fault.New(fault.Forbidden, "release_signature", "the signature of the release is none of minisign").
			WithHint("make it with `legwork release sign` or `minisign -S`").WithCause(err)
	}
	known := false
	for _, k := range keys {
		if k.ID() != s.KeyID {
			continue
		}
		if minisign.Verify(k, manifest, signature) {
			return Parse(manifest)
		}
		known = true // ids are 64 bits and anybody may choose them: another key may have the same
	}
	if known {
		return Manifest{}, fault.New(fault.Forbidden, "release_signature", "the signature of the release does not fit its manifest").
			WithHint("one of the two was changed after signing: do not use it, and get the release again")
	}
	return Manifest{}, fault.New(fault.Forbidden, "release_signature", "the release is signed by the key %s, which is not trusted here", KeyName(s.KeyID)).
		WithHint("trusted are %s; name further ones in release_keys of the settings", strings.Join(keys.Names(), ", "))
}

// GenerateKey makes a pair of keys in the format of minisign. Without a password the private one is not encrypted; with one it takes
// scrypt with 1 GiB of memory for some seconds, as minisign does.
func GenerateKey(password string) (public, private []byte, err error) {
	pub, priv, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	if password == "" {
		private, err = priv.MarshalText()
	} else {
		private, err = minisign.EncryptKey(password, priv)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write a key: %w", err)
	}
	if public, err = pub.MarshalText(); err != nil {
		return nil, nil, fmt.Errorf("write a key: %w", err)
	}
	return append(public, '\n'), append(private, '\n'), nil
}

// NeedsPassword tells whether a private key is encrypted.
func NeedsPassword(private []byte) bool { return minisign.IsEncrypted(trimmed(private)) }

func trimmed(key []byte) []byte { return []byte(strings.TrimSpace(string(key))) }

// Sign signs a manifest with a private key of minisign, and gives the public one beside the signature. The same manifest and key give the
// same bytes each time. Its faults are "release_private_key" and those of Parse.
func Sign(manifest, private []byte, password string) (signature, public []byte, err error) {
	m, err := Parse(manifest)
	if err != nil {
		return nil, nil, err
	}
	var key minisign.PrivateKey
	if NeedsPassword(private) {
		key, err = minisign.DecryptKey(password, trimmed(private))
	} else {
		err = key.UnmarshalText(trimmed(private))
	}
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "release_private_key", "the private key cannot be read, or its password is wrong").
			WithHint("name a private key of minisign; its password is in LEGWORK_RELEASE_PASSWORD").WithCause(err)
	}
	hashed := minisign.NewReader(strings.NewReader(string(manifest)))
	if _, err := hashed.Read(make([]byte, len(manifest))); err != nil {
		return nil, nil, fmt.Errorf("read a manifest: %w", err)
	}
	comment := "legwork " + m.Version
	signature = hashed.SignWithComments(key, comment, "signature of legwork "+m.Version+" by "+KeyName(key.ID()))
	pub, isKey := key.Public().(minisign.PublicKey)
	if !isKey || !minisign.Verify(pub, manifest, signature) {
		return nil, nil, fault.New(fault.Invalid, "release_private_key", "the private key is broken: what it signs is not signed").
			WithHint("make another with `legwork release keygen`")
	}
	if public, err = pub.MarshalText(); err != nil {
		return nil, nil, fmt.Errorf("write a key: %w", err)
	}
	return append(signature, '\n'), append(public, '\n'), nil
}
