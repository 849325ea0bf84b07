package ecs

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"legwork/internal/fault"
)

// cluster is where tasks are run.
func (s *session) cluster() string {
	if s.options.Cluster != "" {
		return s.options.Cluster
	}
	return s.base()
}

// clusters are where tasks of the Runner may be: where they are run now, and the one that was made for it.
func (s *session) clusters() []string {
	if s.cluster() == s.base() {
		return []string{s.base()}
	}
	return []string{s.cluster(), s.base()}
}

// findCluster gives a cluster that is active or becomes it, nil when there is none. A deleted one is still shown for a while, as INACTIVE.
func (s *session) findCluster(ctx context.Context, name string) (*types.Cluster, error) {
	found, err := s.ecs.DescribeClusters(ctx, &ecs.DescribeClustersInput{Clusters: []string{name}, Include: []types.ClusterField{types.ClusterFieldTags}})
	if err != nil {
		return nil, s.explain(err)
	}
	for _, c := range found.Clusters {
		if text(c.Status) != "INACTIVE" {
			return &c, nil
		}
	}
	return nil, nil
}

func tagsOf(tags []types.Tag) map[string]string {
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[text(t.Key)] = text(t.Value)
	}
	return m
}

func (s *session) ecsTags() []types.Tag {
	var tags []types.Tag
	for key, value := range s.tags {
		tags = append(tags, types.Tag{Key: &key, Value: &value})
	}
	return tags
}

func (s *session) ensureCluster(ctx context.Context) error {
	name := s.cluster()
	found, err := s.findCluster(ctx, name)
	switch {
	case err != nil:
		return err
	case s.options.Cluster != "" && found == nil:
		return fault.New(fault.Invalid, "launcher_cluster", "there is no cluster %s in %s, or it is inactive", name, s.region).
			WithHint("make it, correct hosting.ecs.cluster, or leave it out: then one is made")
	case s.options.Cluster == "" && found != nil && !s.ours(tagsOf(found.Tags)):
		return foreign("cluster", name)
	case found == nil:
		made, err := s.ecs.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &name, Tags: s.ecsTags(),
			CapacityProviders: []string{"FARGATE", "FARGATE_SPOT"}})
		if err != nil {
			return s.explain(err)
		}
		found = made.Cluster
	}
	if status := text(found.Status); status != "ACTIVE" {
		return clusterFault(name, status)
	}
	return nil
}

func clusterFault(name, status string) error {
	if status == "FAILED" {
		return fault.New(fault.Failed, "launcher_cluster", "the cluster %s could not be made: it is FAILED", name).WithHint("delete it and try again")
	}
	return fault.New(fault.Unavailable, "launcher_not_yet", "the cluster %s is %s", name, strings.ToLower(status))
}

func (s *session) removeCluster(ctx context.Context) error {
	name := s.base()
	found, err := s.findCluster(ctx, name)
	if err != nil || found == nil {
		return err
	}
	if !s.ours(tagsOf(found.Tags)) {
		s.host.Say(foreign("cluster", name).Error() + ", and stays")
		return nil
	}
	return s.until(ctx, func() (bool, error) {
		_, err := s.ecs.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: &name})
		if hasCode(err, "ClusterNotFoundException") {
			return false, nil
		}
		return hasCode(err, "ClusterContainsTasksException", "UpdateInProgressException"), s.explain(err)
	})
}
