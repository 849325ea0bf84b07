package apitest

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"legwork/internal/work"
)

// Unknown is the exit status of what nobody knows the end of.
const Unknown = -2

// Doing does an Item, by its index, on a Node: it gives what is printed and the exit status.
type Doing func(spec *work.RunSpec, item int, node string) (lines []string, exit int)

// OnNodes is a Behavior that goes through Rounds: every Node does one Item after the other, until one fails. What is done once per Runner is done
// on a Node without a name.
func OnNodes(do Doing) Behavior {
	return func(s *StepRun) work.StepResult {
		if s.Round == nil {
			return work.StepResult{}
		}
		result := work.RoundResult{}
		nodes := s.Round.Nodes
		if nodes == nil {
			nodes = []int{-1}
		}
		for _, n := range nodes {
			if s.through(n, do) {
				result.Succeeded++
			} else {
				result.Bad = append(result.Bad, n)
			}
		}
		return work.StepResult{Round: &result}
	}
}

// through has a Node go through the Items of a Round.
func (s *StepRun) through(n int, do Doing) bool {
	for item := s.Round.First; item < s.Round.End; item++ {
		begun := time.Now()
		lines, exit := do(s.Spec.Run, item, s.Spec.Run.Nodes[n].Name)
		records := []work.Record{}
		for _, line := range lines {
			records = append(records, work.Record{Stream: work.Stdout, Data: []byte(line), Node: n + 1, Item: item + 1})
		}
		e := work.NodeEvent{Node: n, Item: item, Status: work.NodeSucceeded, Started: begun, Finished: time.Now(), Tries: 1}
		if exit != 0 {
			e.Status, e.ExitCode, e.Failure = work.NodeFailed, exit, &work.Failure{Code: "command_failed", Message: "it did not like it"}
		}
		if exit == Unknown {
			e.Status, e.ExitCode, e.Failure = work.NodeUnknown, -1, &work.Failure{Code: "outcome_unknown", Message: "nobody knows how it ended"}
		}
		data, err := json.Marshal(e)
		s.runner.world.Must(err)
		s.ship(append(records, work.Record{Stream: work.Progress, Data: data, Node: n + 1, Item: item + 1})...)
		if exit != 0 {
			return false
		}
	}
	return true
}

// NodeNames gives the names of the Nodes of a Part.
func NodeNames(spec *work.RunSpec) []string {
	var names []string
	for _, i := range slices.Sorted(maps.Keys(spec.Nodes)) {
		names = append(names, spec.Nodes[i].Name)
	}
	return names
}

// Webs is a manifest with three Nodes of the Stack prod, tagged web and covered by the Runner edge, and one that nobody covers.
const Webs = `
{kind: Stack, name: prod}
---
{kind: Node, stack: prod, name: web-1, address: 10.0.0.1, tags: [web]}
---
{kind: Node, stack: prod, name: web-2, address: 10.0.0.2, tags: [web]}
---
{kind: Node, stack: prod, name: web-3, address: 10.0.0.3, tags: [web]}
---
{kind: Node, stack: prod, name: db-1, address: 10.0.0.9, tags: [db]}
---
{kind: Runner, name: edge, is_assigned_to_all_modules: true, node_filters: {prod: "tags: web"}}
`
