package engine

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"sync"
	"time"
)

const (
	versionsKept = 24 * time.Hour // how long what a file says of a program holds
	versionsMost = 1 << 20        // bytes of a file of versions
)

// VersionsFile is the name of the file of versions in the working directory of a Runner, see WithVersions.
const VersionsFile = "versions.json"

type versionsFile struct{}

// WithVersions has Versions remember in a file, beyond the end of the process, what programs said of their versions. Processes that begin with a
// copy of that file need not ask: to start ansible-playbook or pulumi costs more of a processor than all else that a Runner does at its start.
func WithVersions(ctx context.Context, path string) context.Context {
	return context.WithValue(ctx, versionsFile{}, path)
}

// noted is what a file says of the version of a program.
type noted struct {
	Modified time.Time `json:"modified"` // of the program's file
	Size     int64     `json:"size"`
	Version  string    `json:"version"`
	Asked    time.Time `json:"asked"`
}

// notes makes those who write a file of versions do so one after the other.
var notes sync.Mutex

// readNotes reads a file of versions. One that is not there, or says nothing, is empty: it only saves time.
func readNotes(path string) map[string]noted {
	all := map[string]noted{}
	if info, err := os.Stat(path); err != nil || info.Size() > versionsMost {
		return all
	}
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &all) != nil {
		return map[string]noted{}
	}
	return all
}

// noteOf gives the version of a program that the file of ctx knows.
func noteOf(ctx context.Context, program string, info fs.FileInfo) (version string, ok bool) {
	path, _ := ctx.Value(versionsFile{}).(string)
	if path == "" {
		return "", false
	}
	n, ok := readNotes(path)[program]
	ok = ok && n.Version != "" && n.Modified.Equal(info.ModTime()) && n.Size == info.Size()
	if age := time.Since(n.Asked); !ok || age < 0 || age > versionsKept {
		return "", false
	}
	return n.Version, true
}

// note keeps the version of a program in the file of ctx. That it cannot costs time alone.
func note(ctx context.Context, program string, info fs.FileInfo, version string) {
	path, _ := ctx.Value(versionsFile{}).(string)
	if path == "" {
		return
	}
	notes.Lock()
	defer notes.Unlock()
	all := readNotes(path)
	for name, n := range all {
		if time.Since(n.Asked) > versionsKept {
			delete(all, name)
		}
	}
	all[program] = noted{Modified: info.ModTime(), Size: info.Size(), Version: version, Asked: time.Now().UTC()}
	if text, err := json.Marshal(all); err == nil && os.WriteFile(path+".new", text, 0o600) == nil {
		_ = os.Rename(path+".new", path)
	}
}
