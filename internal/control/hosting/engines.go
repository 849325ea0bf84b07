package hosting

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/store"
)

// engineRetry is how long an engine that an Instance lacks counts as missing for its whole Runner. Afterwards a waiting
// Job launches one Instance again, because the engine may have been installed.
const engineRetry = 5 * time.Minute

// engineSet are the engines that the Instances of a Runner are known to have. Nothing is known of the zero value.
type engineSet struct {
	runner   string
	launcher catalog.LauncherKind
	names    []string
}

// lacks reports whether the engine is known to be missing.
func (s engineSet) lacks(engine string) bool {
	return engine != "" && len(s.names) > 0 && !slices.Contains(s.names, engine)
}

// missing returns the sentence about a missing engine, with what to install.
func (s engineSet) missing(engine catalog.Engine) string {
	where := "use an image that has it (hosting.image)"
	if s.launcher == catalog.LaunchProcess || s.launcher == catalog.LaunchExec {
		where = "install it on the host where they are started, on the PATH of the processes"
	}
	return fmt.Sprintf("the instances of runner %s do not have the engine %s: %s; the server tries again within %d minutes", s.runner, engine, where,
		int(engineRetry/time.Minute))
}

// known returns the engines of a Runner as they are known now: what was seen too long ago, or of Instances that are
// launched otherwise, does not count.
func (f *fleet) known(now time.Time) engineSet {
	if now.Sub(f.state.EnginesAt) > engineRetry || f.state.EnginesOf != f.launchedAs() {
		return engineSet{}
	}
	return engineSet{runner: f.runner.Name, launcher: f.hosting.Launcher, names: f.state.Engines}
}

// launchedAs returns a digest of the settings that decide which engines an Instance has.
func (f *fleet) launchedAs() string {
	text, _ := json.Marshal([]any{f.hosting.Image, f.hosting.Environment, f.hosting.Exec, f.state.Version}) // strings never fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// serves reports whether an Instance has the engine of at least one waiting Job. Otherwise its slots are of no use to
// them.
func (f *fleet) serves(i store.Instance) bool {
	if len(f.waiting) == 0 || len(i.Engines) == 0 {
		return true
	}
	return slices.ContainsFunc(f.waiting, func(w Waiter) bool { return w.Engine == "" || i.Engines[w.Engine] != "" })
}
