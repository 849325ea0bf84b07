package nodes

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"legwork/internal/engine"
	"legwork/internal/node"
	"legwork/internal/work"
)

// play has the Playbook perform an Ansible Item over the Nodes that are still in.
func (r *round) play(ctx context.Context, index int) {
	item := &r.file.Run.Items[index]
	over := map[int]node.Node{}
	for _, n := range r.file.Round.Nodes {
		key := pairKey{n, index}
		r.mu.Lock()
		_, done := r.ended[key]
		begun, bad := r.begun[key], r.bad[n]
		r.mu.Unlock()
		switch {
		case done || bad:
		case begun && !item.Repeatable():
			r.end(r.unknown(key))
		case r.mayBegin(ctx):
			over[n] = r.file.Run.Nodes[n]
		}
	}
	if len(over) == 0 {
		return
	}
	p := &pair{round: r, node: once, index: index, item: item}
	if yes, err := p.view().When(); err != nil || !yes {
		r.playEnded(p, over, time.Now(), err)
		r.playThrough(index, time.Now(), err)
		return
	}
	var pairs []pairKey
	for n := range over {
		pairs = append(pairs, pairKey{n, index})
	}
	if err := r.journal.begin(!item.Repeatable(), pairs...); err != nil {
		r.die(err)
		return
	}
	for n := range over {
		r.log.event(work.NodeEvent{Node: n, Item: index, Status: work.NodeRunning, Started: time.Now()})
	}
	started := time.Now()
	left, err := r.playOnce(ctx, p, over, started)
	if ctx.Err() != nil && err != nil {
		for n := range left {
			r.end(work.NodeEvent{Node: n, Item: index, Status: work.NodeCanceled, ExitCode: -1, Started: started, Finished: time.Now()})
		}
		r.end(work.NodeEvent{Node: once, Item: index, Status: work.NodeCanceled, ExitCode: -1, Started: started, Finished: time.Now()})
		return
	}
	r.playEnded(p, left, started, err)
	r.playThrough(index, started, err)
}

// playThrough says of the Item as a whole that it is over. It failed where the playbook could not be run and no Node got through.
func (r *round) playThrough(index int, started time.Time, err error) {
	e := work.NodeEvent{Node: once, Item: index, Status: work.NodeSucceeded, Started: started, Finished: time.Now()}
	r.mu.Lock()
	if !slices.ContainsFunc(r.file.Round.Nodes, func(n int) bool {
		return r.ended[pairKey{n, index}].Status != work.NodeSkipped
	}) {
		e.Status = work.NodeSkipped
	}
	failed := err != nil && !slices.ContainsFunc(r.file.Round.Nodes, func(n int) bool {
		return r.ended[pairKey{n, index}].Status == work.NodeSucceeded
	})
	r.mu.Unlock()
	if failed {
		e.Status, e.ExitCode, e.Failure = work.NodeFailed, -1, (&pair{round: r}).failed(err).failure
	}
	r.end(e)
}

// playOnce has the playbook run, and gives the Nodes of which nothing was said.
func (r *round) playOnce(ctx context.Context, p *pair, over map[int]node.Node, started time.Time) (left map[int]node.Node, err error) {
	if r.playbook == nil {
		return over, noPlaybook()
	}
	if err := p.findSecrets(ctx, 1); err != nil {
		return over, err
	}
	f := r.file
	run := engine.PlaybookRun{
		Run: &f.Run, Item: p.index, Nodes: over, Secrets: p.secrets, Tool: f.AnsiblePath, SourceDir: f.SourceDir, ScratchDir: f.ScratchDir, CacheDir: f.CacheDir,
		HostKeys: f.HostKeys, KnownHosts: f.KnownHosts, Grace: f.Terminate,
	}
	view := p.view()
	declared := map[string]any(p.item.Step.Ansible.ExtraVars)
	vars, err := view.ExpandAny(declared)
	if err != nil {
		return over, err
	}
	run.Vars, _ = untemplated(declared, vars).(map[string]any)
	env, err := view.Env(nil)
	if err != nil {
		return over, err
	}
	run.Env = p.facts(env)
	var mu sync.Mutex
	left = map[int]node.Node{}
	for n, is := range over {
		left[n] = is
	}
	streams := map[string]io.WriteCloser{}
	run.Log = func(n int, stream work.Stream) io.Writer {
		mu.Lock()
		defer mu.Unlock()
		key := fmt.Sprint(n, stream)
		if streams[key] == nil {
			streams[key] = r.log.stream(stream, n, p.index)
		}
		return streams[key]
	}
	run.Emit = func(n int, e work.NodeEvent) {
		mu.Lock()
		_, first := left[n]
		delete(left, n)
		mu.Unlock()
		if !first {
			return
		}
		e.Node, e.Item, e.Finished, e.Tries = n, p.index, time.Now(), 1
		if e.Started.IsZero() {
			e.Started = started
		}
		if e.Failure != nil {
			r.log.say(n, p.index, "%s: %s: %s", r.name(n), p.item.Name, e.Failure.Message)
		}
		r.end(e)
	}
	out := p.timed(ctx, func(ctx context.Context) outcome {
		if err = r.playbook.Perform(ctx, run); err != nil && ctx.Err() != nil {
			return outcome{status: work.NodeCanceled}
		}
		return outcome{}
	})
	if out.failure != nil {
		err = fmt.Errorf("%s %s", p.item.Name, out.failure.Message)
	}
	for _, stream := range streams {
		_ = stream.Close()
	}
	return left, err
}

// playEnded ends an Ansible Item on those Nodes of which nothing was said.
func (r *round) playEnded(p *pair, left map[int]node.Node, started time.Time, err error) {
	for _, n := range r.file.Round.Nodes {
		if _, is := left[n]; !is {
			continue
		}
		e := work.NodeEvent{Node: n, Item: p.index, Status: work.NodeSkipped, Started: started, Finished: time.Now()}
		if err != nil {
			e.Status, e.ExitCode, e.Failure = work.NodeFailed, -1, p.failed(err).failure
		}
		r.end(e)
	}
	if err != nil {
		r.log.say(once, p.index, "%s: %s", p.item.Name, p.failed(err).failure.Message)
	}
}
