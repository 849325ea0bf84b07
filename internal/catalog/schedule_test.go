package catalog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
)

// changes of the clock in 2026. At Lord Howe it is set by half an hour.
var clockChanges = []struct {
	zone, from, cron string
	want             string // day and time on the wall, with the offset where it matters
}{
	{"Europe/Berlin", "2026-03-28 12:00", "30 2 * * *", "29 03:00+02 30 02:30+02 31 02:30+02"},
	{"Europe/Berlin", "2026-03-29 00:30", "0 * * * *", "29 01:00+01 29 03:00+02 29 04:00+02"},
	{"Europe/Berlin", "2026-03-29 01:20", "*/15 * * * *", "29 01:30+01 29 01:45+01 29 03:00+02 29 03:15+02"},
	{"Europe/Berlin", "2026-03-28 12:00", "15,45 2-3 * * *", "29 03:00+02 29 03:15+02 29 03:45+02 30 02:15+02"},
	{"Europe/Berlin", "2026-03-28 12:00", "0 2,3 * * *", "29 03:00+02 30 02:00+02 30 03:00+02"},
	{"Europe/Berlin", "2026-10-24 12:00", "30 2 * * *", "25 02:30+02 26 02:30+01"},
	{"Europe/Berlin", "2026-10-25 00:30", "0 * * * *", "25 01:00+02 25 02:00+02 25 02:00+01 25 03:00+01"},
	{"Europe/Berlin", "2026-10-25 01:40", "*/15 * * * *", "25 01:45+02 25 02:00+02 25 02:15+02 25 02:30+02 25 02:45+02 25 02:00+01 25 02:15+01"},
	{"Europe/Berlin", "2026-10-24 12:00", "15,45 2-3 * * *", "25 02:15+02 25 02:45+02 25 03:15+01 25 03:45+01 26 02:15+01"},

	{"America/New_York", "2026-03-07 12:00", "30 2 * * *", "08 03:00-04 09 02:30-04"},
	{"America/New_York", "2026-03-08 00:30", "0 * * * *", "08 01:00-05 08 03:00-04 08 04:00-04"},
	{"America/New_York", "2026-03-08 01:40", "*/15 * * * *", "08 01:45-05 08 03:00-04 08 03:15-04"},
	{"America/New_York", "2026-10-31 12:00", "30 2 * * *", "01 02:30-05 02 02:30-05"},
	{"America/New_York", "2026-10-31 12:00", "30 1 * * *", "01 01:30-04 02 01:30-05"},
	{"America/New_York", "2026-11-01 00:30", "0 * * * *", "01 01:00-04 01 01:00-05 01 02:00-05"},
	{"America/New_York", "2026-11-01 01:40", "*/15 * * * *", "01 01:45-04 01 01:00-05 01 01:15-05"},

	{"Australia/Lord_Howe", "2026-10-03 12:00", "30 2 * * *", "04 02:30+11 05 02:30+11"},
	{"Australia/Lord_Howe", "2026-10-03 12:00", "0 2 * * *", "04 02:30+11 05 02:00+11"},
	{"Australia/Lord_Howe", "2026-10-03 12:00", "30 1 * * *", "04 01:30+1030 05 01:30+11"},
	{"Australia/Lord_Howe", "2026-10-04 00:30", "0 0 * * *", "05 00:00+11 06 00:00+11"},
	{"Australia/Lord_Howe", "2026-10-04 00:30", "0 * * * *", "04 01:00+1030 04 03:00+11 04 04:00+11"},
	{"Australia/Lord_Howe", "2026-10-04 01:40", "*/15 * * * *", "04 01:45+1030 04 02:30+11 04 02:45+11"},
	{"Australia/Lord_Howe", "2026-04-04 12:00", "30 2 * * *", "05 02:30+1030 06 02:30+1030"},
	{"Australia/Lord_Howe", "2026-04-04 12:00", "30 1 * * *", "05 01:30+11 06 01:30+1030"},
	{"Australia/Lord_Howe", "2026-04-04 12:00", "0 2 * * *", "05 02:00+1030 06 02:00+1030"},
	{"Australia/Lord_Howe", "2026-04-05 00:30", "0 * * * *", "05 01:00+11 05 02:00+1030 05 03:00+1030"},
	{"Australia/Lord_Howe", "2026-04-05 01:20", "*/15 * * * *", "05 01:30+11 05 01:45+11 05 01:30+1030 05 01:45+1030 05 02:00+1030"},

	{"", "2026-03-29 00:30", "30 2 * * *", "29 02:30+00 30 02:30+00"},
	{"Asia/Kolkata", "2026-03-29 00:30", "@daily", "30 00:00+0530 31 00:00+0530"},
	{"UTC", "2026-02-01 00:00", "0 0 13 * FRI", "06 00:00+00 13 00:00+00 20 00:00+00 27 00:00+00 06 00:00+00 13 00:00+00"},
	{"UTC", "2097-03-01 00:00", "0 0 29 2 *", "29 00:00+00"}, // 2100 is no leap year
}

