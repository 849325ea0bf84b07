package source

import (
	"context"
	"fmt"
	"io"
	"path"

	"legwork/internal/fault"
)

// inline is a source whose files stand in the manifest.
type inline map[string]string

func newInline(files map[string]string) inline { return files }

func (i inline) commit() string { return "" }

func (i inline) indexes() []string { return nil }

func (i inline) files() []string {
	var names []string
	for name := range i {
		if !isState(name) {
			names = append(names, name)
		}
	}
	return names
}

func (i inline) write(ctx context.Context, m *module) error {
	for name, text := range i {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if isState(name) {
			err := m.placeOnce(name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
			if err != nil {
				return err
			}
			continue
		}
		if err := m.clear(name); err != nil {
			return err
		}
		if err := m.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// clear takes away what keeps a file of the source from being written: a file or a link where a folder has to
// be, or a folder where the file has to be. Local state does not go: stateInTheWay has looked before.
func (m *module) clear(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := m.root.Lstat(dir); err == nil && !info.IsDir() {
			if isState(dir) {
				return fault.New(fault.Conflict, "state_in_the_way", "the source has a folder where the Module keeps its state %q", dir).
					WithHint("move the state on the Runner's host, or rename the folder in the source")
			}
			if err := m.root.Remove(dir); err != nil {
				return fmt.Errorf("make room for a folder of the source: %w", err)
			}
		}
	}
	if info, err := m.root.Lstat(name); err == nil && info.IsDir() {
		if err := m.root.RemoveAll(name); err != nil {
			return fmt.Errorf("make room for a file of the source: %w", err)
		}
	}
	return nil
}
