package process

import (
	"bytes"
	"testing"

	"legwork/internal/work"
)

type piece struct {
	partial bool
	data    string
}

func collect() (*lines, *[]piece) {
	var got []piece
	l := &lines{emit: func(partial bool, data []byte) { got = append(got, piece{partial, string(data)}) }}
	return l, &got
}

func TestLines(t *testing.T) {
	big := string(bytes.Repeat([]byte("x"), work.MaxRecordBytes))
	tests := []struct {
		name string
		in   []string // "" stands for silence
		want []piece
	}{
		{"two lines", []string{"a\nb\n"}, []piece{{false, "a"}, {false, "b"}}},
		{"cut anywhere", []string{"a", "b\nc", "d\n"}, []piece{{false, "ab"}, {false, "cd"}}},
		{"empty lines", []string{"\n\n"}, []piece{{false, ""}, {false, ""}}},
		{"no newline at the end", []string{"a\nb"}, []piece{{false, "a"}, {false, "b"}}},
		{"carriage returns stay", []string{"a\r\n10%\r20%\r\n"}, []piece{{false, "a\r"}, {false, "10%\r20%\r"}}},
		{"not UTF-8", []string{"\xff\x00\n"}, []piece{{false, "\xff\x00"}}},
		{"prompt then answer", []string{"name? ", "", "x\n"}, []piece{{true, "name? "}, {false, "x"}}},
		{"prompt then newline", []string{"name? ", "", "\n"}, []piece{{true, "name? "}, {false, ""}}},
		{"prompt then end", []string{"name? ", ""}, []piece{{true, "name? "}, {false, ""}}},
		{"silence between lines", []string{"a\n", "", "b\n"}, []piece{{false, "a"}, {false, "b"}}},
		{"exactly one record", []string{big + "\n"}, []piece{{false, big}}},
		{"one byte more", []string{big + "y\n"}, []piece{{true, big}, {false, "y"}}},
		{"exactly two records", []string{big, big, "\n"}, []piece{{true, big}, {false, big}}},
		{"nothing", nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l, got := collect()
			for _, in := range test.in {
				if in == "" {
					l.flush()
				} else {
					l.write([]byte(in))
				}
			}
			l.finish()
			if len(*got) != len(test.want) {
				t.Fatalf("%d pieces, want %d", len(*got), len(test.want))
			}
			for i, w := range test.want {
				if (*got)[i] != w {
					t.Fatalf("piece %d is partial=%v with %d bytes, want partial=%v with %d", i,
						(*got)[i].partial, len((*got)[i].data), w.partial, len(w.data))
				}
			}
		})
	}
}

// FuzzLines: joining the pieces gives back the stream, however it is cut and flushed.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), uint8(2), true)
	f.Add(bytes.Repeat([]byte("x"), 3000), uint8(255), false)
	f.Fuzz(func(t *testing.T, in []byte, cut uint8, silent bool) {
		var out []byte
		l := &lines{}
		partial := false
		l.emit = func(p bool, data []byte) {
			partial = p
			out = append(out, data...)
			if !p {
				out = append(out, '\n')
			}
		}
		for rest := in; len(rest) > 0; {
			n := min(len(rest), int(cut)+1)
			l.write(rest[:n])
			rest = rest[n:]
			if silent {
				l.flush()
			}
		}
		l.finish()
		want := in
		if len(in) > 0 && in[len(in)-1] != '\n' {
			want = append(append([]byte(nil), in...), '\n')
		}
		if partial || !bytes.Equal(out, want) {
			t.Fatalf("%q became %q, open %v", in, out, partial)
		}
	})
}
