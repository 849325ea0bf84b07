package boot

import (
	"os"
	"path/filepath"
	"testing"

	"legwork/internal/fault"
)

// TestDataFolderModes checks which modes of the data folder a server accepts, with and without allow_group_access.
func TestDataFolderModes(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode       os.FileMode
		allowGroup bool
		want       string
	}{
		{0o700, false, ""},
		{0o750, false, "data_folder_open"},
		{0o770, false, "data_folder_open"},
		{0o770, true, ""},
		{0o2770, true, ""},
		{0o775, true, "data_folder_open"},
		{0o701, true, "data_folder_open"},
	} {
		if err := os.Chmod(folder, c.mode); err != nil {
			t.Fatal(err)
		}
		err := checkDataFolder(folder, c.allowGroup)
		if got := fault.Code(err); (err != nil || c.want != "") && got != c.want {
			t.Errorf("mode %04o, allow_group_access %v: got code %q, want %q", c.mode, c.allowGroup, got, c.want)
		}
	}
}
