package boot

import (
	"context"
	"io"
	"log/slog"
	"time"

	"legwork/internal/runner"
)

// categoryKey is the attribute of a logger that says which part of the program speaks. A logger
// without one is of the category Default.
const categoryKey = runner.CategoryKey

// Categories of the Runner's log that are not of package runner.
const (
	categorySettings = "Legwork.Settings" // references to external settings
	categoryListener = "Legwork.Listener" // the Runner's own listener
)

// newLog makes the program's own log: lines of text or JSON, with the least level that level gives for
// a category.
func newLog(w io.Writer, format string, level func(category string) slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug - 4, ReplaceAttr: readable}
	var lines slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		lines = slog.NewJSONHandler(w, options)
	}
	return slog.New(&categories{lines, level, level("")})
}

// readable writes durations as people do, in JSON, too, and leaves out what is nil.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case time.Duration:
		return slog.String(a.Key, v.String())
	case nil:
		return slog.Attr{}
	}
	return a
}

// categories drops what is below the least level of its category.
type categories struct {
	slog.Handler
	level func(category string) slog.Level
	least slog.Level
}

// Enabled tells whether a line of this level is written.
func (c *categories) Enabled(_ context.Context, l slog.Level) bool { return l >= c.least }

// WithAttrs takes the level of the category that is among the attributes, if one is.
func (c *categories) WithAttrs(attrs []slog.Attr) slog.Handler {
	least := c.least
	for _, a := range attrs {
		if a.Key == categoryKey {
			least = c.level(a.Value.String())
		}
	}
	return &categories{c.Handler.WithAttrs(attrs), c.level, least}
}

// WithGroup opens a group.
func (c *categories) WithGroup(name string) slog.Handler {
	return &categories{c.Handler.WithGroup(name), c.level, c.least}
}
