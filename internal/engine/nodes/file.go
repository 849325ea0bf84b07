package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"legwork/internal/engine"
	"legwork/internal/work"
)

// maxFile bounds the file of a Round, in bytes.
const maxFile = 256 << 20

// File is what the Runner tells of a Round. It holds no value of a secret: those come as environment, LEGWORK_SECRET_<NAME>.
type File struct {
	Part   `json:"-"`
	Round  work.Round `json:"round"`
	Commit string     `json:"commit,omitempty"` // of a Source in git, when it was fetched for this Round
}

// Part is what is the same in all Rounds of an Attempt. It stands in a file of its own, which is written once.
type Part struct {
	Run work.RunSpec `json:"run"`
	Job Job          `json:"job"`

	WorkDir    string `json:"work_dir"`             // working directory of commands on this host, the same in all Rounds
	ScratchDir string `json:"scratch_dir"`          // for scripts and the like, emptied with the Attempt
	CacheDir   string `json:"cache_dir,omitempty"`  // shared by all Jobs of this host
	SourceDir  string `json:"source_dir,omitempty"` // of the Runbook's Source; "" when it has none
	// FetchDir is the folder of fetched files, "" where no step fetches any.
	FetchDir string `json:"fetch_dir,omitempty"`
	MinFree  int64  `json:"min_free,omitempty"` // bytes of the disk that fetched files leave free
	// HostKeys is a known_hosts file that this Runner keeps for itself; KnownHosts are the host's own. They need not exist.
	HostKeys   string   `json:"host_keys,omitempty"`
	KnownHosts []string `json:"known_hosts,omitempty"`

	StepTimeout time.Duration `json:"step_timeout,omitempty"` // of Items that have none of their own; 0 is none
	Interrupt   time.Duration `json:"interrupt,omitempty"`    // from SIGINT to SIGTERM; 0 means 30s
	Terminate   time.Duration `json:"terminate,omitempty"`    // from SIGTERM to SIGKILL; 0 means 10s
	// AnsiblePath is the ansible-playbook program of this host, "" when there is none.
	AnsiblePath string `json:"ansible_path,omitempty"`
}

// Job says of which Job the Round is.
type Job struct {
	ID      string `json:"id"`     // of the Part
	Parent  string `json:"parent"` // of the Runbook Job
	Number  int64  `json:"number"`
	Attempt int    `json:"attempt"`
	Part    int    `json:"part"`
	Runbook string `json:"runbook,omitempty"` // stack/name
	Stack   string `json:"stack,omitempty"`
}

// JournalPath, ResultPath, StopPath and KillPath give the files beside that of a Round.
func JournalPath(file string) string { return file + ".journal" }

// ResultPath gives where the result of the Round in file is written.
func ResultPath(file string) string { return file + ".result" }

// StopPath gives the file whose being there means: begin nothing further.
func StopPath(file string) string { return file + ".stop" }

// KillPath gives the file whose being there means: kill what runs.
func KillPath(file string) string { return file + ".kill" }

// Write makes the file of a Round, readable to its owner alone. One that is there is replaced. With the first Round of an Attempt it makes the file
// of the Part, and the state with what earlier Attempts did.
func (f *File) Write(path string) error {
	if !exists(PartPath(path)) {
		if err := f.Part.write(path); err != nil {
			return err
		}
	}
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding a Round: %w", err)
	}
	return replace(path, data)
}

func (p Part) write(path string) error {
	lines, err := pastLines(p.Run.Past)
	if err != nil {
		return err
	}
	if err := replace(StatePath(path), lines); err != nil {
		return err
	}
	p.Run.Past = nil
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encoding a Part: %w", err)
	}
	return replace(PartPath(path), data)
}

// replace writes a file of mode 0600 at once or not at all.
func replace(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := engine.WriteJobFile(temp, data); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// ReadSource gives where the source of a Round is that was written to path, and what was fetched for it.
func ReadSource(path string) (dir, commit string, err error) {
	f, err := readFile(path)
	if err != nil {
		return "", "", err
	}
	return f.SourceDir, f.Commit, nil
}

func readFile(path string) (*File, error) {
	f := new(File)
	if err := readJSON(PartPath(path), &f.Part); err != nil {
		return nil, err
	}
	if err := readJSON(path, f); err != nil {
		return nil, err
	}
	return f, f.check()
}

func readJSON(path string, into any) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("reading the Round: %w", err)
	}
	if info.Size() > maxFile {
		return errors.New("reading the Round: the file is too large")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the Round: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading the Round: %w", err)
	}
	return nil
}

// check tells whether the Round is one that can be performed.
func (f *File) check() error {
	if f.Round.First < 0 || f.Round.End > len(f.Run.Items) || f.Round.First >= f.Round.End {
		return fmt.Errorf("the Round has Items %d to %d of %d", f.Round.First, f.Round.End, len(f.Run.Items))
	}
	for _, n := range f.Round.Nodes {
		if _, ok := f.Run.Nodes[n]; !ok {
			return fmt.Errorf("the Round has Node %d, which the Part has not", n)
		}
	}
	for i := f.Round.First; i < f.Round.End; i++ {
		if s := f.Run.Items[i].Scope; s < 0 || s >= len(f.Run.Scopes) {
			return fmt.Errorf("the Item %d has no scope", i)
		}
	}
	return nil
}

// ReadResult reads what a Round came to; ok is false when it is not over.
func ReadResult(file string) (result work.RoundResult, ok bool, err error) {
	data, err := engine.ReadJobFile(filepath.Dir(file), filepath.Base(ResultPath(file)), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return result, false, nil
	}
	if err != nil {
		return result, false, fmt.Errorf("reading the result of a Round: %w", err)
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return result, false, fmt.Errorf("reading the result of a Round: %w", err)
	}
	return result, true, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
