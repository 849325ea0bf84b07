package ansible

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"legwork/internal/fault"
)

// maxEvent bounds a line that the plugin writes: five texts of 16,384 characters, written as JSON.
const maxEvent = 1 << 20

// event is what the plugin says.
type event struct {
	Kind    string  `json:"kind"`
	Host    string  `json:"host"`
	Task    string  `json:"task"`
	Action  string  `json:"action"`
	Status  string  `json:"status"`
	Ignored bool    `json:"ignored"`
	Seconds float64 `json:"seconds"`
	Message string  `json:"message"`
	Reason  string  `json:"reason"`
	Stdout  string  `json:"stdout"`
	Stderr  string  `json:"stderr"`
	Diff    string  `json:"diff"`
	Counts  Counts  `json:"counts"`

	Loop        bool   `json:"loop"`         // the result sums up a loop, whose items were reported before
	Item        string `json:"item"`         // label of the loop item, of kind "item"
	RetriesLeft int    `json:"retries_left"` // of status "retry"
	ExitCode    int    `json:"exit_code"`    // of a command
}

// tally gathers events by host.
type tally struct {
	sink   Sink
	byName map[string]*Host
	failed map[string]event // the first loop item of the current task that failed, by host
	summed bool             // the recap came: the playbook is through
}

func newTally(sink Sink) *tally {
	return &tally{sink: sink, byName: map[string]*Host{}, failed: map[string]event{}}
}

// read takes events until the plugin's end is closed.
func (t *tally) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fault.New(fault.Failed, "ansible_results", "the results of ansible-playbook cannot be read").WithCause(err)
		}
		t.take(e)
	}
	if err := lines.Err(); err != nil {
		_, _ = io.Copy(io.Discard, r) // or it would wait for ever
		return fault.New(fault.Failed, "ansible_results", "the results of ansible-playbook cannot be read").WithCause(err)
	}
	return nil
}

func (t *tally) take(e event) {
	e.Host, e.Task = oneLine(e.Host), oneLine(e.Task)
	e.Status, e.Item = oneLine(e.Status), oneLine(e.Item)
	switch e.Kind {
	case "play":
		t.sink.Line("", "PLAY "+e.Task)
	case "task":
		t.sink.Line("", "TASK "+e.Task)
	case "handler":
		t.sink.Line("", "HANDLER "+e.Task)
	case "notice":
		for line := range strings.Lines(e.Message) {
			t.sink.Line("", strings.TrimRight(line, "\r\n"))
		}
	case "item":
		t.say(e)
		if _, known := t.failed[e.Host]; e.Status == "failed" && !known {
			t.failed[e.Host] = e
		}
	case "result":
		t.say(e)
		t.note(e)
		if e.Status != "retry" {
			delete(t.failed, e.Host)
		}
	case "summary":
		t.summed = true
		h := t.host(e.Host)
		h.Counts = e.Counts
		h.Failed = h.Failed || e.Counts.Failures > 0 || e.Counts.Unreachable > 0
		t.sink.Line(e.Host, "RECAP "+e.Counts.String())
	}
}

// oneLine replaces the line breaks of a name, so that it cannot look like another line of the log.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// say writes a result as lines of its host.
func (t *tally) say(e event) {
	t.sink.Line(e.Host, e.head())
	if e.Loop { // its items said everything
		return
	}
	message := e.Message
	if message == exitMessage && e.ExitCode != 0 { // the first line has the exit status
		message = ""
	}
	for _, text := range []string{message, e.Stdout, e.Stderr, e.Reason, e.Diff} {
		for line := range strings.Lines(text) {
			t.sink.Line(e.Host, "    "+strings.TrimRight(line, "\r\n"))
		}
	}
}

// head returns the first line about a result.
func (e event) head() string {
	head := e.Status + ": " + e.Task
	if e.Kind == "item" {
		head += " (item=" + e.Item + ")"
	}
	switch {
	case e.Ignored:
		head += " (ignored)"
	case e.Status == "retry":
		head += fmt.Sprintf(" (retries left: %d)", e.RetriesLeft)
	}
	if e.Status == "failed" && e.ExitCode != 0 {
		head += fmt.Sprintf(" (exit status %d)", e.ExitCode)
	}
	if e.Seconds >= 1 {
		head += fmt.Sprintf(" (%.1f s)", e.Seconds)
	}
	return head
}

func (t *tally) note(e event) {
	h := t.host(e.Host)
	if (e.Status != "failed" && e.Status != "unreachable") || e.Ignored {
		return
	}
	h.Unreachable = h.Unreachable || e.Status == "unreachable"
	if h.Message != "" {
		return
	}
	h.Message = e.Task + ": " + firstLine(e)
	if item, ok := t.failed[e.Host]; e.Loop && ok {
		h.Message = fmt.Sprintf("%s (item=%s): %s", e.Task, item.Item, firstLine(item))
	}
}

// exitMessage is what Ansible says of every command that fails.
const exitMessage = "non-zero return code"

// firstLine returns the first line that says why a task failed. Of a command it is the exit status and what the command
// printed first.
func firstLine(e event) string {
	texts := []string{e.Message, e.Stderr, e.Stdout, e.Reason}
	prefix := ""
	if e.ExitCode != 0 && e.Message == exitMessage {
		prefix = fmt.Sprintf("exit status %d", e.ExitCode)
		texts = texts[1:]
	}
	for _, text := range texts {
		line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		switch {
		case line != "" && prefix != "":
			return prefix + ": " + line
		case line != "":
			return line
		}
	}
	return cmp.Or(prefix, e.Status)
}

func (t *tally) host(name string) *Host {
	h := t.byName[name]
	if h == nil {
		h = &Host{Name: name}
		t.byName[name] = h
	}
	return h
}

// hosts gives all of them by name. Without a recap, the one with a message failed.
func (t *tally) hosts() []Host {
	hosts := make([]Host, 0, len(t.byName))
	for _, h := range t.byName {
		if !t.summed {
			h.Failed = h.Failed || h.Message != ""
		}
		hosts = append(hosts, *h)
	}
	slices.SortFunc(hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return hosts
}

// eachLine gives what a program prints line by line; a line that is too long is cut into several.
func eachLine(r io.Reader, line func(string)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := in.ReadSlice('\n')
		if len(text) > 0 {
			line(string(bytes.ToValidUTF8(bytes.TrimRight(text, "\r\n"), []byte("?"))))
		}
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		default:
			return fmt.Errorf("read the output of a program: %w", err)
		}
	}
}
