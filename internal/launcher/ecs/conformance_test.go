package ecs

import (
	"context"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/launcher/launchertest"
)

func TestConformance(t *testing.T) {
	launchertest.Run(t, func(t *testing.T) *launchertest.Bench { return newCloud(t).bench() })
}

// open makes a launcher that does not wait long between two looks.
func (c *cloud) open(t *testing.T) launcher.Launcher {
	return &fargate{host: launcher.Host{Version: "1.2.3", Say: func(line string) { t.Log(line) }}, pause: time.Millisecond, patience: time.Minute,
		lookup: func(_ context.Context, host string) ([]string, error) {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}}
}

func (c *cloud) bench() *launchertest.Bench {
	return &launchertest.Bench{
		Open:     c.open,
		Hosting:  catalog.Hosting{Launcher: catalog.LaunchECS, Region: region},
		Identity: &catalog.CloudIdentitySpec{Name: "cloud", Provider: "aws", Endpoint: c.URL},
		Processes: func(*testing.T) []string {
			c.mu.Lock()
			defer c.mu.Unlock()
			names := []string{}
			for _, task := range c.tasks {
				if !task.ended() && task.last != "DEPROVISIONING" {
					names = append(names, task.tags[launcher.TagUnit])
				}
			}
			return names
		},
		Left: func(*testing.T) []string { return c.left() },
		End: func(_ *testing.T, unit string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.taskOf(unit).end("EssentialContainerExited", "Essential container in task exited", 0)
		},
		Environ: func(_ *testing.T, unit string) map[string]string {
			c.mu.Lock()
			defer c.mu.Unlock()
			return maps.Clone(c.taskOf(unit).env)
		},
		Break: func(n int, after bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.calls, c.breakAt, c.after, c.broke = 0, n, after, false
		},
		Broke: func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.broke
		},
	}
}

func (t *taskRow) end(code, reason string, exit int) {
	t.last, t.desired, t.stopCode, t.reason, t.exit = "STOPPED", "STOPPED", code, reason, &exit
}

// left names what the cloud holds, but for what it keeps of what was deleted.
func (c *cloud) left() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, row := range c.clusters {
		if row.status != "INACTIVE" {
			left = append(left, "cluster "+name)
		}
	}
	for _, d := range c.definitions {
		if d.status != "DELETE_IN_PROGRESS" {
			left = append(left, d.status+" "+d.arn())
		}
	}
	for name := range c.roles {
		left = append(left, "role "+name)
	}
	for name := range c.logs {
		left = append(left, "log group "+name)
	}
	for id := range c.groups {
		left = append(left, "security group "+id)
	}
	slices.Sort(left)
	return left
}
