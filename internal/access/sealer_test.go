package access

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"legwork/internal/fault"
)

func TestSealerRoundTrip(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenSealer(dir)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := s.Seal([]byte("hunter2"), []byte("module 1"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("hunter2")) {
		t.Error("the sealed value shows what is in it")
	}
	again, err := OpenSealer(dir)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := again.Open(sealed, []byte("module 1"))
	if err != nil || string(plain) != "hunter2" {
		t.Errorf("Open = %q, %v", plain, err)
	}
	if _, err := again.Open(sealed, []byte("module 2")); err == nil {
		t.Error("a value bound to one record was opened for another")
	}
}

func TestSealerRefusesWhatWasChanged(t *testing.T) {
	s, err := OpenSealer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sealed, _ := s.Seal([]byte("value"), nil)
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := s.Open(changed, nil); err == nil {
			t.Errorf("byte %d changed and still opened", i)
		}
	}
	for _, short := range [][]byte{nil, {}, sealed[:1], sealed[:12]} {
		if _, err := s.Open(short, nil); err == nil {
			t.Errorf("%d bytes opened", len(short))
		}
	}
	other, _ := OpenSealer(t.TempDir())
	if _, err := other.Open(sealed, nil); err == nil {
		t.Error("opened with another master key")
	}
}

func TestMasterKeyFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenSealer(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, masterKeyFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the master key is %v, %v", info.Mode(), err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	if err := os.WriteFile(path, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSealer(dir); fault.Code(err) != "master_key_damaged" {
		t.Errorf("a damaged key gave %v", err)
	}
}

func TestMasterKeyIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	sealers := make([]*Sealer, 8)
	for i := range sealers {
		wg.Go(func() {
			s, err := OpenSealer(dir)
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
