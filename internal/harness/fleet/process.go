package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Question is what is asked of a Fleet in another process, Answer what it says. Both are one line of JSON.
type (
	Question struct {
		Job string `json:"job,omitempty"` // of which the Answer tells
	}
	Answer struct {
		Online int    `json:"online"`
		Counts Counts `json:"counts"`
		Job    Job    `json:"job"`
	}
)

// Serve runs a Fleet for another process: the first line of in is its Config, each further one a Question that is answered on
// out. It returns when in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := json.NewDecoder(bufio.NewReader(in))
	var cfg Config
	if err := lines.Decode(&cfg); err != nil {
		return fmt.Errorf("reading what fleet to run: %w", err)
	}
	f := New(cfg)
	over := make(chan error, 1)
	go func() { over <- f.Run(ctx) }()
	answers := json.NewEncoder(out)
	for {
		var q Question
		if err := lines.Decode(&q); err != nil {
			stop()
			return <-over
		}
		if err := answers.Encode(Answer{Online: f.Online(), Counts: f.Counts(), Job: f.Job(q.Job)}); err != nil {
			return fmt.Errorf("answering for a fleet: %w", err)
		}
	}
}
