package launcher

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/work"
)

// The keys of tags. They and their values, but for TagUnit, are valid labels of Kubernetes and of Docker, and tags of AWS: at most 63 of
// letters, digits, "-", "_" and ".".
const (
	TagOwner        = "legwork-owner"        // the installation
	TagOrganization = "legwork-organization" // id
	TagRunnerID     = "legwork-runner-id"    // with TagOwner: what a process is found by
	TagRunner       = "legwork-runner"       // name, for people
	TagUnit         = "legwork-unit"         // name of a process: see UnitName
)

// Tags are what everything bears that is made for a Runner. Two Runners, or those of two installations, never have the same
// TagOwner and TagRunnerID.
func Tags(task *work.RunnerTask) map[string]string {
	return map[string]string{TagOwner: task.Owner, TagOrganization: task.OrganizationID, TagRunnerID: task.RunnerID, TagRunner: task.Runner}
}

// nameMost bounds what the name of a Unit takes of that of its Runner: launchers have bounds of their own, of 63 letters and less.
const nameMost = 40

// nameTail is how many letters the time and the chance in the name of a Unit have, each.
const nameTail = 8

// UnitName makes the name of a Unit that is entered in the ledger at a time: nobody else has it, and whoever sees the process, by whichever
// launcher and from however long ago, can tell with Entered what is newer.
func UnitName(runner string, entered time.Time) string {
	chance := make([]byte, nameTail/2)
	_, _ = rand.Read(chance) // never fails
	return fmt.Sprintf("%s-%0*x%x", runner[:min(len(runner), nameMost)], nameTail, entered.Unix(), chance)
}

// Entered gives when a Unit was entered in the ledger, to the second; zero where its name does not tell.
func Entered(name string) time.Time {
	tail := name[strings.LastIndexByte(name, '-')+1:]
	if len(tail) != 2*nameTail {
		return time.Time{}
	}
	at, err := strconv.ParseUint(tail[:nameTail], 16, 32)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(int64(at), 0)
}

// newer tells whether a process is of a launch that was entered after a task was asked for.
func newer(task *work.RunnerTask, name string) bool {
	return !task.Asked.IsZero() && Entered(name).After(task.Asked)
}

// Forgotten reports whether the Server has closed its record of a Unit: the task is a tidy that does not name it, and
// that was asked for after the Unit was entered. Work of such a Unit belongs to no open Job.
func Forgotten(task *work.RunnerTask, name string) bool {
	return !task.Asked.IsZero() && !slices.Contains(task.Known, name) && !newer(task, name)
}

// Environment gives the whole of what a process is told: Hosting.Environment, and the settings with which it registers itself as an
// Instance of its Runner. It holds secrets.
func Environment(task *work.RunnerTask, unit work.Unit) map[string]string {
	env := map[string]string{}
	capacity, oneOff := 1, false
	if h := task.Hosting; h != nil {
		maps.Copy(env, h.Environment)
		capacity, oneOff = max(h.JobsPerInstance, 1), h.OneOff
	}
	maps.Copy(env, map[string]string{
		"LEGWORK_SERVER__URL":               task.ServerURL,
		"LEGWORK_RUNNER__NAME":              task.Runner,
		"LEGWORK_RUNNER__INSTANCE":          unit.Name,
		"LEGWORK_RUNNER__REGISTRATIONTOKEN": unit.Token,
		"LEGWORK_RUNNER__CAPACITY":          strconv.Itoa(capacity),
		"LEGWORK_RUNNER__ONE_OFF":           strconv.FormatBool(oneOff),
		"LEGWORK_RUNNER__LIFETIME":          "ephemeral",
		"LEGWORK_RUNNER__UPDATES":           "off",
	})
	if strings.HasPrefix(task.ServerURL, "http://") && !Loopback(task.ServerURL) { // the Server allows it itself, or it would not listen
		env["LEGWORK_RUNNER__ALLOW_PLAIN_HTTP"] = "true"
	}
	return env
}
