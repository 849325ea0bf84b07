// Package nodes performs one Round of a Part: the Items of a Runbook over the Nodes of one Runner.
//
// It runs in a process of its own that a keeper started (see Executor.Main), so that the death of the Runner takes nothing with
// it, and it bears its own death: a journal beside the Round's file says what was begun and what is over. Started anew it
// goes on behind that. What was begun and is not over is done again where the Item is repeatable; elsewhere nobody
// knows how it ended, and the Node drops out.
//
//	File        what the Runner tells: the Items, the Nodes, the folders; no secret
//	round       the scheduler: which Node does which Item when
//	pair        one Item on one Node: condition, tries, error handler, values
//	journal     which pairs were begun and how they ended
//	output      what is printed, masked, as frames for the log; NodeEvents among it
//	Transport   how commands reach a Node: over SSH, or on this host
//	Playbook    who performs Ansible Items
//
// Files beside FILE, the one with the Round:
//
//	FILE.journal   the journal
//	FILE.result    the RoundResult, once the Round is over
//	FILE.stop      made by the Runner: begin nothing further
//	FILE.kill      made by the Runner: kill what runs
//	part.json      what is the same in all Rounds of the Attempt, written once
//	part.state     what earlier Rounds and Attempts came to; each Round adds to it
package nodes
