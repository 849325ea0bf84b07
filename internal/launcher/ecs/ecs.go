// Package ecs launches Instances as tasks of AWS Fargate.
//
// For each Runner there are, as far as Hosting does not name some: a cluster, a role that pulls the image and writes the log, a role for
// the Jobs that may do nothing, a log group, a security group that lets nothing in, and the task definition; then one task for each Unit. Everything
// bears the tags of launcher.Tags and a name made of the Runner's name and a digest of Owner and Runner id. What does not bear the tags is
// neither used nor deleted. What a task is told, its bootstrap token with it, stands in the override of that one task alone and never in
// a definition; whoever may call ecs:DescribeTasks in the account can read it while the task is known, which is why a token is good once, and not for long.
//
// No call waits for what AWS makes true only later: it fails with a Retryable fault, and is made again. Stopping and removing wait,
// within bounds, until tasks and their network interfaces are gone.
//
// The rights that this takes are in deploy/aws/launcher-policy.json; a test holds them to what is really called.
//
// # What was tried
//
// All of it ran against a server of the tests that speaks AWS's protocols and holds state. None of it has run against AWS itself: what
// that server got wrong of AWS is wrong here, too.
package ecs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/work"
)

// New makes the launcher. It touches nothing.
func New(host launcher.Host) (launcher.Launcher, error) {
	return &fargate{host: host, pause: 3 * time.Second, patience: 6 * time.Minute, lookup: net.DefaultResolver.LookupHost}, nil
}

type fargate struct {
	host     launcher.Host
	pause    time.Duration // between two looks at what is ending
	patience time.Duration // in which it has to end; StopTask alone may take two minutes
	lookup   func(ctx context.Context, host string) ([]string, error)
}

// session is one call of a launcher: clients for one region, as one identity.
type session struct {
	*fargate
	task    *work.RunnerTask
	hosting catalog.Hosting // with every default
	options catalog.ECSHosting
	region  string
	tags    map[string]string

	ecs  *ecs.Client
	iam  *iam.Client
	logs *cloudwatchlogs.Client
	ec2  *ec2.Client
	sts  *sts.Client
}

// rolePath is where roles are, so that a policy can name them all.
const rolePath = "/legwork/"

// base names everything of a Runner: at most 49 of letters, digits and "-", so that a role's name has room for what follows.
func (s *session) base() string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, s.task.Runner)
	return "legwork-" + name[:min(len(name), 24)] + "-" + digest(s.task.Owner, s.task.RunnerID)[:16]
}

func (s *session) executionRole() string { return s.base() + "-exec" }
func (s *session) taskRole() string      { return s.base() + "-task" }
func (s *session) logGroup() string      { return "/legwork/" + s.base() }

// digest gives 64 letters that stand for some texts.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// ours tells whether tags are those of the Runner.
func (s *session) ours(tags map[string]string) bool {
	return tags[launcher.TagOwner] == s.tags[launcher.TagOwner] && tags[launcher.TagRunnerID] == s.tags[launcher.TagRunnerID]
}

// Ensure makes what is missing, and runs a task for each Unit that has none. A Unit whose task stopped, and is still known, gets no other
// one: its token may be used up.
func (f *fargate) Ensure(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	s, err := f.open(ctx, task)
	if err != nil {
		return nil, err
	}
	definition, err := s.shared(ctx)
	if err != nil || len(task.Units) == 0 {
		return nil, err
	}
	network, err := s.network(ctx)
	if err != nil {
		return nil, err
	}
	return s.launch(ctx, definition, network)
}

// shared has there be what the tasks share, and gives the ARN of their definition.
func (s *session) shared(ctx context.Context) (definition string, err error) {
	if err := s.ensureLogGroup(ctx); err != nil {
		return "", err
	}
	execution, err := s.ensureExecutionRole(ctx)
	if err != nil {
		return "", err
	}
	role, err := s.ensureTaskRole(ctx)
	if err != nil {
		return "", err
	}
	if err := s.ensureCluster(ctx); err != nil {
		return "", err
	}
	if len(s.task.Units) == 0 { // so that a deploy meets what is wrong before it launches
		if _, err := s.network(ctx); err != nil {
			return "", err
		}
	}
	return s.ensureDefinition(ctx, execution, role)
}

// List gives the tasks of the Runner, and those that stopped as long as ECS knows them, which is about an hour.
func (f *fargate) List(ctx context.Context, task *work.RunnerTask) ([]work.UnitReport, error) {
	s, err := f.open(ctx, task)
	if err != nil {
		return nil, err
	}
	found, err := s.tasks(ctx)
	if err != nil {
		return nil, err
	}
	reports := make([]work.UnitReport, 0, len(found))
	for _, t := range found {
		reports = append(reports, report(t))
	}
	return reports, nil
}

// Stop has the tasks of Units end, and waits until they did.
func (f *fargate) Stop(ctx context.Context, task *work.RunnerTask, names []string) error {
	if len(names) == 0 {
		return nil
	}
	s, err := f.open(ctx, task)
	if err != nil {
		return err
	}
	return s.stop(ctx, func(unit string) bool {
		for _, name := range names {
			if name == unit {
				return true
			}
		}
		return false
	})
}

// Remove ends all tasks and deletes everything that bears the tags of the Runner.
func (f *fargate) Remove(ctx context.Context, task *work.RunnerTask) error {
	s, err := f.open(ctx, task)
	if err != nil {
		return err
	}
	if err := s.stop(ctx, func(string) bool { return true }); err != nil {
		return err
	}
	for _, remove := range []func(context.Context) error{
		s.removeDefinitions, s.removeCluster, s.removeSecurityGroups, s.removeRoles, s.removeLogGroup,
	} {
		if err := remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

// until does something again while it says that it has to wait, and gives its last error when the patience is over.
func (s *session) until(ctx context.Context, do func() (wait bool, err error)) error {
	deadline := time.Now().Add(s.patience)
	for {
		wait, err := do()
		if !wait || time.Now().After(deadline) {
			return err
		}
		timer := time.NewTimer(s.pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func text(p *string) string { return aws.ToString(p) }
