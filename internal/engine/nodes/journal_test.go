package nodes

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestWhatMustNotBeDoneTwiceIsOnTheDisk: that a step begins which is not repeatable is forced to the disk before anything of it is done, for many Nodes at once.
func TestWhatMustNotBeDoneTwiceIsOnTheDisk(t *testing.T) {
	for _, c := range []struct {
		name       string
		repeatable bool
		fails      bool
	}{{name: "once only"}, {name: "repeatable", repeatable: true}, {name: "a disk that fails", fails: true}} {
		t.Run(c.name, func(t *testing.T) {
			var syncs atomic.Int32
			var mu sync.Mutex
			var stored []byte // what a power cut would leave
			syncFile = func(f *os.File) error {
				syncs.Add(1)
				if c.fails {
					return errors.New("input/output error")
				}
				data, err := os.ReadFile(f.Name())
				mu.Lock()
				defer mu.Unlock()
				stored = data
				return err
			}
			defer func() { syncFile = (*os.File).Sync }()
			one := command("one")
			one.Step.Repeatable = c.repeatable
			f := file(t, 200, one)
			f.Run.Concurrency = 50
			path := filepath.Join(t.TempDir(), "round")
			if err := f.Write(path); err != nil {
				t.Fatal(err)
			}
			m := newMemory(func(_ context.Context, at string, _ Command) (Result, error) {
				mu.Lock()
				defer mu.Unlock()
				if index := bytes.TrimPrefix([]byte(at), []byte("web-")); !c.repeatable && !bytes.Contains(stored, append(append([]byte(`{"node":`), index...), ',')) {
					t.Errorf("%s begins, and the disk does not know", at)
				}
				return Result{Began: true}, nil
			})
			var out bytes.Buffer
			x := Executor{Transport: func(*File, map[string]string, []string) (Transport, error) { return m, nil }}
			code := x.run(t.Context(), path, nil, &out, nil)
			switch n := int(syncs.Load()); {
			case c.fails && (code != 1 || len(m.begun) > 0):
				t.Errorf("it ended with %d, and %d were begun", code, len(m.begun))
			case !c.fails && (code != 0 || len(m.begun) != 200):
				t.Errorf("it ended with %d, and %d were begun", code, len(m.begun))
			case c.repeatable && n > 0, !c.repeatable && !c.fails && (n == 0 || n > 200):
				t.Errorf("the disk was written %d times", n)
			}
		})
	}
}

// TestGroupsOnTheDisk: those that come while the disk is written are served by one further write.
func TestGroupsOnTheDisk(t *testing.T) {
	j, err := openJournal(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	entered, leave := make(chan struct{}), make(chan struct{})
	syncs := 0
	syncFile = func(*os.File) error { // of which one runs at a time
		if syncs++; syncs == 1 {
			close(entered)
			<-leave
		}
		return nil
	}
	defer func() { syncFile = (*os.File).Sync }()
	var all sync.WaitGroup
	begin := func(n int) {
		if err := j.begin(true, pairKey{n, 0}); err != nil {
			t.Error(err)
		}
	}
	all.Go(func() { begin(0) })
	<-entered
	for n := range 100 {
		all.Go(func() { begin(n + 1) })
	}
	for written := 0; written < 101; {
		j.mu.Lock()
		written = j.written
		j.mu.Unlock()
	}
	close(leave)
	all.Wait()
	if syncs != 2 {
		t.Errorf("the disk was written %d times", syncs)
	}
}
