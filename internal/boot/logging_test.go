package boot

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/runner"
)

func TestLevelOfACategory(t *testing.T) {
	l := LoggingSettings{LogLevel: map[string]LogLevel{
		"default": "Error", "Legwork": "Warning", "legwork.runner": "Information", "Legwork.Runner.Job": "Trace", "Legwork.Runner.Jo": "None", "Microsoft.AspNetCore": "None"}}
	for category, want := range map[string]slog.Level{
		"": slog.LevelError, "Other": slog.LevelError, "Microsoft": slog.LevelError,
		"Legwork": slog.LevelWarn, "Legwork.Settings": slog.LevelWarn, "LegworkX": slog.LevelError,
		runner.CategoryRunner: slog.LevelInfo, runner.CategorySession: slog.LevelInfo, runner.CategoryJob: slog.LevelDebug - 4,
	} {
		if got := l.Level(category); got != want {
			t.Errorf("%q: got %v, want %v", category, got, want)
		}
	}
	if got := (LoggingSettings{}).Level("any"); got != slog.LevelInfo {
		t.Errorf("nothing set: got %v", got)
	}
}

func TestLogByCategory(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		settings := LoggingSettings{LogLevel: map[string]LogLevel{"Default": "Warning", "Legwork.Runner": "Debug", "Legwork.Runner.Session": "None"}}
		log := newLog(&out, format, settings.Level)
		log.Info("no")
		log.With(categoryKey, runner.CategorySession).Error("no")
		log.With(categoryKey, runner.CategoryJob).WithGroup("g").Debug("yes", "a", 1)
		log.With(categoryKey, runner.CategoryJob, "x", "y").With("z", 1).Debug("yes")
		log.Warn("yes")
		lines := slices.Collect(strings.Lines(out.String()))
		if len(lines) != 3 || strings.Contains(out.String(), "no") || strings.Count(out.String(), runner.CategoryJob) != 2 {
			t.Errorf("%s: got\n%s", format, out.String())
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[0]), &line); (err == nil) != (format == "json") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func TestCategoriesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/SETTINGS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, category := range []string{runner.CategoryRunner, runner.CategorySession, runner.CategoryJob, runner.CategoryKeeper,
		runner.CategoryCleanup, categorySettings, categoryListener} {
		if !bytes.Contains(text, []byte("| `"+category+"` |")) {
			t.Errorf("docs/SETTINGS.md does not name the category %s", category)
		}
	}
}

// TestJSONIsForPrograms and people: durations as text, and nothing that is nil.
func TestJSONIsForPrograms(t *testing.T) {
	var out bytes.Buffer
	log := newLog(&out, "json", func(string) slog.Level { return slog.LevelInfo })
	log.Info("x", "next_try", 1500*time.Millisecond, "cause", errors.Unwrap(errors.New("y")), "error", errors.New("z"))
	if text := out.String(); !strings.Contains(text, `"next_try":"1.5s"`) || strings.Contains(text, "cause") || !strings.Contains(text, `"error":"z"`) {
		t.Error(text)
	}
}
