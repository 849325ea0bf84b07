package process

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// maskAll masks in, fed in pieces of n bytes.
func maskAll(m *Masker, in []byte, n int) string {
	s := MaskStream{masker: m}
	var out []byte
	for len(in) > 0 {
		n = min(n, len(in))
		out = s.Write(out, in[:n])
		in = in[n:]
	}
	return string(s.Finish(out))
}

func TestMasker(t *testing.T) {
	pem := "-----BEGIN KEY-----\nabcdefgh\nijklmnop\n-----END KEY-----\n"
	odd := "p@ss <w&rd>+\"1\\é€😀"
	ascii := `p@ss <w&rd>+\"1\\\u00e9\u20ac\ud83d\ude00`
	marshaled, _ := json.Marshal(odd)
	long := strings.Repeat("0123456789", 20)
	wrapped := base64.StdEncoding.EncodeToString([]byte(long))
	tests := []struct {
		name     string
		secrets  []string
		in, want string
	}{
		{"none", nil, "text", "text"},
		{"everywhere", []string{"hunter2"}, "hunter2 a hunter2\nhunter2", "*** a ***\n***"},
		{"almost", []string{"hunter2"}, "hunterhunter2hunter", "hunter***hunter"},
		{"too short", []string{"abc", "", " a "}, "abcabc", "abcabc"},
		{"longest of two", []string{"abcd", "abcdef"}, "abcdefg abcdx", "***g ***x"},
		{"overlapping", []string{"abcdef", "defghi"}, "xabcdefghiy", "x***y"},
		{"inside", []string{"cdef", "abcdefgh"}, "abcdefg abcdefgh", "ab***g ***"},
		{"of itself", []string{"aabaab"}, "xaabaabaaby", "x***y"},
		{"several lines", []string{pem}, "key:\n" + pem + "end", "key:\n***\nend"},
		{"one of its lines", []string{pem}, "> ijklmnop <", "> *** <"},
		{"with carriage returns", []string{pem}, strings.ReplaceAll(pem, "\n", "\r\n"), "***\r\n"},
		{"white space around", []string{"\n hunter2\n"}, "\n\n  hunter2 \n", "\n\n  *** \n"},
		{"JSON", []string{odd}, string(marshaled), `"***"`},
		{"JSON in ASCII", []string{odd}, ascii, "***"},
		{"query", []string{odd}, url.QueryEscape(odd) + " " + url.PathEscape(odd), "*** ***"},
		{"base64", []string{"hunter2hunter2!!"}, base64.StdEncoding.EncodeToString([]byte("hunter2hunter2!!")) + ".", "***."},
		{"base64 for URLs", []string{"\xff\xfe\xfd\xfc\xfb"}, base64.RawURLEncoding.EncodeToString([]byte("\xff\xfe\xfd\xfc\xfb")), "***"},
		{"base64 with newline", []string{"hunter22\n"}, base64.StdEncoding.EncodeToString([]byte("hunter22\n")), "***"},
		{"upper case", []string{"Hunter2x"}, "HUNTER2X hunter2x", "*** ***"},
		{"base64 inside, offset 0", []string{"Zq9-SuperSecret-7713"}, base64.StdEncoding.EncodeToString([]byte("abcZq9-SuperSecret-7713 end")), "YWJj***gZW5k"},
		{"base64 inside, offset 1", []string{"Zq9-SuperSecret-7713"}, base64.StdEncoding.EncodeToString([]byte("aZq9-SuperSecret-7713 end")), "YV***IGVuZA=="},
		{"base64 inside, offset 2", []string{"Zq9-SuperSecret-7713"}, base64.StdEncoding.EncodeToString([]byte("abZq9-SuperSecret-7713 end")), "YWJ***yBlbmQ="},
		{"base64 wrapped", []string{long}, wrapped[:76] + "\n" + wrapped[76:152] + "\n", "***\n***\n"},
		{"beginning at the end", []string{"hunter2"}, "text hunte", "text hunte"},
		{"not UTF-8", []string{"\xff\x00\xfe\x01"}, "a\xff\x00\xfe\x01b", "a***b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := NewMasker(test.secrets)
			for _, n := range []int{1, 2, 3, 5, 1 << 20} {
				if got := maskAll(m, []byte(test.in), n); got != test.want {
					t.Fatalf("in pieces of %d: %q, want %q", n, got, test.want)
				}
			}
		})
	}
}

