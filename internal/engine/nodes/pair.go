package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// tellAfter is how long an Item takes on a Node before anybody is told that it runs.
const tellAfter = 150 * time.Millisecond

// pair is an Item on a Node, or one that is done once.
type pair struct {
	round *round
	node  int // by index, or once
	index int // of item
	item  *runbook.Item
	event work.NodeEvent
	files map[string]string // of file Options, while a command runs
	after *outcome          // how the last try failed, while the error handler runs
	// secrets are those that the item sees, once its condition is known to be true.
	secrets map[string]string

	mu   sync.Mutex
	over bool // running is not told any more
}

// outcome is how one try went.
type outcome struct {
	status  work.NodeStatus
	exit    int
	failure *work.Failure
	values  map[string]string
	final   bool // a further try would not help, or must not be
}

// perform takes the Item through condition, tries and error handler.
func (p *pair) perform(ctx context.Context) work.NodeEvent {
	p.event = work.NodeEvent{Node: p.node, Item: p.index, Started: time.Now()}
	run, err := p.view().When()
	switch {
	case err != nil:
		return p.finish(p.failed(err))
	case !run:
		return p.finish(outcome{status: work.NodeSkipped})
	}
	if err := p.round.journal.begin(!p.item.Repeatable(), pairKey{p.node, p.index}); err != nil {
		p.round.die(err)
		p.event.Started = time.Time{}
		return p.finish(p.failed(err))
	}
	running := time.AfterFunc(tellAfter, p.tellRunning)
	defer running.Stop()
	out := p.tries(ctx)
	if out.status == work.NodeFailed {
		out = p.handle(ctx, out)
	}
	return p.finish(out)
}

// tellRunning tells that the Item takes a while, unless it is over.
func (p *pair) tellRunning() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.round.log.event(work.NodeEvent{Node: p.node, Item: p.index, Status: work.NodeRunning, Started: p.event.Started})
	}
}

func (p *pair) finish(out outcome) work.NodeEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	e := &p.event
	e.Status, e.ExitCode, e.Failure, e.Values = out.status, out.exit, out.failure, out.values
	e.Finished = time.Now()
	if f := e.Failure; f != nil {
		p.say("%s: %s%s", p.item.Name, f.Message, inBrackets(f.Hint))
	}
	return *e
}

func inBrackets(hint string) string {
	if hint == "" {
		return ""
	}
	return " (" + hint + ")"
}

// say writes a line about the pair, which begins with what it is about.
func (p *pair) say(format string, args ...any) {
	p.round.log.say(p.node, p.index, "%s: %s", p.round.name(p.node), fmt.Sprintf(format, args...))
}

// tries does the Item until it succeeds or no try is left.
func (p *pair) tries(ctx context.Context) outcome {
	step := &p.item.Step
	for try := 1; ; try++ {
		p.event.Tries = try
		out := p.timed(ctx, p.do)
		if out.status != work.NodeFailed || out.final || try > step.Retries || ctx.Err() != nil {
			return out
		}
		delay := time.Duration(step.RetryDelay)
		p.say("%s: %s; try %d of %d follows%s", p.item.Name, out.failure.Message, try+1, step.Retries+1, after(delay))
		if !p.wait(ctx, delay) {
			return out
		}
	}
}

func after(delay time.Duration) string {
	if delay <= 0 {
		return ""
	}
	return " in " + delay.String()
}

// wait waits, unless the Round is to end. Failures of other Nodes do not end the tries of this one.
func (p *pair) wait(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil && !p.round.asked.Load()
	case <-ctx.Done():
		return false
	}
}

