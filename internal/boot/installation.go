package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"legwork/internal/store"
)

// markerFile is a file in the data folder. It records the installation of the folder and the newest event of its database. A copy
// of only the database does not include it.
const markerFile = "installation.json"

// markerInterval is how often the position in the file is brought up to date.
const markerInterval = time.Second

// marker is the content of the file.
type marker struct {
	Installation string `json:"installation"`
	Position     int64  `json:"position"` // of the newest event that this Server saw
	Folder       uint64 `json:"folder"`   // number of the folder in its file system; 0 where there is none
}

// readMarker returns an empty marker when the file is missing or damaged.
func readMarker(dir string) (m marker) {
	text, err := os.ReadFile(filepath.Join(dir, markerFile))
	if err != nil || json.Unmarshal(text, &m) != nil {
		return marker{}
	}
	return m
}

func (m marker) write(dir string) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the marker of the installation: %w", err)
	}
	path := filepath.Join(dir, markerFile)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the marker of the installation: %w", err)
	}
	return os.Rename(path+".new", path)
}

// place is where a database is used.
type place struct {
	home   string // see store.Home
	folder uint64 // of the data folder
	sqlite bool   // the database is a file in the data folder
}

// copyReason returns why a database counts as a copy of the one that was used last, or "" when it does not.
func copyReason(i store.Installation, position int64, known marker, at place) string {
	mine := known.Installation == i.ID
	switch {
	case i.ID == "":
		return ""
	case i.Home != "" && at.home != "" && i.Home != at.home:
		return "the database was copied to another place"
	case mine && known.Position > position:
		return "the database is older than what this server stored last: a copy was put back"
	case at.sqlite && !mine:
		return "the database was put into a data folder that it was not used in before"
	case at.sqlite && known.Folder != at.folder:
		return "the data folder is a copy of another one"
	}
	return ""
}

// useDatabase takes the database into use. One that is a copy is put on hold.
func (s *server) useDatabase(ctx context.Context) error {
	at := place{folder: folderNumber(s.settings.Data), sqlite: s.settings.Database.Reveal() == ""}
	var err error
	if at.home, err = s.store.Home(ctx); err != nil {
		s.log.Warn("the database does not say where it is, so that a copy is not noticed by that", "error", err)
	}
	known := readMarker(s.settings.Data)
	now := marker{Folder: at.folder}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		i, err := tx.InstallationForUpdate()
		if err != nil {
			return err
		}
		position, err := tx.Position()
		if err != nil {
			return err
		}
		if reason := copyReason(i, position, known, at); reason != "" && i.Hold == nil {
			i.Hold = &store.Hold{Reason: reason, Since: tx.Now()}
		}
		if i.ID == "" {
			i.ID = uuid.NewString()
		}
		now.Installation, now.Position = i.ID, position
		if at.home != "" {
			i.Home = at.home
		}
		return tx.PutInstallation(i)
	})
	if err != nil {
		return err
	}
	s.marker = now
	return now.write(s.settings.Data)
}

// keepMarker brings the position in the marker up to date until ctx ends, and once more after that.
func (s *server) keepMarker(ctx context.Context) error {
	tick := time.NewTicker(markerInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.markPosition(ctx)
		case <-ctx.Done():
			s.markPosition(context.WithoutCancel(ctx))
			return nil
		}
	}
}

func (s *server) markPosition(ctx context.Context) {
	var position int64
	err := s.store.View(ctx, func(tx *store.Tx) (err error) {
		position, err = tx.Position()
		return err
	})
	if err != nil || position <= s.marker.Position {
		return
	}
	next := s.marker
	next.Position = position
	if err := next.write(s.settings.Data); err != nil {
		s.log.Warn("could not note how far the database is", "error", err)
		return
	}
	s.marker = next
}

// holdDatabase puts a database on hold before its Server starts.
func holdDatabase(ctx context.Context, settings ServerSettings, reason string) error {
	st, err := store.Open(ctx, databaseOf(settings), quiet())
	if err != nil {
		return err
	}
	defer st.Close()
	return st.Update(ctx, func(tx *store.Tx) error {
		i, err := tx.InstallationForUpdate()
		if err != nil || i.Hold != nil {
			return err
		}
		if i.ID == "" {
			i.ID = uuid.NewString()
		}
		i.Hold = &store.Hold{Reason: reason, Since: tx.Now()}
		return tx.PutInstallation(i)
	})
}
