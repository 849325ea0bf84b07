package api

import (
	"bytes"
	"encoding/json"
	"legwork/internal/control"
	"testing"
	"time"
	"unicode/utf8"

	"legwork/internal/work"
)

func lineOf(data []byte) control.LogLine {
	return control.LogLine{Pos: 7, Attempt: 2, Step: 3, Record: work.Record{
		Seq: 9, Time: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC), Stream: work.Stderr, Partial: true, Data: data,
	}}
}

func FuzzLogLine(f *testing.F) {
	for _, data := range []string{"", "plain", "\x1b[31mred\x1b[0m", "\xff\xfe", "ü \u0085 \u2028 \x7f \x00 \" \\ \t \r", "\xc2", "a\xc2\x85"} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := appendLines(nil, []control.LogLine{lineOf(data), lineOf(nil)}, nil)
		var lines []LogLine
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&lines); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := lines[0]
		if !bytes.Equal(got.Data(), data) {
			t.Fatalf("%q became %q", data, got.Data())
		}
		if (got.DataBase64 != nil) == (utf8.Valid(data)) && len(data) > 0 {
			t.Fatalf("%q travels the wrong way: %s", data, text)
		}
		want := lineOf(data)
		if got.Pos != want.Pos || got.Attempt != 2 || got.Step != 3 || got.Seq != 9 || !got.Time.Equal(want.Time) || got.Stream != "stderr" || !got.Partial {
			t.Fatalf("%+v", got)
		}
		for _, c := range string(text) {
			if c < 0x20 || c >= 0x7f && c < 0xa0 {
				t.Fatalf("a control character in %q", text)
			}
		}
	})
}

func TestRawLogIsWhatWasPrinted(t *testing.T) {
	lines := []control.LogLine{
		{Record: work.Record{Stream: work.Stdout, Data: []byte("half "), Partial: true}},
		{Record: work.Record{Stream: work.Stdout, Data: []byte("line\xff")}},
		{Record: work.Record{Stream: work.System, Data: []byte("fetched")}},
		{Record: work.Record{Stream: work.Stderr, Data: nil}},
	}
	if got := string(appendRaw(nil, lines)); got != "half line\xff\n\n" {
		t.Errorf("%q", got)
	}
}

func BenchmarkAppendLines(b *testing.B) {
	lines := make([]control.LogLine, 1000)
	for i := range lines {
		lines[i] = lineOf(bytes.Repeat([]byte("x"), 80))
	}
	var buffer []byte
	for b.Loop() {
		buffer = appendLines(buffer[:0], lines, nil)
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "lines/s")
}
