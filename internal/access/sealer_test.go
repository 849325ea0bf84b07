package access

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"legwork/internal/fault"
	"legwork/internal/store"
)

func sealer(t *testing.T, st *store.Store, dir string) *Sealer {
	t.Helper()
	s, err := OpenSealer(context.Background(), st, MasterKeyFile{Path: filepath.Join(dir, masterKeyFile)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func seal(t *testing.T, s *Sealer, plain, context string) []byte {
	t.Helper()
	sealed, err := s.Seal([]byte(plain), []byte(context))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func opens(t *testing.T, s *Sealer, sealed []byte, context, want string) {
	t.Helper()
	plain, err := s.Open(sealed, []byte(context))
	if err != nil || string(plain) != want {
		t.Errorf("Open = %q, %v; want %q", plain, err, want)
	}
}

func TestSealerRoundTrip(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	s := sealer(t, st, dir)
	sealed := seal(t, s, "hunter2", "module 1")
	if bytes.Contains(sealed, []byte("hunter2")) {
		t.Error("the sealed value shows what is in it")
	}
	again := sealer(t, st, dir)
	opens(t, again, sealed, "module 1", "hunter2")
	if _, err := again.Open(sealed, []byte("module 2")); err == nil {
		t.Error("a value bound to one record was opened for another")
	}
}

func TestSealerRefusesWhatWasChanged(t *testing.T) {
	s := sealer(t, openStore(t), t.TempDir())
	sealed, _ := s.Seal([]byte("value"), nil)
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := s.Open(changed, nil); err == nil {
			t.Errorf("byte %d changed and still opened", i)
		}
	}
	for _, short := range [][]byte{nil, {}, sealed[:1], sealed[:12], sealed[:17], sealed[:18]} {
		if _, err := s.Open(short, nil); err == nil {
			t.Errorf("%d bytes opened", len(short))
		}
	}
	other := sealer(t, openStore(t), t.TempDir())
	if _, err := other.Open(sealed, nil); err == nil {
		t.Error("opened with the keys of another database")
	}
}

func TestMasterKeyFile(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	sealer(t, st, dir)
	path := filepath.Join(dir, masterKeyFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the master key is %v, %v", info.Mode(), err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	for _, mode := range []os.FileMode{0o604, 0o640, 0o660, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSealer(t.Context(), st, MasterKeyFile{Path: path}); fault.Code(err) != "master_key_open" {
			t.Errorf("mode %o gave %v", mode, err)
		}
		want := ""
		if mode&0o007 != 0 {
			want = "master_key_open"
		}
		_, err := OpenSealer(t.Context(), st, MasterKeyFile{Path: path, AllowGroupAccess: true})
		if got := fault.Code(err); err != nil && got != want {
			t.Errorf("mode %o with access by the group: got code %q, want %q", mode, got, want)
		}
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	sealer(t, st, dir)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSealer(t.Context(), st, MasterKeyFile{Path: path}); fault.Code(err) != "master_key_damaged" {
		t.Errorf("a damaged key gave %v", err)
	}
	if err := os.WriteFile(path, []byte(newKeyText()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSealer(t.Context(), st, MasterKeyFile{Path: path}); fault.Code(err) != "master_key_wrong" {
		t.Errorf("the key of another database gave %v", err)
	}
}

func TestMasterKeyInAnotherPlace(t *testing.T) {
	st, dir, elsewhere := openStore(t), t.TempDir(), filepath.Join(t.TempDir(), "key")
	a, err := New(t.Context(), st, Settings{Dir: dir, MasterKey: MasterKeyFile{Path: elsewhere}}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, masterKeyFile)); err == nil {
		t.Error("there is a master key in the data folder, too")
	}
	opens(t, sealer(t, st, filepath.Dir(linked(t, elsewhere))), seal(t, a.Sealer(), "x", ""), "", "x")
}

// linked gives a file of the usual name that is the same.
func linked(t *testing.T, path string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), masterKeyFile)
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestMasterKeyIsMadeOnce(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	var wg sync.WaitGroup
	sealers := make([]*Sealer, 8)
	for i := range sealers {
		wg.Go(func() {
			s, err := OpenSealer(context.Background(), st, MasterKeyFile{Path: filepath.Join(dir, masterKeyFile)})
			if err != nil {
				t.Error(err)
			}
			sealers[i] = s
		})
	}
	wg.Wait()
	sealed, _ := sealers[0].Seal([]byte("x"), nil)
	for i, s := range sealers {
		if _, err := s.Open(sealed, nil); err != nil {
			t.Errorf("sealer %d has another key", i)
		}
	}
}

// TestValuesOfAnEarlierVersionOpen begins with a database whose values are sealed with the master key itself.
func TestValuesOfAnEarlierVersionOpen(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	path := filepath.Join(dir, masterKeyFile)
	master, err := makeMasterKey(MasterKeyFile{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	aead, err := aeadOf(master)
	if err != nil {
		t.Fatal(err)
	}
	old := aead.Seal([]byte{sealedByMaster}, nil, []byte("hunter2"), []byte("module 1"))
	key := aead.Seal([]byte{sealedByMaster}, nil, make([]byte, 32), []byte(signingKeyName))
	if err := st.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.PutServerKey(signingKeyName, key); return err }); err != nil {
		t.Fatal(err)
	}
	a := open(t, st, dir)
	opens(t, a.Sealer(), old, "module 1", "hunter2")
	if !a.Sealer().Stale(old) || a.Sealer().Stale(seal(t, a.Sealer(), "x", "")) {
		t.Error("what is sealed with the master key is stale, and what is sealed now is not")
	}
	for range 2 {
		if err := RotateMaster(t.Context(), st, MasterKeyFile{Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	opens(t, open(t, st, dir).Sealer(), old, "module 1", "hunter2")
}

func TestTheMasterKeyIsRotated(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	path := filepath.Join(dir, masterKeyFile)
	running := open(t, st, dir).Sealer()
	sealed := seal(t, running, "hunter2", "m")
	before, _ := os.ReadFile(path)
	if err := RotateMaster(t.Context(), st, MasterKeyFile{Path: path}); err != nil {
		t.Fatal(err)
	}
	after, _ := os.ReadFile(path)
	if bytes.Equal(before, after) {
		t.Fatal("the master key is the same")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 { // and the admin token
		t.Errorf("left behind: %v", entries)
	}
	opens(t, running, sealed, "m", "hunter2")
	opens(t, sealer(t, st, dir), seal(t, running, "later", "m"), "m", "later")
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), st, Settings{Dir: dir}, quiet); fault.Code(err) != "master_key_wrong" {
		t.Errorf("the old master key gave %v", err)
	}
	if err := RotateMaster(t.Context(), st, MasterKeyFile{Path: path}); fault.Code(err) != "master_key_wrong" {
		t.Errorf("a rotation with the old master key gave %v", err)
	}
	opens(t, running, sealed, "m", "hunter2")
}

// TestABrokenOffRotationOfTheMasterKey begins where a kill left things: the new key written, the database not; then both, and the
// file of the old name still the old one.
func TestABrokenOffRotationOfTheMasterKey(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	path := filepath.Join(dir, masterKeyFile)
	sealed := seal(t, open(t, st, dir).Sealer(), "hunter2", "m")
	if err := writeOnce(path+nextSuffix, newKeyText()); err != nil {
		t.Fatal(err)
	}
	opens(t, open(t, st, dir).Sealer(), sealed, "m", "hunter2")
	old, _ := os.ReadFile(path)
	next, _ := os.ReadFile(path + nextSuffix)
	if err := RotateMaster(t.Context(), st, MasterKeyFile{Path: path}); err != nil {
		t.Fatal(err)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, next) {
		t.Error("the key that was written already was not taken")
	}
	if err := errors.Join(os.WriteFile(path, old, 0o600), os.WriteFile(path+nextSuffix, next, 0o600)); err != nil {
		t.Fatal(err)
	}
	opens(t, open(t, st, dir).Sealer(), sealed, "m", "hunter2")
	if now, _ := os.ReadFile(path); !bytes.Equal(now, next) {
		t.Error("the start did not end the rotation")
	}
	if _, err := os.Stat(path + nextSuffix); err == nil {
		t.Error("the key of the rotation is still beside the new one")
	}
}

func TestDataKeysAreRotated(t *testing.T) {
	st, dir := openStore(t), t.TempDir()
	path := filepath.Join(dir, masterKeyFile)
	running := open(t, st, dir).Sealer()
	sealed := seal(t, running, "hunter2", "m")
	fresh, err := RotateData(t.Context(), st, MasterKeyFile{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if !fresh.Stale(sealed) {
		t.Error("what the old key sealed is not stale")
	}
	opens(t, running, seal(t, fresh, "new", "m"), "m", "new") // it did not know the key
	opens(t, fresh, seal(t, running, "old", "m"), "m", "old")
	again, err := RotateData(t.Context(), st, MasterKeyFile{Path: path}) // as after a kill
	if err != nil || again.Stale(seal(t, fresh, "x", "m")) {
		t.Errorf("a rotation that was broken off goes on with another key: %v", err)
	}
	if err := again.RetireOthers(t.Context()); err != nil {
		t.Fatal(err)
	}
	opens(t, sealer(t, st, dir), sealed, "m", "hunter2")
	third, err := RotateData(t.Context(), st, MasterKeyFile{Path: path})
	if err != nil || !third.Stale(seal(t, again, "x", "m")) {
		t.Errorf("the next rotation makes no new key: %v", err)
	}
}
