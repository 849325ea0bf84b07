package engine

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	versionsKept = 24 * time.Hour // how long what a file says of a program holds
	versionsMost = 1 << 20        // bytes of a file of versions
)

// Files in the working directory of a Runner, see WithVersions.
const (
	VersionsFile   = "versions.json"        // what this process knows of the versions of programs
	HandedVersions = "versions-handed.json" // what it was told of them when it was made: the VersionsFile of another one
)

type versionsDir struct{}

// WithVersions has Versions write down in a folder what programs said of their versions, and believe what was handed down there: who begins
// with that need not ask, and to start ansible-playbook or pulumi costs more of a processor than all else that a Runner does at its start.
// What a process wrote down itself it does not believe when it begins again: whoever changed what a file cannot show, such as the version
// that a manager of versions runs, or the interpreter of a script, has to start it anew and no more.
func WithVersions(ctx context.Context, dir string) context.Context {
	return context.WithValue(ctx, versionsDir{}, dir)
}

// noted is what a file says of the version of a program.
type noted struct {
	Modified time.Time `json:"modified,omitzero"` // of the program's file
	Size     int64     `json:"size,omitzero"`
	Version  string    `json:"version,omitzero"`
	Asked    time.Time `json:"asked,omitzero"`
}

// isOf tells whether it is about a file as it is now.
func (n noted) isOf(info fs.FileInfo) bool {
	return n.Version != "" && n.Modified.Equal(info.ModTime()) && n.Size == info.Size()
}

// fresh tells whether it was asked not long ago.
func (n noted) fresh() bool {
	age := time.Since(n.Asked)
	return age >= 0 && age <= versionsKept
}

// notes makes those who write a file of versions do so one after the other.
var notes sync.Mutex

// readNotes reads a file of versions. One that is not there, or says nothing, is empty: it only saves time.
func readNotes(path string) map[string]noted {
	all := map[string]noted{}
	text, err := ReadJobFile(filepath.Dir(path), filepath.Base(path), versionsMost)
	if err != nil || json.Unmarshal(text, &all) != nil {
		return map[string]noted{}
	}
	return all
}

// CopyVersions copies the versions in a file to another file. Jobs can write both, so it copies nothing else.
func CopyVersions(from, to string) error {
	all := readNotes(from)
	if len(all) == 0 {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return WriteJobFile(to, text)
}

// handed gives what was handed down of a program in the folder of ctx, if that still holds.
func handed(ctx context.Context, program string, info fs.FileInfo) (n noted, ok bool) {
	dir, _ := ctx.Value(versionsDir{}).(string)
	if dir == "" {
		return n, false
	}
	n = readNotes(filepath.Join(dir, HandedVersions))[program]
	return n, n.isOf(info) && n.fresh()
}

// note writes down in the folder of ctx what is known of a program. That it cannot costs time alone.
func note(ctx context.Context, program string, n noted) {
	dir, _ := ctx.Value(versionsDir{}).(string)
	if dir == "" {
		return
	}
	path := filepath.Join(dir, VersionsFile)
	notes.Lock()
	defer notes.Unlock()
	all := readNotes(path)
	maps.DeleteFunc(all, func(_ string, old noted) bool { return !old.fresh() })
	all[program] = n
	if text, err := json.Marshal(all); err == nil && WriteJobFile(path+".new", text) == nil {
		_ = os.Rename(path+".new", path)
	}
}