// What cannot be a secret's beginning is let out at once.
func TestMaskerHoldsNoMoreThanItMust(t *testing.T) {
	s := MaskStream{masker: NewMasker([]string{"hunter2"})}
	if got := string(s.Write(nil, []byte("password: hun"))); got != "password: " {
		t.Fatalf("got %q", got)
	}
	if got := string(s.Write(nil, []byte("t"))); got != "" {
		t.Fatalf("got %q", got)
	}
	if got := string(s.Write(nil, []byte("ing "))); got != "hunting " {
		t.Fatalf("got %q", got)
	}
}

// naiveMask is the specification: the union of all occurrences, each stretch one "***".
func naiveMask(m *Masker, in []byte) string {
	var out []byte
	end := 0
	for i := range in {
		full := 0
		for _, patterns := range m.byHead {
			for _, p := range patterns {
				if strings.HasPrefix(string(in[i:]), p) {
					full = max(full, len(p))
				}
			}
		}
		if full > 0 {
			if i >= end {
				out = append(out, maskText...)
			}
			end = max(end, i+full)
		}
		if i >= end {
			out = append(out, in[i])
		}
	}
	return string(out)
}

// FuzzMasker: no secret in the output, however the input is cut, and the output does not depend on the cuts.
func FuzzMasker(f *testing.F) {
	f.Add("hunter2\x00swordfish", []byte("a hunter2 swordswordfish"), uint64(1))
	f.Add("aaaa\x00aaab\x00abab", []byte("aaaaaaababababaaab"), uint64(2))
	f.Add("line one\nline two", []byte("line one\nline two\nline one"), uint64(3))
	f.Add("<&\"é", []byte(`\u003c\u0026\"\u00e9 %3C%26%22`), uint64(4))
	f.Fuzz(func(t *testing.T, list string, in []byte, seed uint64) {
		if len(list) > 1000 || len(in) > 4000 {
			return
		}
		m := NewMasker(strings.Split(list, "\x00"))
		want := naiveMask(m, in)
		rng := rand.New(rand.NewPCG(seed, 0))
		s := MaskStream{masker: m}
		var got []byte
		for rest := in; len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 1+rng.IntN(20)))
			got = s.Write(got, rest[:n])
			rest = rest[n:]
		}
		got = s.Finish(got)
		if string(got) != want {
			t.Fatalf("%q became %q, want %q", in, got, want)
		}
		for _, patterns := range m.byHead {
			for _, p := range patterns {
				if !strings.Contains(p, "*") && bytes.Contains(got, []byte(p)) {
					t.Fatalf("%q is in the output %q", p, got)
				}
			}
		}
	})
}

func BenchmarkMasker(b *testing.B) {
	var secrets []string
	for i := range 50 {
		secrets = append(secrets, fmt.Sprintf("s3cr3t-%02d-%x", i, rand.Uint64()))
	}
	in := bytes.Repeat([]byte("aws_instance.web[0]: Still creating... [id=i-0123456789abcdef0, 10s elapsed]\n"), 800)
	b.Run("make", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewMasker(secrets)
		}
	})
	b.Run("scan", func(b *testing.B) {
		s := MaskStream{masker: NewMasker(secrets)}
		var out []byte
		b.SetBytes(int64(len(in)))
		for b.Loop() {
			out = s.Write(out[:0], in)
		}
	})
}
