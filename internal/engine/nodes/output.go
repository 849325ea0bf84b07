package nodes

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"legwork/internal/process"
	"legwork/internal/work"
)

// maxPiece is how many bytes of what is printed are masked at once: what many Nodes print at the same time shall not be held
// twice.
const maxPiece = 8 << 10

// output is the log of a Round. Writing blocks while the keeper is behind, which is how Nodes that print a lot are slowed down
// instead of held in memory.
type output struct {
	frames *process.FrameWriter
	masker atomic.Pointer[process.Masker]

	mu      sync.Mutex
	secrets []string // that masker masks
}

func newOutput(stdout io.Writer, secrets []string) *output {
	o := &output{frames: process.NewFrameWriter(stdout), secrets: slices.Clone(secrets)}
	o.masker.Store(process.NewMasker(o.secrets))
	return o
}

// mask adds a secret to those that are masked from now on, in streams that are opened later.
func (o *output) mask(secret string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Contains(o.secrets, secret) {
		return
	}
	o.secrets = append(o.secrets, secret)
	o.masker.Store(process.NewMasker(o.secrets))
}

// stream makes the writer of what an Item prints on a Node. Close it at the end.
func (o *output) stream(stream work.Stream, node, item int) io.WriteCloser {
	return pieces{o.frames.Output(stream, node+1, item+1, o.masker.Load())}
}

// pieces feeds a FrameOutput a little at a time.
type pieces struct{ to *process.FrameOutput }

func (p pieces) Write(data []byte) (int, error) {
	done := 0
	for done < len(data) {
		n, err := p.to.Write(data[done:min(done+maxPiece, len(data))])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (p pieces) Close() error { return p.to.Close() }

// say writes a line of Legwork's own about a pair.
func (o *output) say(node, item int, format string, args ...any) {
	text := strings.ToValidUTF8(o.masker.Load().Mask(fmt.Sprintf(format, args...)), "?")
	for line := range strings.Lines(text) {
		_ = o.frames.Line(work.System, node+1, item+1, false, []byte(strings.TrimRight(line, "\r\n")))
	}
}

// masked gives an event without secrets. A value whose very name holds one is left out.
func (o *output) masked(e work.NodeEvent) work.NodeEvent {
	masker := o.masker.Load()
	e.Detail = masker.Mask(e.Detail)
	if e.Failure != nil {
		e.Failure = &work.Failure{Code: e.Failure.Code, Message: masker.Mask(e.Failure.Message), Hint: masker.Mask(e.Failure.Hint)}
	}
	if len(e.Values) == 0 {
		return e
	}
	values := make(map[string]string, len(e.Values))
	for name, value := range e.Values {
		if masker.Mask(name) == name {
			values[name] = masker.Mask(value)
		}
	}
	e.Values = values
	return e
}

// event tells how a pair goes on. One that is too large loses what made it so.
func (o *output) event(e work.NodeEvent) {
	if o.frames.Event(e) == nil {
		return
	}
	e.Values, e.Detail = nil, ""
	_ = o.frames.Event(e)
}
