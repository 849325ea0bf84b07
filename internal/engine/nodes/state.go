package nodes

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"legwork/internal/work"
)

// PartPath gives the file, beside those of the Rounds, with what is the same in all Rounds of an Attempt.
func PartPath(file string) string { return filepath.Join(filepath.Dir(file), "part.json") }

// StatePath gives the file that grows from Round to Round: what later ones may refer to. A line is the index of a Node (-1 for what is done once),
// a blank, and a pastPair.
func StatePath(file string) string { return filepath.Join(filepath.Dir(file), "part.state") }

// pastPair says how an Item went, in short.
type pastPair struct {
	Item     int               `json:"i"`
	Status   work.NodeStatus   `json:"s"`
	ExitCode int               `json:"x,omitempty"`
	Values   map[string]string `json:"v,omitempty"`
}

func appendPair(lines []byte, node int, p pastPair) ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding what a step came to: %w", err)
	}
	lines = append(strconv.AppendInt(lines, int64(node), 10), ' ')
	return append(append(lines, text...), '\n'), nil
}

// pastLines is what earlier Attempts did, with which the state of this one begins.
func pastLines(past []work.PastResult) (lines []byte, err error) {
	for _, p := range past {
		for _, n := range p.Nodes {
			if lines, err = appendPair(lines, n, pastPair{p.Item, p.Status, p.ExitCode, p.Values}); err != nil {
				return nil, err
			}
		}
	}
	return lines, nil
}

// keepState adds what a Round came to to the state. Twice does no harm: the last line of a pair holds, and they are alike.
func keepState(path string, events []work.NodeEvent) error {
	var lines []byte
	for _, e := range events {
		var err error
		if lines, err = appendPair(lines, e.Node, pastPair{e.Item, e.Status, e.ExitCode, e.Values}); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil && torn(file) {
		lines = append([]byte("\n"), lines...)
	}
	if err == nil {
		_, err = file.Write(lines)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("keeping what a Round came to: %w", err)
	}
	return nil
}

// torn tells whether a file ends within a line.
func torn(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// readState gives what is known of some Nodes, and of what was done once. A file that is not there, or a line that was torn, is no reason to fail: what is missing is missed
// by whoever refers to it.
func readState(path string, nodes []int, take func(node int, p pastPair)) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading what earlier Rounds came to: %w", err)
	}
	defer file.Close()
	wanted := map[string]int{strconv.Itoa(once): once}
	for _, n := range nodes {
		wanted[strconv.Itoa(n)] = n
	}
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what earlier Rounds came to: %w", err)
		}
		number, text, _ := bytes.Cut(line, []byte(" "))
		n, want := wanted[string(number)] // most are not, and are not decoded
		var p pastPair
		if want && json.Unmarshal(text, &p) == nil {
			take(n, p)
		}
	}
}
