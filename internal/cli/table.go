package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"legwork/internal/fault"
)

// format is how a listing is written.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
	asYAML  format = "yaml"
)

// Set, String and Type make a format the value of a flag.
func (f *format) Set(text string) error {
	switch format(text) {
	case asTable, asJSON, asYAML:
		*f = format(text)
		return nil
	}
	return fmt.Errorf("want table, json or yaml")
}
func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "format" }

// formatOf is the value of a flag that takes some formats only.
type formatOf struct {
	*format
	allowed []format
}

// Set takes one of the allowed formats.
func (f formatOf) Set(text string) error {
	if !slices.Contains(f.allowed, format(text)) {
		return fmt.Errorf("want %s", join(f.allowed, " or "))
	}
	*f.format = format(text)
	return nil
}

// join writes words one after the other.
func join[T ~string](words []T, between string) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, between)
}

// withFormat gives a command the flag -o.
func (a *app) withFormat(cmd *cobra.Command) *cobra.Command {
	a.format = asTable
	cmd.Flags().VarP(&a.format, "output", "o", "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// show writes v as it is asked for.
func (a *app) show(v any, tabular func() *table) error {
	switch a.format {
	case asJSON:
		return writeJSON(a.Out, v)
	case asYAML:
		return writeYAML(a.Out, v)
	}
	return tabular().write(a.Out)
}

func writeJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(plainJSON(text), '\n'))
	return err
}

// writeYAML writes what writeJSON would, as YAML: the same keys in the same order.
func writeYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fault.New(fault.Internal, "output", "the answer cannot be written").WithCause(err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return fault.New(fault.Internal, "output", "the answer cannot be written as YAML").WithCause(err)
	}
	inBlocks(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&node); err != nil {
		return err
	}
	return e.Close()
}

// inBlocks takes the braces and needless quotes of JSON out.
func inBlocks(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.Style = 0
		if strings.Contains(n.Value, "\n") {
			n.Style = yaml.LiteralStyle
		}
	} else if len(n.Content) > 0 {
		n.Style = 0
	}
	for _, child := range n.Content {
		inBlocks(child)
	}
}

// table is rows of text under headings. Without headings it is a list of names and values.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) error {
	rows := t.rows
	if t.head != nil {
		rows = append([][]string{t.head}, rows...)
	}
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			row[i] = clean(cell)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b bytes.Buffer
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// since says how long ago something was, roughly.
func since(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	if now.Sub(t) > maxRelative {
		return t.UTC().Format(time.DateOnly)
	}
	return took(now.Sub(t)) + " ago"
}

// maxRelative is the longest time that is shown relative to now. A time.Duration cannot hold more than 292 years.
const maxRelative = 100 * 365 * 24 * time.Hour

// until returns how long it is until a moment, roughly, or the date of a moment that is far away.
func until(t, now time.Time) string {
	if t.Sub(now) > maxRelative {
		return "on " + t.UTC().Format(time.DateOnly)
	}
	return "in " + took(t.Sub(now))
}

// took writes a duration for a person.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
