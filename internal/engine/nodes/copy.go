package nodes

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sync/semaphore"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

const (
	maxCopyBytes  = 32 << 20 // of all files of one copy
	maxCopyFiles  = 2000     // files and folders of one copy
	maxCopyReport = 64 << 10 // bytes of the report of a node
	maxCopyLines  = 20       // changed files that the log names
)

// copyMemory bounds the memory of all running copies, which hold their files and an archive.
var copyMemory = semaphore.NewWeighted(3 * maxCopyBytes)

// copyFiles is one try of a copy: it asks the node which files differ, and writes those.
func (p *pair) copyFiles(ctx context.Context, s *catalog.CopyStep) outcome {
	c, err := p.newCopying(s)
	if err != nil {
		return p.failed(err)
	}
	weight := 2*c.size + 1
	if err := copyMemory.Acquire(ctx, weight); err != nil {
		return p.judge(ctx, Result{}, context.Cause(ctx))
	}
	defer copyMemory.Release(weight)
	if err := c.load(p.round.file.SourceDir, p.view(), s); err != nil {
		return p.failed(err)
	}
	report, out := p.runCopying(ctx, c, c.checks())
	if out.status != work.NodeSucceeded {
		return out
	}
	changed := report.differs
	if len(changed) > 0 && !s.Check {
		if out := p.write(ctx, c, changed); out.status != work.NodeSucceeded {
			return out
		}
	}
	p.reportCopy(c, changed, s.Check)
	return outcome{status: work.NodeSucceeded, values: map[string]string{
		"changed": strconv.FormatBool(len(changed) > 0), "changed_count": strconv.Itoa(len(changed)),
	}}
}

// write brings the files that differ to the node and puts them in their places.
func (p *pair) write(ctx context.Context, c *copying, changed []int) outcome {
	archive, err := c.archive(changed)
	if err != nil {
		return p.failed(err)
	}
	path, err := p.put(ctx, "copy", archive)
	if err != nil {
		return p.judge(ctx, Result{}, err)
	}
	defer func() { _ = p.target().Remove(context.WithoutCancel(ctx), path, p.sudo()) }()
	_, out := p.runCopying(ctx, c, c.writes(changed, path))
	return out
}

// reportCopy logs the changes.
func (p *pair) reportCopy(c *copying, changed []int, check bool) {
	verb := "wrote"
	if check {
		verb = "would write"
	}
	for i, n := range changed {
		if i == maxCopyLines {
			p.say("%s: %s %d more", p.item.Name, verb, len(changed)-i)
			break
		}
		p.say("%s: %s %s", p.item.Name, verb, c.entries[n].label())
	}
	if len(changed) == 0 {
		p.say("%s: %s is unchanged", p.item.Name, c.dest)
	}
	p.event.Detail = fmt.Sprintf("changed %d, unchanged %d", len(changed), len(c.entries)-len(changed))
}

// runCopying runs a generated script on the node and reads its report.
func (p *pair) runCopying(ctx context.Context, c *copying, script []byte) (copyReport, outcome) {
	stdout, stderr := &limitedBuffer{limit: maxCopyReport}, &limitedBuffer{limit: 2 << 10}
	result, err := p.target().Run(ctx, Command{Script: script, Sudo: p.sudo(), Stdout: stdout, Stderr: stderr})
	report := readCopyReport(stdout.String(), len(c.entries))
	if err == nil && result.ExitCode != 0 && result.Signal == "" && ctx.Err() == nil {
		err = c.refusal(report, stderr.String())
	}
	return report, p.judge(ctx, result, err)
}

// copyReport is the report of a node about a copy.
type copyReport struct {
	differs []int // entries
	stopped int   // the entry at which it stopped
	reason  string
}

// readCopyReport reads the lines of a report. A node may say anything: only numbers of entries are taken, each once.
func readCopyReport(text string, entries int) (r copyReport) {
	seen := make([]bool, entries)
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, reason, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || n >= entries {
			continue
		}
		switch {
		case word == "differs" && !seen[n]:
			seen[n] = true
			r.differs = append(r.differs, n)
		case word == "stop":
			r.stopped, r.reason = n, reason
		}
	}
	return r
}

// copyReasons explain why a node stopped.
var copyReasons = map[string][2]string{
	"is_a_folder":  {"a folder has that name", "end dest with a slash to write into the folder"},
	"not_a_folder": {"it exists and is not a folder", "remove it, or choose another dest"},
	"not_a_file":   {"it exists and is not a regular file", "remove it, or choose another dest"},
	"folder": {"its folder cannot be created",
		"check the rights of the step's user; `sudo: true` gives those of root"},
	"write": {"the folder cannot be written to",
		"check the rights of the step's user and the free space; `sudo: true` gives the rights of root"},
	"owner": {"its owner cannot be set",
		"check that the user exists on the node; only root may give files away"},
	"group": {"its group cannot be set",
		"check that the group exists on the node and that the step's user may use it"},
	"mode":   {"its mode cannot be set", "check the file system on the node"},
	"digest": {"what was written differs from what was sent", "check the disk of the node"},
	"replace": {"the old file cannot be replaced",
		"check the rights of the step's user and the attributes of the file"},
	"unpack": {"the files cannot be unpacked",
		"check that tar is installed on the node and that /tmp has free space"},
}

// refusal explains why a node did not accept a copy.
func (c *copying) refusal(r copyReport, stderr string) error {
	said := oneLine(stderr)
	reason, known := copyReasons[r.reason]
	if !known {
		return fault.New(fault.Failed, "copy_failed", "the files cannot be written: %s", said)
	}
	if said != "" {
		said = " (" + said + ")"
	}
	return fault.New(fault.Failed, "copy_failed", "cannot write %s: %s%s", c.entries[r.stopped].label(), reason[0],
		said).WithHint("%s", reason[1])
}

// oneLine makes text of a node safe to show on one line.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return strings.Join(strings.Fields(text), " ")
}

// limitedBuffer keeps the first bytes that are written to it.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

// Write keeps what fits, and reports all of it as written.
func (b *limitedBuffer) Write(data []byte) (int, error) {
	_, _ = b.Buffer.Write(data[:min(len(data), b.limit-b.Len())])
	return len(data), nil
}
