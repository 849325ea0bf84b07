package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"legwork/internal/durable"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/wire"
	"legwork/internal/work"
)

const (
	// failedAgain is how long a release that did not come online is not tried again by itself.
	failedAgain = time.Hour
	// latestWait bounds how long a Server may take to say which release is the newest.
	latestWait = 30 * time.Second
)

// orUpdate gives why the Runner ends. Where the Server does not speak with this release any more, it looks for a newer one at the Server,
// and takes it if the owner of the host consents: then it gives ErrReplaced.
func (r *Runner) orUpdate(ctx context.Context, err error, final *fault.Fault) error {
	if wire.CodeOf(err) != wire.CloseCapability || r.cfg.Updates.Consent == "" {
		return final
	}
	ref, err := r.latest(ctx)
	if err != nil {
		r.log.Warn("cannot ask the server for a newer release", "error", err)
		return final
	}
	if !release.Newer(ref.Version, r.cfg.Version) {
		return final // the Server is the older one, or nobody can tell
	}
	final = final.WithHint("release %s is at the Server: install it, or set Runner.updates to patch or minor; %s", ref.Version, r.howToGet(ref))
	u := upgrade{r: r, ref: ref, say: func(line string) { r.log.Info("update: " + line) }, mark: func(updateNote) error { return nil }}
	if err := u.allowed(); err != nil {
		r.log.Warn("a newer release is not installed", "release", ref.Version, "reason", err.Error(), "get", r.howToGet(ref))
		return final
	}
	if r.failedLately(ref.Version) {
		r.log.Warn("a newer release is not tried again yet: it did not come online", "release", ref.Version, "again_after", failedAgain)
		return final
	}
	if err := u.run(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		if fault.Code(err) == rolledBack { // else nothing is known of the release itself
			r.noteFailed(ref.Version)
		}
		r.log.Error("the update failed", "release", ref.Version, "error", err, "hint", fault.Of(err).Hint)
		return final
	}
	r.noteFailed("")
	return ErrReplaced
}

// howToGet says where a release is.
func (r *Runner) howToGet(ref work.ReleaseRef) string {
	name := "manifest.json"
	if m, err := release.Parse(ref.Manifest); err == nil {
		if a, err := m.Program(release.Here()); err == nil {
			name = a.Name
		}
	}
	at, err := url.JoinPath(r.cfg.ServerURL, ref.Path, name)
	if err != nil {
		return name
	}
	return "get " + at
}

// latest asks the Server for its newest stable release. That needs no Session.
func (r *Runner) latest(ctx context.Context) (ref work.ReleaseRef, err error) {
	ctx, cancel := context.WithTimeout(ctx, latestWait)
	defer cancel()
	if ref.Manifest, err = r.getSmall(ctx, "releases/latest/manifest.json", release.ManifestMost); err != nil {
		return ref, err
	}
	m, err := release.Parse(ref.Manifest)
	if err != nil {
		return ref, err
	}
	if ref.Version, err = release.Canonical(m.Version); err != nil {
		return ref, err
	}
	ref.Path = "releases/" + ref.Version
	ref.Signature, err = r.getSmall(ctx, ref.Path+"/manifest.json.minisig", release.SignatureMost)
	return ref, err
}

// getSmall reads something of the Server's that anybody may read.
func (r *Runner) getSmall(ctx context.Context, path string, most int64) ([]byte, error) {
	at, err := url.JoinPath(r.cfg.ServerURL, path)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	answer, err := r.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", at, answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = errors.New("the Server sent more than a release has")
	}
	return data, err
}

// failedRelease is what is remembered of a release that this Runner took by itself and that did not come online.
type failedRelease struct {
	Version string    `json:"version"`
	At      time.Time `json:"at"`
}

func (r *Runner) failedPath() string {
	return filepath.Join(r.cfg.WorkingDirectory, "update-failed.json")
}

func (r *Runner) failedLately(version string) bool {
	var f failedRelease
	data, err := os.ReadFile(r.failedPath())
	return err == nil && json.Unmarshal(data, &f) == nil && f.Version == version && time.Since(f.At) < failedAgain
}

// noteFailed remembers that a release failed, for the processes after this one; empty: none did.
func (r *Runner) noteFailed(version string) {
	if version == "" {
		_ = os.Remove(r.failedPath())
		return
	}
	if data, err := json.Marshal(failedRelease{version, time.Now()}); err == nil {
		_ = durable.WriteFile(r.failedPath(), data)
	}
}