// timed calls do with the Item's timeout.
func (p *pair) timed(ctx context.Context, do func(context.Context) outcome) outcome {
	limit := time.Duration(p.item.Step.Timeout)
	if limit <= 0 {
		limit = p.round.file.StepTimeout
	}
	if limit <= 0 {
		return do(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	out := do(ctx)
	if out.status == work.NodeCanceled && errors.Is(context.Cause(ctx), errTimeout) {
		return outcome{status: work.NodeFailed, exit: out.exit, failure: &work.Failure{
			Code: "step_timeout", Message: fmt.Sprintf("took longer than its timeout of %s and was ended", limit),
			Hint: "raise the timeout of the step, or see in the log what it waited for",
		}}
	}
	return out
}

// findSecrets looks up what the item needs, before each try.
func (p *pair) findSecrets(ctx context.Context, try int) error {
	names, err := p.item.Secrets(p.round.file.Run.Scopes)
	if err == nil {
		p.secrets, err = p.round.secrets.forItem(ctx, p.index, try, names)
	}
	return err
}

// do is one try.
func (p *pair) do(ctx context.Context) outcome {
	if err := p.findSecrets(ctx, p.event.Tries); err != nil {
		return p.judge(ctx, Result{}, err)
	}
	step := &p.item.Step
	switch {
	case step.Wait != nil:
		return p.await(ctx, step.Wait)
	case step.Script != nil:
		return p.runScript(ctx, step.Script)
	case step.Copy != nil:
		return p.copyFiles(ctx, step.Copy)
	case step.Fetch != nil:
		return p.fetchFiles(ctx, step.Fetch)
	case p.item.Kind == runbook.CommandItem:
		return p.runCommand(ctx, step.Command)
	}
	return p.failed(fault.New(fault.Unsupported, "unknown_step", "this Runner does not know how to do a step of kind %q", p.item.Kind).
		WithHint("upgrade the Runner"))
}

// handle runs the error handlers after the last try: that of the step, then those of the references around
// it, until one recovers.
func (p *pair) handle(ctx context.Context, failed outcome) outcome {
	if h := p.item.Step.OnError; h != nil {
		if out, recovered := p.runHandler(ctx, failed, *h, "on_error"); recovered {
			delete(out.values, runbook.RecoveredBy)
			return out
		}
	}
	for _, h := range p.item.Handlers {
		out, recovered := p.in(h).runHandler(ctx, failed, h.OnError, "on_error of "+h.Item)
		if !recovered {
			continue
		}
		if out.values == nil {
			out.values = map[string]string{}
		}
		out.values[runbook.RecoveredBy] = h.Item
		return out
	}
	return failed
}

// in returns the pair as the error handler of a reference sees it: with the options around the reference,
// and its name.
func (p *pair) in(h runbook.Handler) *pair {
	item := *p.item
	item.Name, item.Scope, item.Step.Env = h.Item, h.Scope, nil
	return &pair{round: p.round, node: p.node, index: p.index, item: &item, secrets: p.secrets}
}

// runHandler runs an error handler, and reports whether it recovered the node.
func (p *pair) runHandler(ctx context.Context, failed outcome, h catalog.ErrorHandler, name string) (outcome, bool) {
	if ctx.Err() != nil {
		return failed, false
	}
	p.say("%s: %s; %s runs", p.item.Name, failed.failure.Message, name)
	p.after = &failed
	defer func() { p.after = nil }()
	out := p.timed(ctx, func(ctx context.Context) outcome {
		if h.Script != nil {
			return p.runScript(ctx, h.Script)
		}
		return p.runCommand(ctx, h.Command)
	})
	switch {
	case out.status != work.NodeSucceeded:
		why := "it was canceled"
		if out.failure != nil {
			why = out.failure.Message
		}
		p.say("%s: %s failed too: %s", p.item.Name, name, why)
		return failed, false
	case !h.Recover:
		return failed, false
	}
	p.say("%s: recovered by %s", p.item.Name, name)
	return outcome{status: work.NodeRecovered, exit: failed.exit, values: out.values}, true
}

// target gives where the Item's commands run.
func (p *pair) target() Target {
	if p.node == once {
		return p.round.transport.Host()
	}
	return p.round.transport.Node(p.round.file.Run.Nodes[p.node])
}

// judge gives the end of a command its meaning. What was asked for and done is done, also when a cancel came late.
func (p *pair) judge(ctx context.Context, result Result, err error) outcome {
	switch {
	case err != nil && fault.Code(err) == "connection_lost" && result.Began:
		return p.cutOff(err)
	case err != nil && ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled)):
		return outcome{status: work.NodeCanceled, exit: -1}
	case err != nil:
		out := p.failed(err)
		if out.exit = result.ExitCode; out.exit == 0 {
			out.exit = -1
		}
		return out
	case result.ExitCode == 0 && result.Signal == "":
		return outcome{status: work.NodeSucceeded, values: result.Output}
	case ctx.Err() != nil:
		return outcome{status: work.NodeCanceled, exit: result.ExitCode}
	}
	f := &work.Failure{Code: "command_failed", Message: fmt.Sprintf("failed with exit status %d", result.ExitCode)}
	if result.Signal != "" {
		f = &work.Failure{Code: "died_by_signal", Message: "died by SIG" + result.Signal, Hint: "nobody asked for it: look at the Node"}
	}
	return outcome{status: work.NodeFailed, exit: result.ExitCode, failure: f}
}

// cutOff is the end of a command whose Node was lost while it ran.
func (p *pair) cutOff(err error) outcome {
	out := p.failed(err)
	if p.item.Repeatable() {
		out.failure.Hint = "check the network and the node; with `retries` the step is tried again"
		return out
	}
	out.status, out.final, out.exit = work.NodeUnknown, true, -1
	out.failure.Message += "; nobody knows how it ended"
	return out
}

// failed makes an error the end of a try.
func (p *pair) failed(err error) outcome {
	var f *fault.Fault
	if !errors.As(err, &f) {
		f = fault.New(fault.Internal, "step_failed", "failed inside the Runner: %v", err)
	}
	return outcome{
		status: work.NodeFailed, exit: -1, final: f.Kind == fault.Invalid || f.Kind == fault.Unsupported || f.Kind == fault.Forbidden,
		failure: &work.Failure{Code: f.Code, Message: f.Message, Hint: f.Hint},
	}
}
