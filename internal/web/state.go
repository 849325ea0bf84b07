package web

import (
	"legwork/internal/work"
)

// mood is how a state is shown: a word, a shape and a colour. No two states of one kind of thing share a shape.
type mood struct{ word, icon, tone string }

// jobMoods are the states of Jobs.
var jobMoods = map[work.Status]mood{
	work.Queued:           {"Queued", "ring", "calm"},
	work.Claimed:          {"Claimed", "half", "busy"},
	work.Running:          {"Running", "spin", "busy"},
	work.Waiting:          {"Waiting for other runners", "dashed", "calm"},
	work.AwaitingApproval: {"Needs approval", "pause", "ask"},
	work.Canceling:        {"Canceling", "stop", "warn"},
	work.Interrupted:      {"Interrupted", "warn", "warn"},
	work.Succeeded:        {"Succeeded", "check", "good"},
	work.Failed:           {"Failed", "cross", "bad"},
	work.Canceled:         {"Canceled", "slash", "calm"},
	work.Superseded:       {"Superseded", "up-circle", "calm"},
	work.Declined:         {"Declined", "minus", "calm"},
	work.Expired:          {"Expired", "clock", "calm"},
}

// instanceMoods are the states of Instances.
var instanceMoods = map[work.InstanceState]mood{
	work.InstanceNew:      {"New", "dashed", "calm"},
	work.InstanceOnline:   {"Online", "dot", "good"},
	work.InstanceDraining: {"Draining", "half", "warn"},
	work.InstanceOffline:  {"Offline", "cross", "bad"},
}

// runnerMoods are the statuses of Runners, in the words that programs know, too.
var runnerMoods = map[work.RunnerStatus]mood{
	work.StatusOnline:   {"ONLINE", "dot", "good"},
	work.StatusDraining: {"DRAINING", "half", "warn"},
	work.StatusOffline:  {"OFFLINE", "cross", "bad"},

	work.StatusScaledToZero: {"Scaled to zero", "dashed", "calm"},
}

// known gives how a state is shown, also one that this page does not know yet.
func known[S ~string](moods map[S]mood, state S) mood {
	if m, ok := moods[state]; ok {
		return m
	}
	return mood{string(state), "info", "calm"}
}

// activeWord returns the state of a job as the table Active Jobs shows it.
func activeWord(s work.Status) string {
	switch s {
	case work.Queued:
		return "QUEUED"
	case work.Claimed:
		return "CLAIMED"
	case work.AwaitingApproval:
		return "WAITING FOR APPROVAL"
	case work.Interrupted:
		return "INTERRUPTED"
	}
	return "PROCESSING"
}
