package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"legwork/internal/durable"
	"legwork/internal/store"
)

// markerFile is a file in the data folder. It records the installation of the folder and the newest event of its database. A copy
// of only the database does not include it.
const markerFile = "installation.json"

// markerInterval is how often the position in the file is brought up to date.
const markerInterval = time.Second

// lastMarkerTimeout bounds the last update of the file, so that a database that does not answer cannot delay the end of the server.
const lastMarkerTimeout = 5 * time.Second

// marker is the content of the file.
type marker struct {
	Installation string `json:"installation"`
	Position     int64  `json:"position"` // of the newest event that this Server saw
	Folder       uint64 `json:"folder"`   // number of the folder in its file system; 0 where there is none
}

// errMarkerDamaged means that the server cannot compare the database with the file.
var errMarkerDamaged = errors.New("the file " + markerFile + " in the data folder is damaged")

// readMarker returns an empty marker when the file is missing, and errMarkerDamaged when it has no valid content.
func readMarker(dir string) (marker, error) {
	text, err := os.ReadFile(filepath.Join(dir, markerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return marker{}, nil
	}
	if err != nil {
		return marker{}, fmt.Errorf("read the marker of the installation: %w", err)
	}
	var m marker
	if err := json.Unmarshal(text, &m); err != nil || m.Installation == "" {
		return marker{}, errMarkerDamaged
	}
	return m, nil
}

func (m marker) write(dir string) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the marker of the installation: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, markerFile), append(text, '\n')); err != nil {
		return fmt.Errorf("write the marker of the installation: %w", err)
	}
	return nil
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
	known, err := readMarker(s.settings.Data)
	damaged := errors.Is(err, errMarkerDamaged)
	if err != nil && !damaged {
		return err
	}
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
		reason := copyReason(i, position, known, at)
		if damaged {
			reason = errMarkerDamaged.Error() + ": the server cannot tell whether the database is a copy"
		}
		if reason != "" && i.Hold == nil {
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
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastMarkerTimeout)
			defer stop()
			s.markPosition(last)
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
	_, err = st.Hold(ctx, reason)
	return err
}
