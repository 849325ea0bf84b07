package nodes

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/node"
	"legwork/internal/runbook"
	"legwork/internal/work"
)

// memory is a Transport that does what a function says.
type memory struct {
	run func(ctx context.Context, at string, c Command) (Result, error)

	mu     sync.Mutex
	begun  []string // "web-1 one", in order
	active int
	most   int
	putErr error    // of Put
	gone   []string // the paths that were removed
	killed chan struct{}
	kill   sync.Once
}

type place struct {
	*memory
	name string
}

func newMemory(run func(ctx context.Context, at string, c Command) (Result, error)) *memory {
	return &memory{run: run, killed: make(chan struct{})}
}

func (m *memory) Node(n node.Node) Target { return place{m, n.Name} }
func (m *memory) Host() Target            { return place{m, "here"} }
func (m *memory) Kill()                   { m.kill.Do(func() { close(m.killed) }) }
func (m *memory) Close()                  {}

func (p place) Put(context.Context, string, []byte, bool) (string, error) { return "/file", p.putErr }

func (p place) Remove(_ context.Context, path string, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = append(p.gone, path)
	return nil
}

func (p place) Run(ctx context.Context, c Command) (Result, error) {
	p.mu.Lock()
	p.begun = append(p.begun, p.name+" "+c.Env["LEGWORK_STEP"])
	p.active++
	p.most = max(p.most, p.active)
	p.mu.Unlock()
	defer func() { p.mu.Lock(); p.active--; p.mu.Unlock() }()
	if p.run == nil {
		return Result{Began: true}, nil
	}
	return p.run(ctx, p.name, c)
}

// takes is a command that takes a while and heeds a cancel.
func takes(ctx context.Context, d time.Duration, then Result) (Result, error) {
	then.Began = true
	select {
	case <-time.After(d):
		return then, nil
	case <-ctx.Done():
		return Result{Began: true, ExitCode: 130, Signal: "INT"}, nil
	}
}

func command(name string) runbook.Item {
	return runbook.Item{Name: name, Kind: runbook.CommandItem, Step: catalog.RunbookStep{Name: name, Each: catalog.EachNode, Command: "true"}}
}

// file makes a Round of all Items over n Nodes.
func file(t testing.TB, n int, items ...runbook.Item) *File {
	f := &File{Round: work.Round{End: len(items)}, Part: Part{
		Run: work.RunSpec{
			Parent: "parent", Part: 1, Items: items, Scopes: []runbook.Scope{{Values: map[string]any{}}}, Nodes: map[int]node.Node{},
			Strategy: catalog.NodeFirst, Concurrency: 10, OnFailure: catalog.StopOnFailure,
		},
		WorkDir: t.TempDir(), ScratchDir: t.TempDir(), Job: Job{Number: 7, Attempt: 1, Parent: "parent"},
	}}
	for i := range n {
		f.Run.Nodes[i] = node.Node{Name: fmt.Sprintf("web-%d", i), Attributes: map[string]string{"rack": "r1"}}
		f.Round.Nodes = append(f.Round.Nodes, i)
	}
	return f
}

// done is what a Round came to.
type done struct {
	work.RoundResult
	memory *memory
	log    []work.Record
	events map[pairKey][]work.NodeEvent
}

func (d done) status(n, item int) work.NodeStatus {
	all := d.events[pairKey{n, item}]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].Status
}

func (d done) text(stream work.Stream) string {
	var b bytes.Buffer
	for _, r := range d.log {
		if r.Stream == stream {
			b.Write(append(r.Data, '\n'))
		}
	}
	return b.String()
}

// perform performs a Round in a folder of its own.
func perform(t testing.TB, f *File, m *memory) done {
	t.Helper()
	return performIn(t, context.Background(), filepath.Join(t.TempDir(), "round"), f, m, nil)
}

func performIn(t testing.TB, ctx context.Context, path string, f *File, m *memory, env []string) done {
	t.Helper()
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	x := Executor{Transport: func(*File, map[string]string, []string) (Transport, error) { return m, nil }}
	if code := x.run(ctx, path, env, &out, nil); code != 0 {
		t.Fatalf("exit code %d, log %q", code, out.String())
	}
	result, ok, err := ReadResult(path)
	if err != nil || !ok {
		t.Fatalf("result: %v %v", ok, err)
	}
	d := readFrames(t, out.Bytes())
	result.Spans = nil // when items were done is tested on its own
	d.RoundResult, d.memory = result, m
	return d
}

// readFrames reads what an executor printed.
func readFrames(t testing.TB, data []byte) done {
	t.Helper()
	d := done{events: map[pairKey][]work.NodeEvent{}}
	for len(data) >= 16 {
		length := int(binary.LittleEndian.Uint32(data[4:]))
		if len(data) < 16+length {
			break // torn by a kill
		}
		r := work.Record{Stream: work.Stream(data[2]), Partial: data[3] == 1, Node: int(binary.LittleEndian.Uint32(data[8:])), Item: int(binary.LittleEndian.Uint32(data[12:])), Data: data[16 : 16+length]}
		data = data[16+length:]
		d.log = append(d.log, r)
		if r.Stream == work.Progress {
			var e work.NodeEvent
			if err := json.Unmarshal(r.Data, &e); err != nil {
				t.Fatal(err)
			}
			key := pairKey{e.Node, e.Item}
			d.events[key] = append(d.events[key], e)
		}
	}
	return d
}

var _ io.Writer = (*bytes.Buffer)(nil)
