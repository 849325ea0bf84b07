package catalog

import (
	"context"
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
	WithMaxSearchYears(searchYears)

// maxPeriods bounds the search for a time: searchYears years with six periods each, and room to spare.
const maxPeriods = 10 * searchYears

// searchYears is how far the search for a time looks ahead: 29 February on a given day of the week.
const searchYears = 12

var errNever = errors.New("this date never occurs")

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

// NextRuns returns the next n times; see NextRun. It stops with the error of ctx when that ends.
func NextRuns(ctx context.Context, s Schedule, after time.Time, n int) ([]time.Time, error) {
	c, err := parseSchedule(s)
	if err != nil {
		return nil, err
	}
	times := make([]time.Time, 0, n)
	for range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
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
		return nil, fmt.Errorf("is not a valid cron expression%s; it %s", wrongField(text), wants)
	}
	fields, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New(wants)
	}
	fields.Location = time.UTC
	return fields, nil
}

// cronFields are the fields of a cron expression and the numbers that they take.
var cronFields = []struct{ name, numbers string }{
	{"minute", "0-59"}, {"hour", "0-23"}, {"day of month", "1-31"}, {"month", "1-12 or JAN-DEC"}, {"day of week", "0-7 or SUN-SAT"},
}

// wrongField returns a phrase about the first field of a cron expression that cannot be read, or "" when each field by itself can.
func wrongField(text string) string {
	fields := strings.Fields(strings.ToValidUTF8(text, "?"))
	if len(fields) != len(cronFields) {
		return ""
	}
	for i, field := range cronFields {
		alone := strings.Fields(strings.Repeat("* ", len(cronFields)))
		alone[i] = fields[i]
		if _, err := cronParser.Parse(strings.Join(alone, " ")); err != nil {
			return fmt.Sprintf(": %s cannot be read as the %s (%s, with *, lists, ranges and steps)", brief(fields[i]), field.name, field.numbers)
		}
	}
	return ""
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

// next steps from one change of the clock to the next: between two changes, local time is as regular as UTC.
func (c clock) next(after time.Time) (time.Time, error) {
	at := after.In(c.zone)
	found := c.fields.Next(onWall(at))
	for range maxPeriods {
		if found.IsZero() {
			return time.Time{}, errNever
		}
		begin, end := zonePeriod(at)
		if again := repeatedUntil(begin); !c.everyHour && found.Before(again) {
			found = c.fields.Next(again.Add(-time.Nanosecond)) // these times came before the clock was set back
			continue
		}
		if moment := found.Add(-offset(at)); end.IsZero() || moment.Before(end) {
			return moment, nil
		}
		resumed := onWall(end)
		if !c.everyHour && found.Before(resumed) {
			return end.UTC(), nil
		}
		at = end
		if c.everyHour { // the clock may show earlier hours again
			found = c.fields.Next(resumed.Add(-time.Nanosecond))
		}
	}
	return time.Time{}, errNever
}

// zonePeriod returns a period around t in which the offset from UTC does not change. A zero time means that it has no
// such bound.
//
// Beyond the changes that a zone's file lists, Time.ZoneBounds ends a period with the year at the latest. In leap years it
// ends it one day too early (Go 1.26, tzset in time/zoneinfo.go), that is before t when t is in the last day of such a year.
func zonePeriod(t time.Time) (begin, end time.Time) {
	begin, end = t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		end = t.Add(24 * time.Hour)
	}
	return begin, end
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
