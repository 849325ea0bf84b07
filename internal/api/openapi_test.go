package api

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestOpenAPIIsCurrent compares the committed description with the one that the program serves.
func TestOpenAPIIsCurrent(t *testing.T) {
	spec, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "docs", "openapi.json"), spec)
}

// golden compares with a committed file, or writes it with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is not current: run go test ./internal/api -update and look at what changed\ngot:\n%s", path, got[:min(len(got), 4000)])
	}
}
