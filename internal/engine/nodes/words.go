package nodes

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// view gives what the Item sees: the results of earlier ones on its Node, on this Runner, and what was passed on elsewhere.
func (p *pair) view() runbook.View {
	r := p.round
	v := runbook.View{Item: *p.item, Scopes: r.file.Run.Scopes, Secrets: p.secrets, Results: map[string]runbook.Result{}, Files: p.files}
	if p.node != once {
		n := r.file.Run.Nodes[p.node]
		v.Node = &n
	}
	for name, value := range r.file.Round.Values {
		step, key, ok := strings.Cut(name, ".") // the names of steps have none
		if !ok {
			continue
		}
		result := v.Results[step]
		if result.Values == nil {
			result.Values = map[string]string{}
		}
		result.Values[key] = value
		v.Results[step] = result
	}
	if f := p.after; f != nil {
		v.Results[p.item.Name] = runbook.Result{Status: string(f.status), ExitCode: f.exit, Values: f.values}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range p.index {
		for _, n := range []int{once, p.node} {
			if e, ok := r.ended[pairKey{n, i}]; ok {
				v.Results[r.file.Run.Items[i].Name] = runbook.Result{Status: string(e.Status), ExitCode: e.ExitCode, Values: e.Values}
			}
		}
	}
	return v
}

// command makes a Command of a text for the shell.
func (p *pair) command(text string) (Command, error) {
	script, env, err := p.view().Command(text)
	if err != nil {
		return Command{}, err
	}
	return Command{Script: []byte(script + "\n"), Env: p.facts(env), Sudo: p.sudo()}, nil
}

// script makes a Command of a script. A file of the Source is taken as it is.
func (p *pair) script(s *catalog.StepScript) (Command, error) {
	text, args, env, err := p.view().Script(*s)
	if err != nil {
		return Command{}, err
	}
	interpreter := runbook.Interpreter(*s)
	if s.File != "" {
		data, err := readSource(p.round.file.SourceDir, s.File)
		if err != nil {
			return Command{}, err
		}
		text = string(data)
		if interpreter == nil {
			interpreter = runbook.FirstLine(text)
		}
	}
	return Command{Script: []byte(text), Interpreter: interpreter, Args: args, Env: p.facts(env), Sudo: p.sudo()}, nil
}

// facts adds to an environment where the command runs; nothing replaces them.
func (p *pair) facts(env map[string]string) map[string]string {
	job := p.round.file.Job
	env["LEGWORK_JOB"], env["LEGWORK_JOB_ID"] = strconv.FormatInt(job.Number, 10), job.Parent
	env["LEGWORK_STEP"], env["LEGWORK_ATTEMPT"] = p.item.Name, strconv.Itoa(job.Attempt)
	if dir := p.round.file.FetchDir; dir != "" && p.node == once {
		env["LEGWORK_FETCH_DIR"] = dir
	}
	return env
}

func (p *pair) sudo() bool {
	if p.item.Step.Sudo != nil {
		return *p.item.Step.Sudo
	}
	return p.round.file.Run.Connection.Sudo && p.node != once
}

// put brings a file to the node. If it fails, it removes the part that arrived.
func (p *pair) put(ctx context.Context, name string, contents []byte) (string, error) {
	path, err := p.target().Put(ctx, name, contents, p.sudo())
	if err == nil {
		return path, nil
	}
	if path != "" {
		_ = p.target().Remove(context.WithoutCancel(ctx), path, p.sudo())
	}
	return "", err
}

// bring puts the contents of file Options where the Item's commands run. remove takes them away again.
func (p *pair) bring(ctx context.Context) (remove func(), err error) {
	scope := p.round.file.Run.Scopes[p.item.Scope]
	var placed []string
	target := p.target()
	remove = func() {
		p.files = nil
		for _, path := range placed {
			_ = target.Remove(context.WithoutCancel(ctx), path, p.sudo())
		}
	}
	for _, name := range scope.Files {
		contents, ok := scope.Values[name].(string)
		if !ok {
			continue
		}
		path, err := p.put(ctx, name, []byte(contents))
		if err != nil {
			remove()
			return nil, err
		}
		placed = append(placed, path)
		if p.files == nil {
			p.files = map[string]string{}
		}
		p.files[name] = path
	}
	return remove, nil
}

// execute brings the files, makes a Command and runs it.
func (p *pair) execute(ctx context.Context, build func() (Command, error)) outcome {
	remove, err := p.bring(ctx)
	if err != nil {
		return p.judge(ctx, Result{}, err)
	}
	defer remove()
	c, err := build()
	if err != nil {
		return p.failed(err)
	}
	stdout, stderr := p.round.log.stream(work.Stdout, p.node, p.index), p.round.log.stream(work.Stderr, p.node, p.index)
	c.Stdout, c.Stderr, c.WantOutput = stdout, stderr, true
	result, err := p.target().Run(ctx, c)
	_ = errors.Join(stdout.Close(), stderr.Close())
	return p.judge(ctx, result, err)
}

// runCommand and runScript are tries of steps, and error handlers.
func (p *pair) runCommand(ctx context.Context, text string) outcome {
	return p.execute(ctx, func() (Command, error) { return p.command(text) })
}

func (p *pair) runScript(ctx context.Context, s *catalog.StepScript) outcome {
	return p.execute(ctx, func() (Command, error) { return p.script(s) })
}
