package boot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"legwork/internal/store"
)

func TestMarkerIsReadAsWritten(t *testing.T) {
	dir := t.TempDir()
	got, err := readMarker(dir)
	if err != nil || got != (marker{}) {
		t.Errorf("a missing file: got %+v (%v), want an empty marker", got, err)
	}
	want := marker{Installation: "i", Position: 7, Folder: 9}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := readMarker(dir); err != nil || got != want {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	for _, text := range []string{"", "\x00\x00", `{"installation":`, `{}`} {
		if err := os.WriteFile(filepath.Join(dir, markerFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readMarker(dir); !errors.Is(err, errMarkerDamaged) {
			t.Errorf("%q: got %v, want %v", text, err, errMarkerDamaged)
		}
	}
}

func TestCopyReason(t *testing.T) {
	const here, elsewhere = "db1:5432/legwork", "db2:5432/legwork"
	used := store.Installation{ID: "i", Home: here}
	mine := marker{Installation: "i", Position: 10, Folder: 4}
	for name, c := range map[string]struct {
		installation store.Installation
		position     int64
		known        marker
		at           place
		want         string
	}{
		"never used":         {store.Installation{}, 0, marker{}, place{folder: 4, sqlite: true}, ""},
		"the same":           {used, 10, mine, place{home: here, folder: 4}, ""},
		"newer":              {used, 11, mine, place{home: here, folder: 4}, ""},
		"another server":     {used, 11, marker{}, place{home: here, folder: 5}, ""},
		"older":              {used, 9, mine, place{home: here, folder: 4}, "the database is older than what this server stored last: a copy was put back"},
		"another place":      {used, 10, mine, place{home: elsewhere, folder: 4}, "the database was copied to another place"},
		"SQLite, the same":   {store.Installation{ID: "i"}, 10, mine, place{folder: 4, sqlite: true}, ""},
		"SQLite, new folder": {store.Installation{ID: "i"}, 10, marker{}, place{folder: 4, sqlite: true}, "the database was put into a data folder that it was not used in before"},
		"SQLite, copied":     {store.Installation{ID: "i"}, 10, mine, place{folder: 5, sqlite: true}, "the data folder is a copy of another one"},
	} {
		if got := copyReason(c.installation, c.position, c.known, c.at); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
