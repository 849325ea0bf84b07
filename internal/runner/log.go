package runner

import "log/slog"

// CategoryKey is the attribute of every line of the Runner's log that says which part of it speaks.
const CategoryKey = "category"

// The categories of the Runner's log. Each is a dotted name below the first.
const (
	CategoryRunner  = "Legwork.Runner"              // start and end, draining, approval
	CategorySession = "Legwork.Runner.Session"      // the connection to the Server
	CategoryJob     = "Legwork.Runner.Job"          // Jobs and their Steps
	CategoryKeeper  = "Legwork.Runner.Keeper"       // the keeper and the way to it
	CategoryCleanup = "Legwork.Runner.Housekeeping" // what is removed from the working directory
)

// loggers are the Runner's logger and those of its parts.
type loggers struct {
	log, sessionLog, jobLog, keeperLog, cleanupLog *slog.Logger
}

func newLoggers(base *slog.Logger) loggers {
	of := func(category string) *slog.Logger { return base.With(CategoryKey, category) }
	return loggers{of(CategoryRunner), of(CategorySession), of(CategoryJob), of(CategoryKeeper), of(CategoryCleanup)}
}
