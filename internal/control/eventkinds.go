package control

import "legwork/internal/work"

// EventKinds are the kinds of events in the outbox of an organization, for descriptions: those of jobs, one for each
// status, and those of everything else.
var EventKinds = append(jobEventKinds(),
	"assignment.changed", "cloud_identity.changed", "credential.changed",
	"job.part", "job.silent", "maintenance.off", "maintenance.on", "manifest.revealed",
	"module.changed", "module.state_released", "module.trigger_skipped", "namespace.changed",
	"node.changed", "node_source.changed", "node_source.failed", "node_source.refreshed", "outputs.revealed",
	"principal.changed", "registration_token.changed", "release.drafted", "release.published", "release.withdrawn",
	"runbook.changed", "runbook.schedule_failed", "runbook.scheduled",
	"runner.available", "runner.changed", "runner.disconnected", "runner.draining", "runner.instance_registered", "runner.load",
	"runner.name_taken", "runner.offline", "runner.online", "runner.resumed", "runner.unavailable", "runner.wanted",
	"secret.changed", "secret.used", "stack.changed", "user.changed", "user.logged_in", "user.login_refused",
	"webhook.delivered", "webhook.failed", "webhook.revealed", "webhook.rotated")

func jobEventKinds() (kinds []string) {
	for _, status := range work.Statuses {
		kinds = append(kinds, "job."+string(status))
	}
	return kinds
}
