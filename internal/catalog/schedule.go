package catalog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// maxZone is the length of the name of a time zone.
const maxZone = 64

// cronParser reads five fields, or @daily and the like, as crontab does: where both the day of the month and that of the week are
// given, either is enough.
var cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom).
	WithMaxSearchYears(12) // 29 February on a given day of the week

var errNever = errors.New("never comes")

// NextRun gives the first time after another at which a Schedule runs its Runbook. An error says what is wrong with its cron
// expression or its time zone, which RunbookSpec.Validate finds, too.
//
// Times are those of the clock on the wall in the time zone. Where that is set forward, a time that it leaps over counts as the
// moment after the leap; several such times are one run. Where it is set back, a time that comes twice counts the first time.
// A Schedule of every hour of the day is the exception: it goes by what the clock shows, at each of two same hours and never
// at one that is left out.
func NextRun(s Schedule, after time.Time) (time.Time, error) {
	c, err := parseSchedule(s)
	if err != nil {
		return time.Time{}, err
	}
	return c.next(after)
}

// NextRuns gives the next n times; see NextRun.
func NextRuns(s Schedule, after time.Time, n int) ([]time.Time, error) {
	c, err := parseSchedule(s)
	if err != nil {
		return nil, err
	}
	times := make([]time.Time, 0, n)
	for range n {
		if after, err = c.next(after); err != nil {
			return nil, err
		}
		times = append(times, after)
	}
	return times, nil
}

// clock is a Schedule that was read. The library that reads cron expressions is asked for times in UTC alone: at changes of the
// clock it leaves days out and counts times twice.
type clock struct {
	fields    *cron.SpecSchedule
	zone      *time.Location
	everyHour bool
}

func parseSchedule(s Schedule) (clock, error) {
	fields, err := parseCron(s.Cron)
	if err != nil {
		return clock{}, err
	}
	zone, err := parseZone(s.TimeZone)
	const allHours = 1<<24 - 1
	return clock{fields, zone, fields.Hour&allHours == allHours}, err
}

func parseCron(text string) (*cron.SpecSchedule, error) {
	const wants = "wants five fields (minute, hour, day of month, month, day of week), or @hourly, @daily, @weekly, @monthly or @yearly"
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("is missing: it " + wants)
	case len(text) > 200 || strings.Contains(text, "=") || strings.HasPrefix(strings.TrimSpace(text), "@every"):
		return nil, errors.New(wants)
	}
	parsed, err := cronParser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("is no cron expression: %s; it %s", strings.ToValidUTF8(err.Error(), "?"), wants)
	}
	fields, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New(wants)
	}
	fields.Location = time.UTC
	return fields, nil
}

func parseZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" || len(name) > maxZone {
		return nil, fmt.Errorf("there is no time zone %s: it wants a name such as Europe/Berlin or UTC", brief(name))
	}
	return zone, nil
}

// next goes from one change of the clock to the next: in between, the clock on the wall is as good as UTC.
func (c clock) next(after time.Time) (time.Time, error) {
	at := after.In(c.zone)
	wall := onWall(at)
	for {
		found := c.fields.Next(wall)
		if found.IsZero() {
			return time.Time{}, errNever
		}
		begin, end := at.ZoneBounds()
		if again := repeatedUntil(begin); !c.everyHour && found.Before(again) {
			wall = again.Add(-time.Nanosecond) // these times came before the clock was set back
			continue
		}
		if moment := found.Add(-offset(at)); end.IsZero() || moment.Before(end) {
			return moment, nil
		}
		after := onWall(end)
		if !c.everyHour && found.Before(after) {
			return end.UTC(), nil
		}
		at, wall = end, after.Add(-time.Nanosecond)
	}
}

// onWall gives what the clock shows, as if it were UTC.
func onWall(t time.Time) time.Time { return t.UTC().Add(offset(t)) }

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// repeatedUntil gives until when, on the wall, the clock shows times that it has shown before, after it was set at begin. Where
// it was not set back that is begin itself, or before.
func repeatedUntil(begin time.Time) time.Time {
	if begin.IsZero() {
		return time.Time{}
	}
	return begin.UTC().Add(offset(begin.Add(-time.Nanosecond)))
}
