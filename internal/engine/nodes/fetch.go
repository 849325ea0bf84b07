package nodes

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/work"
)

const (
	maxFetchBytes  = 256 << 20 // of all files that one node sends
	maxFetchFiles  = 10_000    // files and folders that one node sends
	maxFetchTar    = maxFetchBytes + maxFetchFiles*2048
	spaceCheckStep = 8 << 20 // bytes between two checks of the free space
)

// fetchFunctions print a file or a folder. They need those of copy.sh.
//
//go:embed fetch.sh
var fetchFunctions string

// fetching is a fetch from one node, with all templates filled in.
type fetching struct {
	src  string // on the node
	dest string // below the fetch directory, with slashes
}

// fetchFiles is one try of a fetch: the node sends an archive, which is checked and unpacked.
func (p *pair) fetchFiles(ctx context.Context, s *catalog.FetchStep) outcome {
	f, err := p.newFetching(s)
	if err != nil {
		return p.failed(err)
	}
	dir := p.round.file.FetchDir
	if dir == "" {
		return p.failed(fault.New(fault.Unsupported, "fetch_failed", "this runner has no folder for fetched files").
			WithHint("upgrade the runner"))
	}
	received, out := p.receive(ctx, f)
	if received != nil {
		defer received.remove()
	}
	if out.status != work.NodeSucceeded {
		return out
	}
	sent, err := received.open()
	if err != nil {
		return p.failed(f.stopped(err))
	}
	stored, err := storeFetched(dir, f.place(sent.path), sent)
	if err != nil {
		return p.failed(err)
	}
	at := filepath.Join(dir, filepath.FromSlash(f.dest))
	p.reportFetch(stored, at)
	return outcome{status: work.NodeSucceeded, values: map[string]string{
		"changed": strconv.FormatBool(len(stored.changed) > 0), "changed_count": strconv.Itoa(len(stored.changed)),
		"path": at,
	}}
}

// newFetching fills in the templates of a fetch, and refuses values that lead elsewhere than declared.
func (p *pair) newFetching(s *catalog.FetchStep) (*fetching, error) {
	v := p.view()
	src, err := v.Expand(s.Src)
	if err != nil {
		return nil, err
	}
	dest, err := v.Expand(s.Dest)
	if err != nil {
		return nil, err
	}
	if dest == "" {
		dest = p.item.Name
	}
	bad := func(what, value, rule string) error {
		return fault.New(fault.Invalid, "fetch_invalid", "%s of the fetch is %.200q: it must %s", what, value, rule)
	}
	switch {
	case !strings.HasPrefix(src, "/") && !strings.HasPrefix(src, "~/"):
		return nil, bad("src", src, "begin with / or ~/")
	case slices.Contains(strings.Split(src, "/"), ".."):
		return nil, bad("src", src, "not contain ..")
	case !plainText(src):
		return nil, bad("src", src, "be text without control characters")
	case !filepath.IsLocal(dest) || slices.Contains(strings.Split(dest, "/"), ".."):
		return nil, bad("dest", dest, "be a relative path without ..")
	case !plainText(dest):
		return nil, bad("dest", dest, "be text without control characters")
	}
	return &fetching{src: path.Clean(src), dest: path.Join(dest, p.round.name(p.node))}, nil
}

// place is where the file or folder at a path of the node is stored, below the fetch directory.
func (f *fetching) place(nodePath string) string { return path.Join(f.dest, path.Clean("/"+nodePath)) }

// script prints the file or folder on the node.
func (f *fetching) script() []byte {
	return fmt.Appendf(nil, "%s%sowner=\ngroup=\narchive=\ntoken=%s\nfetch %s %d\nexit 0\n", copyFunctions, fetchFunctions,
		quoted(rand.Text()), quotedPath(f.src), maxFetchTar+1)
}

// receive stores what the node sends in a temporary file.
func (p *pair) receive(ctx context.Context, f *fetching) (*received, outcome) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := newReceived(p.round.file, cancel)
	if err != nil {
		return nil, p.failed(err)
	}
	stderr := &limitedBuffer{limit: 2 << 10}
	result, err := p.target().Run(ctx, Command{Script: f.script(), Sudo: p.sudo(), Stdout: r, Stderr: stderr})
	if r.err != nil {
		return r, p.failed(r.err)
	}
	r.said = oneLine(stderr.String())
	if err == nil && result.ExitCode != 0 && result.Signal == "" && ctx.Err() == nil {
		err = f.refusal(r)
	}
	return r, p.judge(ctx, result, err)
}

// fetchReasons explain why a node sent nothing.
var fetchReasons = map[string][2]string{
	"missing": {"it does not exist, or the step's user cannot see it",
		"check src; `sudo: true` reads it as root"},
	"unreadable": {"the step's user cannot read it", "`sudo: true` reads it as root"},
	"not_a_file": {"it is neither a regular file nor a folder", "fetch a file or a folder"},
	"temp":       {"no temporary folder can be created on the node", "check the mode and the free space of /tmp there"},
}

// refusal explains why a node sent nothing.
func (f *fetching) refusal(r *received) error {
	word := r.reason()
	reason, known := fetchReasons[word]
	if !known {
		return f.stopped(errors.New(orWord(r.said, "it said nothing")))
	}
	return fault.New(fault.Failed, "fetch_failed", "cannot fetch %s: %s", f.src, reason[0]).WithHint("%s", reason[1])
}

// stopped is the fault of a fetch whose bytes cannot be used.
func (f *fetching) stopped(err error) error {
	if known := new(fault.Fault); errors.As(err, &known) {
		return err
	}
	return fault.New(fault.Failed, "fetch_failed", "cannot fetch %s: %v", f.src, err).
		WithHint("check that the step's user can read all of it, and that tar and mkfifo are installed on the node")
}

func orWord(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// reportFetch names the stored files in the log.
func (p *pair) reportFetch(s *stored, at string) {
	for i, name := range s.changed {
		if i == maxCopyLines {
			p.say("%s: fetched %d more", p.item.Name, len(s.changed)-i)
			break
		}
		p.say("%s: fetched %s", p.item.Name, oneLine(name))
	}
	if s.skipped > 0 {
		p.say("%s: links and special files that were not fetched: %d", p.item.Name, s.skipped)
	}
	p.event.Detail = fmt.Sprintf("changed %d, unchanged %d", len(s.changed), s.files-len(s.changed))
	p.say("%s: %s, in %s", p.item.Name, p.event.Detail, at)
}

// checkSpace fails when the disk of a folder has less free space than the runner keeps free.
func checkSpace(dir string, least int64) error {
	free, err := process.FreeSpace(dir)
	if err != nil || free >= least {
		return nil
	}
	return fault.New(fault.Failed, "fetch_no_space", "the disk of the runner has less than %d MiB free", least>>20).
		WithHint("free some space on the host of the runner; WorkingDirectory.MinFreeMiB is the limit")
}

// newReceived creates the temporary file for what a node sends.
func newReceived(f *File, cancel func(error)) (*received, error) {
	if err := checkSpace(f.ScratchDir, f.MinFree); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(f.ScratchDir, "fetch-*")
	if err != nil {
		return nil, fmt.Errorf("creating the file for a fetch: %w", err)
	}
	return &received{file: file, least: f.MinFree, cancel: cancel}, nil
}
