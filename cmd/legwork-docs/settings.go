package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/boot"
)

// setting is the part of a JSON Schema that describes one key.
type setting struct {
	Type        string             `json:"type"`
	Description string             `json:"description"`
	Default     json.RawMessage    `json:"default"`
	Enum        []string           `json:"enum"`
	Properties  map[string]setting `json:"properties"`
}

const settingsPageHead = `.SH NAME
legwork\-settings \- settings of the Legwork server and of runners
.SH DESCRIPTION
Settings come from the defaults, the settings file, the environment and flags; each layer overrides the one before.
The settings file is JSON or YAML.
Keys match in any case, with or without underscores.
An unknown key is an error.
.PP
In the environment two underscores are one level: the key
.B tls_cert
of the server is
.BR LEGWORK_SERVER__TLS_CERT ,
the key
.B Runner.Capacity
of a runner is
.BR LEGWORK_RUNNER__CAPACITY .
On the command line,
.B \-\-set KEY=VALUE
sets one key.
`

const settingsPageEnd = `.SH SEE ALSO
.BR legwork\-server (1),
.BR legwork\-runner\-start (1),
.BR legwork\-schema (1)
`

// writeSettingsPage writes legwork-settings(5) from the JSON Schemas of the settings.
func writeSettingsPage(root *cobra.Command, folder string) error {
	var page strings.Builder
	fmt.Fprintf(&page, ".TH \"LEGWORK\\-SETTINGS\" \"5\" \"%s\" \"Legwork %s\" \"Legwork manual\"\n", pageDate(), roff(root.Version))
	page.WriteString(settingsPageHead)
	for _, program := range []struct {
		title  string
		schema func() ([]byte, error)
	}{{"SERVER", boot.ServerSchema}, {"RUNNER", boot.RunnerSchema}} {
		text, err := program.schema()
		if err != nil {
			return err
		}
		var schema setting
		if err := json.Unmarshal(text, &schema); err != nil {
			return fmt.Errorf("read the schema of the settings: %w", err)
		}
		page.WriteString(".SH " + program.title + "\n")
		writeSettings(&page, "", schema.Properties)
	}
	page.WriteString(settingsPageEnd)
	folder = filepath.Join(folder, "man", "man5")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create the folder of the manual pages: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "legwork-settings.5"), []byte(page.String()), 0o644); err != nil {
		return fmt.Errorf("write legwork-settings(5): %w", err)
	}
	return nil
}

// writeSettings writes a paragraph for each key. Objects are written as the keys that they hold.
func writeSettings(page *strings.Builder, prefix string, settings map[string]setting) {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		s := settings[key]
		if len(s.Properties) > 0 {
			writeSettings(page, prefix+key+".", s.Properties)
			continue
		}
		fmt.Fprintf(page, ".TP\n\\fB%s\\fR (%s)\n%s\n", roff(prefix+key), roff(s.values()), roff(s.Description))
	}
}

// values describes which values a setting takes, and its default.
func (s setting) values() string {
	text := s.Type
	if len(s.Enum) > 0 {
		text = strings.Join(s.Enum, ", ")
	}
	if len(s.Default) > 0 {
		text += "; default: " + string(s.Default)
	}
	return text
}

// roff escapes text for a manual page.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// pageDate returns the month of SOURCE_DATE_EPOCH, as cobra writes it on the other pages, or of today.
func pageDate() string {
	at := time.Now()
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		at = time.Unix(seconds, 0)
	}
	return at.UTC().Format("Jan 2006")
}
