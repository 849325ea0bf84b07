package nodes

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"legwork/internal/work"
)

// once stands in place of a Node for Items that are done once per Runner.
const once = -1

// pairKey names an Item on a Node.
type pairKey struct{ node, item int }

// note is one line of a journal: a pair was begun, or is over.
type note struct {
	Begun *begunPair      `json:"begun,omitempty"`
	Ended *work.NodeEvent `json:"ended,omitempty"`
}

type begunPair struct {
	Node int `json:"node"`
	Item int `json:"item"`
}

// journal is the file that outlives the executor. Every entry is one write of one line; one that a death left torn counts
// as not written. That a pair begins which must not be done twice is on the disk before it begins; what else is lost with the host's
// power makes such a pair unknown, or has a repeatable one done again.
type journal struct {
	mu      sync.Mutex
	file    *os.File
	written int              // entries
	begun   map[pairKey]bool // by an earlier process, and not over
	ended   map[pairKey]work.NodeEvent
	order   []pairKey // of ended

	disk   sync.Mutex // held while entries are forced to the disk
	synced int        // entries that are there
	listed bool       // the file's name is there
}

// openJournal reads what an earlier process left, and goes on behind it.
func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal of a Round: %w", err)
	}
	j := &journal{file: file, begun: map[pairKey]bool{}, ended: map[pairKey]work.NodeEvent{}}
	torn, err := j.read(bufio.NewReaderSize(file, 64<<10))
	if err == nil && torn {
		_, err = file.WriteString("\n") // what follows does not become part of the torn line
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the journal of a Round: %w", err), file.Close())
	}
	return j, nil
}

// read takes up all lines. Those that say nothing are passed over: they were torn.
func (j *journal) read(in *bufio.Reader) (torn bool, err error) {
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return len(line) > 0, nil
		}
		if err != nil {
			return false, err
		}
		var n note
		if json.Unmarshal(line, &n) != nil {
			continue
		}
		switch {
		case n.Begun != nil:
			j.begun[pairKey{n.Begun.Node, n.Begun.Item}] = true
		case n.Ended != nil:
			key := pairKey{n.Ended.Node, n.Ended.Item}
			delete(j.begun, key)
			if _, again := j.ended[key]; !again {
				j.order = append(j.order, key)
			}
			j.ended[key] = *n.Ended
		}
	}
}

// begin notes that a pair begins, before anything of it is done. durable has it on the disk when begin returns.
func (j *journal) begin(durable bool, pairs ...pairKey) error {
	notes := make([]note, len(pairs))
	for i, p := range pairs {
		notes[i] = note{Begun: &begunPair{Node: p.node, Item: p.item}}
	}
	upTo, err := j.write(notes...)
	if err == nil && durable {
		err = j.sync(upTo)
	}
	return err
}

// end notes how a pair ended, before anybody is told.
func (j *journal) end(e work.NodeEvent) error {
	_, err := j.write(note{Ended: &e})
	return err
}

// write appends entries and gives how many there are then.
func (j *journal) write(notes ...note) (count int, err error) {
	var lines []byte
	for _, n := range notes {
		line, err := json.Marshal(n)
		if err != nil {
			return 0, fmt.Errorf("encoding the journal of a Round: %w", err)
		}
		lines = append(append(lines, line...), '\n')
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(lines); err != nil {
		return 0, fmt.Errorf("writing the journal of a Round: %w", err)
	}
	j.written += len(notes)
	return j.written, nil
}

// sync forces entries to the disk. Whoever waits here while others do so is mostly served by the next one of them: many Nodes cost
// few writes.
func (j *journal) sync(upTo int) error {
	j.disk.Lock()
	defer j.disk.Unlock()
	if j.synced >= upTo {
		return nil
	}
	j.mu.Lock()
	count := j.written
	j.mu.Unlock()
	err := syncFile(j.file)
	if err == nil && !j.listed {
		err = syncFolder(filepath.Dir(j.file.Name()))
	}
	if err != nil {
		return fmt.Errorf("writing the journal of a Round to the disk: %w", err)
	}
	j.synced, j.listed = count, true
	return nil
}

// syncFile is replaced by tests.
var syncFile = (*os.File).Sync

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func (j *journal) close() { _ = j.file.Close() }
