package work_test

import (
	"strings"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

func TestInstanceIsOfflineAfterAMinute(t *testing.T) {
	seen := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := work.Presence{Known: true, LastSeen: seen}
	for after, want := range map[time.Duration]work.InstanceState{
		0: work.InstanceOnline, 60 * time.Second: work.InstanceOnline, 60*time.Second + 1: work.InstanceOffline,
	} {
		if got := p.State(seen.Add(after)); got != want {
			t.Errorf("after %s: %s, not %s", after, got, want)
		}
	}
	if got := (work.Presence{}).State(seen); got != work.InstanceNew {
		t.Errorf("never connected: %s", got)
	}
}

func TestInstanceLoad(t *testing.T) {
	for want, p := range map[work.InstanceLoad]work.Presence{
		work.LoadIdle: {Capacity: 2, Stalled: true}, work.LoadBusy: {Active: 1, Capacity: 2},
		work.LoadSaturated: {Active: 2, Capacity: 2}, work.LoadStalled: {Active: 1, Capacity: 2, Stalled: true},
	} {
		if got := p.Load(); got != want {
			t.Errorf("%+v: %s, not %s", p, got, want)
		}
	}
}

func TestRunnerCondition(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	on := work.Presence{Name: "a", Known: true, LastSeen: now, Version: "1", OS: "linux"}
	drains, gone, apart := on, on, on
	apart.Apart = true
	drains.Name, drains.Draining, drains.Version = "b", true, "2"
	gone.Name, gone.LastSeen = "c", now.Add(-time.Hour)
	with := func(f work.Fleet, i ...work.Presence) work.Fleet { f.Instances = i; return f }
	ephemeral := work.Fleet{Lifetime: catalog.Ephemeral}
	for name, c := range map[string]struct {
		fleet  work.Fleet
		health work.RunnerHealth
		status work.RunnerStatus
		says   string
	}{
		"nobody yet":         {work.Fleet{}, work.RunnerOffline, work.StatusOffline, "no Instance has connected yet"},
		"one":                {with(work.Fleet{}, on), work.RunnerHealthy, work.StatusOnline, "1 Instance is online"},
		"two lost just now":  {with(work.Fleet{}, on, apart, apart), work.RunnerHealthy, work.StatusOnline, "3 Instances are online, 1 of 3 connected"},
		"one lost just now":  {with(work.Fleet{}, apart), work.RunnerHealthy, work.StatusOnline, "not connected at this moment"},
		"one is missing":     {with(work.Fleet{}, on, gone), work.RunnerDegraded, work.StatusOnline, "1 Instance is missing: c (since 2026-01-02 02:04:05 UTC)"},
		"all are missing":    {with(work.Fleet{}, gone), work.RunnerOffline, work.StatusOffline, "missing: c"},
		"ephemeral, one":     {with(ephemeral, on, gone), work.RunnerHealthy, work.StatusOnline, "1 Instance is online"},
		"ephemeral, none":    {with(ephemeral, gone), work.RunnerOffline, work.StatusOffline, "no Instance is left"},
		"one drains":         {with(work.Fleet{}, on, drains), work.RunnerHealthy, work.StatusOnline, "1 drains"},
		"all drain":          {with(work.Fleet{}, drains), work.RunnerHealthy, work.StatusDraining, "1 Instance drains"},
		"the Runner drains":  {with(work.Fleet{Draining: true}, drains), work.RunnerHealthy, work.StatusDraining, "the Runner drains"},
		"it is disabled":     {with(work.Fleet{Disabled: true}, on), work.RunnerHealthy, work.StatusDraining, "disabled"},
		"disabled, and gone": {with(work.Fleet{Disabled: true}, gone), work.RunnerOffline, work.StatusOffline, "missing"},
	} {
		got := c.fleet.Condition(now)
		if got.Health != c.health || got.Status != c.status || !strings.Contains(got.Reason, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if w := with(work.Fleet{OS: "windows"}, on, drains).Condition(now).Warnings; len(w) != 3 || !strings.Contains(w[0], "1, 2") {
		t.Errorf("warnings: %q", w)
	}
}

// TestScaledToZero tells a hosted Runner at rest, which is healthy, from one that is missed.
func TestScaledToZero(t *testing.T) {
	now := time.Now()
	ended := work.Presence{Name: "pool-1", Known: true, Left: true, LastSeen: now.Add(-time.Hour)}
	online := work.Presence{Name: "pool-2", Known: true, LastSeen: now}
	for name, c := range map[string]struct {
		fleet  work.Fleet
		status work.RunnerStatus
		health work.RunnerHealth
	}{
		"at rest":       {work.Fleet{AtRest: true, Lifetime: catalog.Ephemeral, Instances: []work.Presence{ended}}, work.StatusScaledToZero, work.RunnerHealthy},
		"never started": {work.Fleet{AtRest: true, Lifetime: catalog.Ephemeral}, work.StatusScaledToZero, work.RunnerHealthy},
		"one is wanted": {work.Fleet{Lifetime: catalog.Ephemeral, Instances: []work.Presence{ended}}, work.StatusOffline, work.RunnerOffline},
		"one is there":  {work.Fleet{AtRest: true, Lifetime: catalog.Ephemeral, Instances: []work.Presence{ended, online}}, work.StatusOnline, work.RunnerHealthy},
		"disabled":      {work.Fleet{AtRest: true, Disabled: true, Lifetime: catalog.Ephemeral}, work.StatusOffline, work.RunnerOffline},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.fleet.Condition(now)
			if got.Status != c.status || got.Health != c.health {
				t.Errorf("got %s and %s, want %s and %s", got.Status, got.Health, c.status, c.health)
			}
		})
	}
}
