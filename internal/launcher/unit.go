package launcher

import (
	"maps"
	"strconv"

	"legwork/internal/work"
)

// The keys of tags. They and their values, but for TagUnit, are valid labels of Kubernetes and of Docker, and tags of AWS: at most 63 of
// letters, digits, "-", "_" and ".".
const (
	TagOwner        = "legwork-owner"        // the installation
	TagOrganization = "legwork-organization" // id
	TagRunnerID     = "legwork-runner-id"    // with TagOwner: what a process is found by
	TagRunner       = "legwork-runner"       // name, for people
	TagUnit         = "legwork-unit"         // name of a process: up to 72 characters, too long for a label of Kubernetes
)

// Tags are what everything bears that is made for a Runner. Two Runners, or those of two installations, never have the same
// TagOwner and TagRunnerID.
func Tags(task *work.RunnerTask) map[string]string {
	return map[string]string{TagOwner: task.Owner, TagOrganization: task.OrganizationID, TagRunnerID: task.RunnerID, TagRunner: task.Runner}
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
	return env
}
