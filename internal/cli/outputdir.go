package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"legwork/internal/api"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// outputDir is a folder with a file for each Node: what the Node printed on both streams, in the order in which it came.
type outputDir struct {
	dir string

	mu  sync.Mutex
	err error // the first one
}

// execSummary is summary.json.
type execSummary struct {
	Job    int64         `json:"job"`
	Status work.Status   `json:"status"`
	Counts execCounts    `json:"counts"`
	Nodes  []execOutcome `json:"nodes"`
}

type execCounts map[work.NodeStatus]int

// execOutcome is how the command went on a Node.
type execOutcome struct {
	Node     string          `json:"node"`
	Status   work.NodeStatus `json:"status"`
	ExitCode int             `json:"exit_code"`
	Failure  *work.Failure   `json:"failure,omitempty"`
	Runner   string          `json:"runner,omitempty"`
	Started  time.Time       `json:"started_at,omitzero"`
	Finished time.Time       `json:"finished_at,omitzero"`
	File     string          `json:"file"` // beside summary.json
}

// newOutputDir makes the folder. One that holds something is refused: what is old would be taken for new.
func newOutputDir(dir string) (*outputDir, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(dir, 0o700)
	case err == nil && len(entries) > 0:
		return nil, fault.New(fault.Invalid, "output_dir", "the folder %s is not empty", dir).WithHint("name a new one, or empty it")
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "output_dir", "the folder %s cannot be written", dir).WithHint("check --output-dir, and who may write there").WithCause(err)
	}
	return &outputDir{dir: dir}, nil
}

func outputFile(node string) string { return node + ".log" }

// add appends lines to the files of their Nodes.
func (o *outputDir) add(lines []api.LogLine) {
	texts := map[string][]byte{}
	for i := range lines {
		l := &lines[i]
		if l.Node == "" || l.Stream == work.System.String() {
			continue
		}
		texts[l.Node] = append(texts[l.Node], l.Data()...)
		if !l.Partial {
			texts[l.Node] = append(texts[l.Node], '\n')
		}
	}
	for node, text := range texts {
		o.append(node, text)
	}
}

func (o *outputDir) append(node string, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	name := filepath.Join(o.dir, outputFile(node))
	if filepath.Dir(name) != filepath.Clean(o.dir) {
		o.err = fmt.Errorf("the name of the Node %q is not one of a file", node)
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	o.err = err
}

// finish writes summary.json, and an empty file for each Node that printed nothing.
func (o *outputDir) finish(ctx context.Context, client *api.Client, job *work.Job) error {
	run, err := client.Run(ctx, job.ID)
	if err != nil {
		return err
	}
	results, err := allResults(ctx, client, job.ID, api.NodeResultQuery{})
	if err != nil {
		return err
	}
	said := map[string]api.NodeResult{}
	for _, r := range results {
		said[r.Node] = r
	}
	s := execSummary{Job: job.Number, Status: job.Status, Counts: execCounts{}, Nodes: []execOutcome{}}
	for _, node := range run.Nodes {
		r, ok := said[node]
		if !ok {
			r.Status = work.NodeNotRun
		}
		s.Counts[r.Status]++
		s.Nodes = append(s.Nodes, execOutcome{Node: node, Status: r.Status, ExitCode: r.ExitCode, Failure: r.Failure, Runner: r.Runner,
			Started: r.Started, Finished: r.Finished, File: outputFile(node)})
		o.append(node, nil)
	}
	if o.err != nil {
		return fault.New(fault.Invalid, "output_dir", "what the Nodes printed could not be written to %s", o.dir).WithHint("legwork job logs %d --node NODE prints it again", job.Number).WithCause(o.err)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(o.dir, "summary.json"), append(plainJSON(text), '\n'), 0o600)
	}
	return err
}
