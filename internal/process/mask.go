package process

import (
	"encoding/binary"
	"slices"
)

// maskText stands in a log where a secret stood.
const maskText = "***"

// minMasked is the shortest value that is masked. Shorter ones would blot out half of every log and
// could be guessed from the blots.
const minMasked = 4

// filterBits is the size of a Masker's first sieve; 2^16 bits stay in the first-level cache.
const filterBits = 16

// Masker knows the secret values of one command and replaces every occurrence of them, and of their
// usual encodings (see maskForms), by "***". Occurrences that overlap become one "***". Values
// shorter than 4 bytes, surrounding white space not counted, are not masked. Safe for concurrent use
// once made; the state of a stream is in MaskStream.
//
// It looks at each place of the text through a sieve over the 4 bytes that stand there and compares
// only where a pattern with the same first 4 bytes exists. That needs no table to be built, which
// counts for commands that live a millisecond, and costs about a nanosecond a byte.
type Masker struct {
	sieve   [1 << filterBits / 64]uint64
	byHead  map[uint32][]string // patterns by their first 4 bytes, longest first
	byFirst [256][]string       // the same by their first byte, for the last 3 bytes of a text
	with    string              // stands where a secret stood
}

// NewMasker makes a Masker for these values.
func NewMasker(secrets []string) *Masker {
	m := &Masker{byHead: map[uint32][]string{}, with: maskText}
	seen := map[string]bool{}
	for _, secret := range secrets {
		for _, form := range maskForms(secret) {
			if len(form) < minMasked || seen[form] {
				continue
			}
			seen[form] = true
			m.insert(form)
		}
	}
	for _, patterns := range m.byHead {
		slices.SortFunc(patterns, func(a, b string) int { return len(b) - len(a) })
	}
	return m
}

func (m *Masker) insert(pattern string) {
	head := binary.LittleEndian.Uint32([]byte(pattern[:4]))
	m.byHead[head] = append(m.byHead[head], pattern)
	m.byFirst[pattern[0]] = append(m.byFirst[pattern[0]], pattern)
	h := sieveHash(head)
	m.sieve[h/64] |= 1 << (h % 64)
}

func sieveHash(head uint32) uint32 { return head * 2654435761 >> (32 - filterBits) }

// next returns the first place from i on where a pattern may begin, or len(text).
func (m *Masker) next(text []byte, i int) int {
	for ; i+4 <= len(text); i++ {
		h := sieveHash(binary.LittleEndian.Uint32(text[i:]))
		if m.sieve[h/64]&(1<<(h%64)) != 0 {
			return i
		}
	}
	for ; i < len(text); i++ {
		if len(m.byFirst[text[i]]) > 0 {
			return i
		}
	}
	return i
}

// at looks for patterns that begin where text begins. full is the length of the longest that is
// there as a whole; open tells that text may be the beginning of one that goes on behind it.
func (m *Masker) at(text []byte) (full int, open bool) {
	if len(text) < 4 {
		for _, pattern := range m.byFirst[text[0]] {
			if pattern[:len(text)] == string(text) {
				return 0, true
			}
		}
		return 0, false
	}
	for _, pattern := range m.byHead[binary.LittleEndian.Uint32(text)] {
		if len(pattern) > len(text) {
			open = open || pattern[:len(text)] == string(text)
		} else if full == 0 && string(text[:len(pattern)]) == pattern {
			full = len(pattern)
		}
	}
	return full, open
}

// Mask gives a text, which is whole, with its secrets masked.
func (m *Masker) Mask(text string) string {
	s := MaskStream{masker: m}
	return string(s.Finish(s.Write(nil, []byte(text))))
}

// Replacing returns a Masker of the same secrets that puts another text in their place.
func (m *Masker) Replacing(with string) *Masker {
	other := *m
	other.with = with
	return &other
}

// Holds reports whether a text, which is whole, has one of the secrets in it, in any of the forms that are masked.
func (m *Masker) Holds(text string) bool {
	bytes := []byte(text)
	for i := m.next(bytes, 0); i < len(bytes); i = m.next(bytes, i+1) {
		if full, _ := m.at(bytes[i:]); full > 0 {
			return true
		}
	}
	return false
}

// Stream begins to mask one stream of bytes. A nil Masker masks nothing.
func (m *Masker) Stream() *MaskStream { return &MaskStream{masker: m} }

// MaskStream masks one stream of bytes, however it is cut into writes: a secret that begins in one and ends in another is masked,
// too. Not safe for concurrent use.
type MaskStream struct {
	masker  *Masker
	held    []byte // a suffix that may be the beginning of a secret
	covered int    // the first bytes of held are part of an occurrence whose "***" is already out
	joined  []byte // scratch
}

// Write appends to dst what of held and p is decided, and holds back the rest: less than the longest
// secret. A secret is never let out for having waited long.
func (s *MaskStream) Write(dst, p []byte) []byte { return s.scan(dst, p, false) }

// Finish appends what is still held. The stream is over: a secret's beginning is all there was.
func (s *MaskStream) Finish(dst []byte) []byte { return s.scan(dst, nil, true) }

func (s *MaskStream) scan(dst, p []byte, last bool) []byte {
	if s.masker == nil || len(s.masker.byHead) == 0 {
		return append(dst, p...)
	}
	text := p
	if len(s.held) > 0 {
		s.joined = append(append(s.joined[:0], s.held...), p...)
		text = s.joined
	}
	out := s.covered // text before out is dealt with: written, or masked
	for i := s.masker.next(text, 0); i < len(text); i = s.masker.next(text, i+1) {
		full, open := s.masker.at(text[i:])
		if open && !last {
			if i > out {
				dst = append(dst, text[out:i]...)
			}
			s.covered = max(out-i, 0)
			s.held = append(s.held[:0], text[i:]...)
			return dst
		}
		if full == 0 {
			continue
		}
		if i >= out {
			dst = append(append(dst, text[out:i]...), s.masker.with...)
		}
		out = max(out, i+full)
	}
	s.held, s.covered = s.held[:0], 0
	if out < len(text) {
		dst = append(dst, text[out:]...)
	}
	return dst
}
