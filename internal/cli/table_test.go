package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1234 * time.Millisecond: "1.2s", 12 * time.Second: "12s", 59600 * time.Millisecond: "60s",
		125 * time.Second: "2m5s", 90 * time.Minute: "1h30m", 49 * time.Hour: "2d",
	} {
		if got := took(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestTableIsCleanAndAligned(t *testing.T) {
	var b bytes.Buffer
	table := &table{head: []string{"A", "B"}}
	table.add("x\x1b[2J\ny", "1")
	table.add("üüü", "2")
	if err := table.write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "A       B\nx[2J y  1\nüüü     2\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// TestYAMLSaysWhatJSONSays with values that YAML would take for something else.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	v := struct {
		Z string         `json:"z"`
		A []any          `json:"a"`
		M map[string]any `json:"m"`
		N json.Number    `json:"n"`
	}{"yes", []any{"no", "1", 1, true, nil, "", "a: b", "two\nlines\n", "- x", "2026-01-02", "0x10", "~"}, map[string]any{"on": "off"}, "12345678901234567890"}
	var asYAML, asJSON bytes.Buffer
	if err := writeYAML(&asYAML, v); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(&asJSON, v); err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := yaml.Unmarshal(asYAML.Bytes(), &a); err != nil {
		t.Fatalf("%v in\n%s", err, asYAML.String())
	}
	if err := yaml.Unmarshal(asJSON.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%#v\n%#v\n%s", a, b, asYAML.String())
	}
	if !bytes.HasPrefix(asYAML.Bytes(), []byte("z: ")) {
		t.Errorf("the keys are in another order:\n%s", asYAML.String())
	}
}
