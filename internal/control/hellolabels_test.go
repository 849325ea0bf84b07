package control

import (
	"context"
	"maps"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// TestAnnouncedLabelsDoNotOverride covers runners that announce a label which their record, or their registration
// token, does not give them: the jobs for that label go to another runner.
func TestAnnouncedLabelsDoNotOverride(t *testing.T) {
	ctx := context.Background()
	zone := func(value string) map[string]string { return map[string]string{"zone": value} }
	registered := func(labels map[string]string) func(s *server) catalog.Runner {
		return func(s *server) catalog.Runner {
			const token = "0198c0de-0000-7000-8000-000000000001"
			by := catalog.Registrar{OrganizationID: s.org, ID: token, Name: "token", Labels: zone("a")}
			made, err := s.c.RegisterRunner(ctx, by, catalog.Registration{Name: "edge", Labels: labels}, Proof{})
			s.must(err)
			_, err = s.c.CreateAssignment(ctx, s.owner(), catalog.AssignmentSpec{Runner: "edge", Scope: "prod"})
			s.must(err)
			return made.Runner
		}
	}
	for _, c := range []struct {
		name string
		make func(s *server) catalog.Runner
		want map[string]string // labels of the instance in addition to those of the record
		runs bool              // a job for zone=prod
	}{
		{"a record with the label", func(s *server) catalog.Runner {
			return s.runner(s.owner(), catalog.RunnerSpec{Labels: zone("a")})
		}, map[string]string{"rack": "12"}, false},
		{"a record without the label", func(s *server) catalog.Runner {
			return s.runner(s.owner(), catalog.RunnerSpec{})
		}, map[string]string{"rack": "12", "zone": "prod"}, true},
		{"registered with a token that allows another value", registered(nil), nil, false},
		{"registered with the label that the token allows", registered(zone("a")), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newWorld(t).serve(Limits{})
			s.declare(s.owner(), `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: script}}
---
{kind: Module, stack: prod, namespace: net, name: m0, runner_labels: {zone: prod}, script: {run: 'true'}}
`)
			s.runner(s.owner(), catalog.RunnerSpec{Name: "trusted", Labels: zone("prod")}) // is away
			r := c.make(s)
			f := s.fake(r, "a")
			f.hello.Labels = map[string]string{"zone": "prod", "rack": "12"}
			f.online(s)
			views, err := s.c.Instances(ctx, s.owner(), r.ID)
			s.must(err)
			if got := views[0].Labels; !maps.Equal(got, c.want) {
				t.Errorf("labels of the instance: got %v, want %v", got, c.want)
			}
			list, err := s.c.Nodes(ctx, s.owner(), "prod", "")
			s.must(err)
			if got := strings.Contains(strings.Join(list.Nodes[0].Tags, " "), "zone=prod"); got != c.runs {
				t.Errorf("tags of the instance's host: got %v, want zone=prod: %v", list.Nodes[0].Tags, c.runs)
			}
			j := s.submit("prod/net/m0", work.Run)
			if c.runs {
				f.take()
				return
			}
			eventually(t, "the job waits for the trusted runner", func() bool {
				return s.job(j.ID).Wait.Code == work.WaitNoInstance
			})
			if m := expect[*wire.Notice](f); !m.Trouble || !strings.Contains(m.Text, "zone=prod") {
				t.Errorf("notice to the runner: got %+v, want zone=prod in it", m)
			}
		})
	}
}
