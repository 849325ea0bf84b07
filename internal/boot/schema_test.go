package boot

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing them")

//go:generate go test . -run ^TestCommittedSchemas$ -update

func TestCommittedSchemas(t *testing.T) {
	for name, schema := range map[string]func() ([]byte, error){"runner": RunnerSchema, "server": ServerSchema} {
		want, err := schema()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("..", "..", "docs", "schema", name+".json")
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the settings of the %s say (%v): run `make generate`", path, name, err)
		}
	}
}

func TestEverySettingIsDescribed(t *testing.T) {
	for name, schema := range map[string]func() ([]byte, error){"runner": RunnerSchema, "server": ServerSchema} {
		text, err := schema()
		if err != nil {
			t.Fatal(err)
		}
		var decoded map[string]any
		if err := json.Unmarshal(text, &decoded); err != nil {
			t.Fatal(err)
		}
		if decoded["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: draft is %v", name, decoded["$schema"])
		}
		describeds(t, name, decoded)
	}
}

func describeds(t *testing.T, at string, schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for key, value := range properties {
		sub := value.(map[string]any)
		if text, _ := sub["description"].(string); len(text) < 10 || text[len(text)-1] != '.' {
			t.Errorf("%s.%s has no description that is a sentence: %q", at, key, text)
		}
		describeds(t, at+"."+key, sub)
	}
}
