package work

import (
	"fmt"
	"strings"

	"legwork/internal/catalog"
)

// StateReport describes where an engine keeps the state of a module, and what it found there. An instance reports
// it after init, and after an apply or a destroy.
type StateReport struct {
	Backend string `json:"backend" cbor:"1,keyasint"` // type of the backend: "s3", "http", "local"
	// Local reports whether the state lies in files of the instance, because the code declares no backend or one of
	// files.
	Local     bool   `json:"local,omitempty" cbor:"2,keyasint,omitempty"`
	Exists    bool   `json:"exists,omitempty" cbor:"3,keyasint,omitempty"` // of a local state: it was found
	Lineage   string `json:"lineage,omitempty" cbor:"4,keyasint,omitempty"`
	Serial    int64  `json:"serial,omitempty" cbor:"5,keyasint,omitempty"`
	Resources int    `json:"resources,omitempty" cbor:"6,keyasint,omitempty"` // of a local state
}

// maxStateText bounds the texts of a StateReport, which comes from an instance.
const maxStateText = 200

// Bounded returns the report with its texts cut to a length that can be stored and shown.
func (r StateReport) Bounded() StateReport {
	r.Backend, r.Lineage = cutText(r.Backend, maxStateText), cutText(r.Lineage, maxStateText)
	return r
}

// The bounds of the warnings of a step.
const (
	maxWarnings    = 20
	maxWarningText = 500
)

// boundedWarnings returns warnings cut to a number and a length that can be stored and shown.
func boundedWarnings(warnings []string) []string {
	var bounded []string
	for _, w := range warnings[:min(len(warnings), maxWarnings)] {
		bounded = append(bounded, cutText(w, maxWarningText))
	}
	return bounded
}

func cutText(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// StateExpectation says what the Server knows of the state of a module before a job of it starts.
type StateExpectation struct {
	// Known is the state that the last job left. It is nil when there is none, or when starting without it was allowed.
	Known *StateReport `cbor:"1,keyasint,omitempty"`
	// Holder is the instance that reported Known, for people: "runner/instance".
	Holder string `cbor:"2,keyasint,omitempty"`
	// Ephemeral reports that files of the instance do not outlive it, so that a local state would be lost.
	Ephemeral bool `cbor:"3,keyasint,omitempty"`
}

// KeepsState reports whether modules of an engine have a state.
func KeepsState(engine catalog.Engine) bool { return engine != catalog.Script && engine != "" }

// Check returns why a job of a module must not continue with the state that its instance found after init, or nil.
// A state in a remote backend is never refused: the instance does not matter to it.
func (e StateExpectation) Check(module string, action Action, found StateReport) *Failure {
	known := e.Known
	switch {
	case !found.Local:
		return nil
	case e.Ephemeral && (action == Apply || action == Destroy):
		return &Failure{Code: "state_on_ephemeral_instance",
			Message: fmt.Sprintf("module %s declares no remote backend, and its state would be lost with this ephemeral instance", module),
			Hint:    "declare a remote backend in the code (such as s3, http or pg), or use a runner with persistent instances"}
	case known == nil:
		return nil
	case !found.Exists:
		return refusedState("state_missing", module,
			fmt.Sprintf("this instance has no state of module %s, although an earlier job left one %s", module, e.where()))
	case known.Lineage != "" && found.Lineage != known.Lineage:
		return refusedState("state_mismatch", module,
			fmt.Sprintf("this instance has another state of module %s than an earlier job left %s", module, e.where()))
	case found.Serial < known.Serial:
		return refusedState("state_outdated", module,
			fmt.Sprintf("the state of module %s on this instance is outdated: its serial is %d, and an earlier job left serial %d %s",
				module, found.Serial, known.Serial, e.where()))
	}
	return nil
}

// where names the place of the known state.
func (e StateExpectation) where() string {
	if e.Known.Backend != "" && !e.Known.Local {
		return "in backend " + e.Known.Backend
	}
	return "on instance " + e.Holder
}

func refusedState(code, module, message string) *Failure {
	return &Failure{Code: code, Message: message + ". Continuing would create everything again",
		Hint: "restore that state in the folder of the module on this instance, or accept what is there: " +
			"legwork module release-state --start-empty " + module}
}
