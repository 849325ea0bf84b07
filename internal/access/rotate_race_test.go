package access

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"legwork/internal/store"
	"legwork/internal/store/storetest"
)

// TestTheMasterKeyIsRotatedUnderServers has Servers read the keys over and over, and start, while the master key is rotated many times:
// on one host, all with the same file.
func TestTheMasterKeyIsRotatedUnderServers(t *testing.T) {
	url := storetest.Postgres(t)
	openPostgres := func() *store.Store {
		st, err := store.Open(t.Context(), url, quiet)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	dir := t.TempDir()
	path := filepath.Join(dir, masterKeyFile)
	st := openPostgres()
	first := open(t, st, dir).Sealer()
	sealed := seal(t, first, "hunter2", "m")
	ctx, over := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 3 {
		other := openPostgres()
		readers.Go(func() {
			s := &Sealer{store: other, file: MasterKeyFile{Path: path}}
			for ctx.Err() == nil {
				if err := s.refresh(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("a Server cannot read the keys: %v", err)
					return
				}
			}
			opens(t, s, sealed, "m", "hunter2")
		})
	}
	for range 10 {
		if err := RotateMaster(t.Context(), st, MasterKeyFile{Path: path}); err != nil {
			t.Errorf("rotate: %v", err)
			break
		}
	}
	over()
	readers.Wait()
	if _, err := os.Stat(path + nextSuffix); err == nil {
		t.Error("a key of a rotation is left beside the master key")
	}
	opens(t, open(t, st, dir).Sealer(), sealed, "m", "hunter2")
}

// TestTheDataKeyIsRotatedUnderThePresentMasterKey: the file of the master key is the same afterwards, which other hosts have copies of.
func TestTheDataKeyIsRotatedUnderThePresentMasterKey(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	path := filepath.Join(dir, masterKeyFile)
	open(t, st, dir)
	before, _ := os.ReadFile(path)
	fresh, err := RotateData(t.Context(), st, MasterKeyFile{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("the master key is another one")
	}
	opens(t, open(t, st, dir).Sealer(), seal(t, fresh, "x", "m"), "m", "x")
}