func TestSchedulesAreRightWhenTheClockIsSet(t *testing.T) {
	for _, c := range clockChanges {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.ParseInLocation("2006-01-02 15:04", c.from, zone)
		if err != nil {
			t.Fatal(err)
		}
		s := catalog.Schedule{Cron: c.cron, TimeZone: c.zone}
		n := len(strings.Fields(c.want)) / 2
		times, err := catalog.NextRuns(t.Context(), s, from.UTC(), n)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		after := from
		for _, at := range times {
			if !at.After(after) {
				t.Errorf("%s in %s: %s is not after %s", c.cron, c.zone, at, after)
			}
			one, err := catalog.NextRun(s, after.Add(at.Sub(after)/2))
			if err != nil || !one.Equal(at) {
				t.Errorf("%s in %s: halfway to %s it is %s (%v)", c.cron, c.zone, at, one, err)
			}
			after = at
			got = append(got, at.In(zone).Format("02 15:04Z07"))
			if _, offset := at.In(zone).Zone(); offset%3600 != 0 {
				got[len(got)-1] = at.In(zone).Format("02 15:04-0700")
			}
		}
		if text := strings.ReplaceAll(strings.Join(got, " "), "Z", "+00"); text != c.want {
			t.Errorf("%s in %s from %s:\n got %s\nwant %s", c.cron, c.zone, c.from, text, c.want)
		}
	}
}

// TestNoDayIsLeftOut: a daily schedule runs once on every day, whatever the clock does, and an hourly one 8766 times a year.
func TestNoDayIsLeftOut(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Gaza"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"30 2 * * *", "0 0 * * *", "59 1 * * *", "30 23 * * *"} {
			from := time.Date(2017, 12, 31, 12, 0, 0, 0, zone)
			times, err := catalog.NextRuns(t.Context(), catalog.Schedule{Cron: text, TimeZone: name}, from, 1200)
			if err != nil {
				t.Fatal(err)
			}
			day := time.Date(2017, 12, 31, 0, 0, 0, 0, time.UTC)
			if text == "30 23 * * *" {
				day = day.AddDate(0, 0, -1)
			}
			for _, at := range times {
				if day = day.AddDate(0, 0, 1); at.In(zone).Format(time.DateOnly) != day.Format(time.DateOnly) {
					t.Fatalf("%s in %s: %s, not on %s", text, name, at.In(zone), day.Format(time.DateOnly))
				}
			}
		}
	}
}

// TestRareSchedulesAreFound searches across the ends of leap years after 2037, where the zone files hold a rule instead of a
// list of changes and Time.ZoneBounds ends a period before the time it was asked for.
func TestRareSchedulesAreFound(t *testing.T) {
	zones := []string{"UTC", "Asia/Kolkata", "America/New_York", "America/Los_Angeles", "Europe/Berlin", "Europe/London",
		"Australia/Sydney", "Australia/Lord_Howe", "Pacific/Auckland", "Africa/Casablanca"}
	crons := map[string]func(i int) (year int, month time.Month, day int){
		"0 9 29 2 *":  func(i int) (int, time.Month, int) { return leapYear(i), time.February, 29 },
		"0 9 1 1 *":   func(i int) (int, time.Month, int) { return 2027 + i, time.January, 1 },
		"0 9 31 12 *": func(i int) (int, time.Month, int) { return 2026 + i, time.December, 31 },
	}
	from := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, name := range zones {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for text, day := range crons {
			times, err := catalog.NextRuns(t.Context(), catalog.Schedule{Cron: text, TimeZone: name}, from, 100)
			if err != nil {
				t.Fatalf("%s in %s: %v", text, name, err)
			}
			for i, got := range times {
				year, month, date := day(i)
				if want := time.Date(year, month, date, 9, 0, 0, 0, zone); !got.Equal(want) {
					t.Fatalf("%s in %s, run %d: got %s, want %s", text, name, i, got.In(zone), want)
				}
			}
		}
	}
}

// leapYear returns the leap years from 2028 on.
func leapYear(i int) int {
	year := 2028 + 4*i
	for _, common := range []int{2100, 2200, 2300, 2500} {
		if year >= common {
			year += 4
		}
	}
	return year
}

func TestNextRunsEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := catalog.NextRuns(ctx, catalog.Schedule{Cron: "@yearly"}, time.Now(), 100)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func TestSchedulesThatCannotBe(t *testing.T) {
	for want, s := range map[string]catalog.Schedule{
		"is missing":                               {},
		"wants five fields (minute":                {Cron: "@every 1h"},
		"wants five fields (minute, h":             {Cron: "TZ=Europe/Berlin 0 0 * * *"},
		"is not a valid cron expression; it wants": {Cron: "0 0 * *"},
		"is not a valid cron expression; it ":      {Cron: "* * * * * *"},
		`"61" cannot be read as the minute (0-59`:  {Cron: "61 0 * * *"},
		`"L" cannot be read as the day of month`:   {Cron: "0 0 L * *"},
		"expression; it wants five fields":         {Cron: "@reboot"},
		"this date never occurs":                   {Cron: "0 0 30 2 *"},
		"there is no time zone \"Mars\"":           {Cron: "@daily", TimeZone: "Mars"},
		"there is no time zone \"Local":            {Cron: "@daily", TimeZone: "Local"},
		"there is no time zone \"../":              {Cron: "@daily", TimeZone: "../etc/passwd"},
	} {
		if _, err := catalog.NextRun(s, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
		r := validRunbook()
		r.Schedules = []catalog.Schedule{s}
		if got := details(r.Validate()); !strings.Contains(got, strings.TrimSpace(want)) {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
	times, err := catalog.NextRuns(t.Context(), catalog.Schedule{Cron: "@yearly"}, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), 2)
	if err != nil || !slices.Equal(times, []time.Time{time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)}) {
		t.Errorf("%v %v", times, err)
	}
}
