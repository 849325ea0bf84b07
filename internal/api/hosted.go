package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/work"
)

// The types of Runners.
const (
	Hosted     = "hosted"      // Legwork starts and stops its processes
	SelfHosted = "self-hosted" // somebody starts them
)

// RunnerVersion is how the program of a Runner stands to the newest release.
type RunnerVersion struct {
	Version     string `json:"version,omitempty" doc:"The oldest of its Instances that are online; of all that are known if none is."`
	Newest      string `json:"newest,omitempty" doc:"The newest release of its channel; missing where there is none."`
	Outdated    bool   `json:"outdated" doc:"There is a newer release than version. Never of the Server's own Runner, which is part of its program."`
	UpdateTo    string `json:"update_to,omitempty" doc:"The release that an update which names none takes it to now: the newest that its host allows. Missing where it cannot be updated from here."`
	UpdateHeld  string `json:"update_held,omitempty" doc:"Why it cannot be updated from here."`
	Consent     string `json:"consent,omitempty" doc:"Of a self-hosted one: what its host lets a Server do (off, notify, patch, minor), the least of its Instances."`
	UpdateJobID string `json:"update_job_id,omitempty" doc:"The update Job under way or queued."`
}

func runnerVersionOf(v control.RunnerVersion) RunnerVersion {
	r := RunnerVersion{Version: v.Version, Newest: v.Newest, Outdated: v.Outdated, Consent: string(v.Consent),
		UpdateTo: v.To, UpdateHeld: v.Held}
	if v.Updating != nil {
		r.UpdateJobID = v.Updating.ID
	}
	return r
}

// Launch is one line of the ledger of a hosted Runner: an Instance that was started, why, and for how long.
type Launch struct {
	ID         string    `json:"id"`
	RunnerID   string    `json:"runner_id"`
	Name       string    `json:"name" doc:"Of the Instance."`
	State      string    `json:"state" enum:"starting,online,draining,ended,given_up" doc:"given_up: it never came online."`
	Launcher   string    `json:"launcher"`
	ExternalID string    `json:"external_id,omitempty" doc:"What the launcher calls the process: a process id, a container, the ARN of a task."`
	Version    string    `json:"version,omitempty" doc:"That it was started with. Where no release was asked for, it is known once it is online."`
	JobID      string    `json:"job_id,omitempty" doc:"The Job that starts it."`
	Why        string    `json:"why"`
	EndedWhy   string    `json:"ended_why,omitempty"`
	Stopped    bool      `json:"stopped,omitempty" doc:"Its process is known to be gone."`
	CreatedAt  time.Time `json:"created_at"`
	StartedAt  time.Time `json:"started_at" doc:"When its launcher began to start it; created_at until then."`
	OnlineAt   time.Time `json:"online_at,omitzero"`
	IdleFrom   time.Time `json:"idle_from,omitzero" doc:"Since when no Job holds a place of it."`
	DrainingAt time.Time `json:"draining_at,omitzero"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
}

func launchOf(l control.Launch) Launch {
	return Launch{
		ID: l.ID, RunnerID: l.RunnerID, Name: l.Name, State: string(l.State), Launcher: l.Launcher, ExternalID: l.ExternalID, Version: l.Version,
		JobID: l.JobID, Why: l.Why, EndedWhy: l.EndedWhy, Stopped: l.Stopped, CreatedAt: l.CreatedAt, StartedAt: l.Began(), OnlineAt: l.OnlineAt, IdleFrom: l.IdleFrom,
		DrainingAt: l.DrainingAt, EndedAt: l.EndedAt,
	}
}

// Demand is what the Jobs of a Runner want, for people and for other autoscalers.
type Demand struct {
	RunnerID  string    `json:"runner_id"`
	Runner    string    `json:"runner"`
	Waiting   int       `json:"waiting" doc:"Jobs that wait for nothing but an Instance."`
	Running   int       `json:"running" doc:"Jobs that hold a place. One that waits for an approval holds none."`
	Jobs      int       `json:"jobs" doc:"waiting and running together: the places that are wanted. Divided by those of one Instance, so many Instances."`
	Oldest    float64   `json:"oldest_wait_seconds" doc:"How long the first of those that wait does."`
	Wait      Quantiles `json:"wait_seconds" doc:"How long the Jobs that began in the last hour had waited."`
	Instances Fleet     `json:"instances"`
	Places    int       `json:"places" doc:"Of all Instances that are online and do not drain."`
	Desired   int       `json:"desired" doc:"Instances that should be there: of a hosted Runner by its limits, else those that the Jobs want."`
}

// Quantiles are the middle and the slow end of durations.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// Fleet counts Instances.
type Fleet struct {
	Online   int `json:"online" doc:"Idle and busy ones."`
	Idle     int `json:"idle" doc:"Online, without a Job."`
	Busy     int `json:"busy" doc:"Online, with a Job."`
	Draining int `json:"draining"`
	Starting int `json:"starting" doc:"Launched, not online yet."`
}

func demandOf(d control.Demand) Demand {
	return Demand{
		RunnerID: d.Runner.ID, Runner: d.Runner.Name, Waiting: d.Waiting, Running: d.Running, Jobs: d.Waiting + d.Running, Oldest: d.Oldest.Seconds(),
		Wait:      Quantiles{P50: d.WaitP50.Seconds(), P95: d.WaitP95.Seconds()},
		Instances: Fleet{Online: d.Instances, Idle: d.Idle, Busy: d.Busy, Draining: d.Draining, Starting: d.Starting},
		Places:    d.Places, Desired: d.Desired,
	}
}

// UpdateRequest asks for Jobs that take a Runner to another release.
type UpdateRequest struct {
	Version string `json:"version,omitempty" maxLength:"100" doc:"Of a published release; missing: the newest stable one."`
}

// Updates are the Jobs that take Runners to another release.
type Updates struct {
	Items   []*work.Job       `json:"items" nullable:"false" doc:"One for a hosted Runner, one for each outdated Instance of a self-hosted one. Those that were under way or queued before are among them."`
	Skipped map[string]string `json:"skipped,omitempty" doc:"By Runner, why one was left out."`
}

func updatesOf(jobs []*work.Job, skipped map[string]string) Updates {
	if jobs == nil {
		jobs = []*work.Job{}
	}
	return Updates{Items: jobs, Skipped: skipped}
}

// IdentityName is what the path of a Cloud identity holds.
type IdentityName struct {
	Name string `path:"name" maxLength:"100"`
}

type putIdentityIn struct {
	IdentityName
	Body catalog.CloudIdentitySpec
}

const runnerJob = " A Job that does so already is given in its place."

func (s *Server) registerHosted(h huma.API) {
	deploy := operation("deploy-runner", http.MethodPost, "/runners/{id}/deploy", "Runners", "Queue the Job that deploys a hosted Runner")
	deploy.Description = "It checks what the launcher may do, makes what the Instances share, and starts a first one." + runnerJob
	deploy.DefaultStatus = http.StatusCreated
	handle(s, h, deploy, func(ctx context.Context, actor catalog.Actor, in *ByID) (*jobOut, error) {
		return created(s.Control.DeployRunner(ctx, actor, in.ID))
	})
	remove := operation("remove-runner", http.MethodPost, "/runners/{id}/remove", "Runners", "Queue the Job that takes down all that was launched for a hosted Runner, and then deletes it")
	remove.Description = "Its Jobs that are under way end first." + runnerJob
	remove.DefaultStatus = http.StatusCreated
	handle(s, h, remove, func(ctx context.Context, actor catalog.Actor, in *ByID) (*jobOut, error) {
		return created(s.Control.RemoveRunner(ctx, actor, in.ID))
	})
	s.registerUpdates(h)
	handle(s, h, operation("list-launches", http.MethodGet, "/runners/{id}/launches", "Runners", "The ledger of a hosted Runner, newest first"),
		func(ctx context.Context, actor catalog.Actor, in *newestPageByID) (*body[listOf[Launch]], error) {
			key := func(one Launch) sortKey { return sortKey{one.ID} }
			return listPage(in, key, func(p control.Page) ([]Launch, error) {
				found, err := s.Control.Launches(ctx, actor, in.ID, p)
				return each(found, err, launchOf)
			})
		})
	demand := operation("get-runner-demand", http.MethodGet, "/runners/{id}/demand", "Runners", "What the Jobs of a Runner want, for autoscalers")
	demand.Description = "Of any Runner, hosted or not. `deploy/` has an example for KEDA; /metrics has the same of every Runner."
	handle(s, h, demand, func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[Demand], error) {
		d, err := s.Control.DemandOf(ctx, actor, in.ID)
		return answer(demandOf(d), err)
	})
	s.registerIdentities(h)
}

func (s *Server) registerUpdates(h huma.API) {
	update := operation("update-runner", http.MethodPost, "/runners/{id}/update", "Runners", "Queue the Jobs that take a Runner to another release")
	update.Description = "A hosted Runner is rolled by one Job; a self-hosted one has a Job for each outdated Instance, done one after the other. Jobs under way are not lost." + runnerJob
	update.DefaultStatus = http.StatusCreated
	handle(s, h, update, func(ctx context.Context, actor catalog.Actor, in *decideIn[UpdateRequest]) (*body[Updates], error) {
		jobs, err := s.Control.UpgradeRunner(ctx, actor, in.ID, in.said().Version)
		return answer(updatesOf(jobs, nil), err)
	})
	all := operation("update-runners", http.MethodPost, "/runners/update", "Runners", "Queue the Jobs that take every outdated Runner to the newest stable release")
	all.DefaultStatus = http.StatusCreated
	handle(s, h, all, func(ctx context.Context, actor catalog.Actor, _ *none) (*body[Updates], error) {
		jobs, skipped, err := s.Control.UpgradeRunners(ctx, actor)
		return answer(updatesOf(jobs, skipped), err)
	})
}

func (s *Server) registerIdentities(h huma.API) {
	handle(s, h, operation("list-cloud-identities", http.MethodGet, "/cloud-identities", "Cloud identities", "Every Cloud identity, without secrets"),
		func(ctx context.Context, actor catalog.Actor, in *Page) (*body[listOf[catalog.CloudIdentity]], error) {
			key := func(one catalog.CloudIdentity) sortKey { return sortKey{one.Name} }
			return listPage(in, key, func(p control.Page) ([]catalog.CloudIdentity, error) {
				return s.Control.CloudIdentities(ctx, actor, p)
			})
		})
	handle(s, h, operation("get-cloud-identity", http.MethodGet, "/cloud-identities/{name}", "Cloud identities",
		"One Cloud identity, without secrets"),
		func(ctx context.Context, actor catalog.Actor, in *IdentityName) (*body[catalog.CloudIdentity], error) {
			found, err := s.Control.CloudIdentities(ctx, actor)
			return answerOne("cloud_identity", in.Name, found, err, itself)
		})
	put := operation("put-cloud-identity", http.MethodPut, "/cloud-identities/{name}", "Cloud identities", "Create or change a Cloud identity")
	put.Description = replacesAll + " A secret_access_key that is left out stays, of the same access key. It is sealed, and never given back."
	handle(s, h, put, func(ctx context.Context, actor catalog.Actor, in *putIdentityIn) (*body[catalog.CloudIdentity], error) {
		in.Body.Name = cmp.Or(in.Body.Name, in.Name)
		if err := actor.Need(catalog.Administer); err != nil {
			return nil, err
		}
		if err := samePath(in.Name, in.Body.Name); err != nil {
			return nil, err
		}
		return answer(s.Control.PutCloudIdentity(ctx, actor, in.Body))
	})
	remove := operation("delete-cloud-identity", http.MethodDelete, "/cloud-identities/{name}", "Cloud identities", "Delete a Cloud identity that no Runner names")
	handle(s, h, remove, func(ctx context.Context, actor catalog.Actor, in *IdentityName) (*none, error) {
		return nil, s.Control.DeleteCloudIdentity(ctx, actor, in.Name)
	})
}

// runnerFacts are what RunnerViews of one answer are made with.
type runnerFacts struct {
	versions map[string]control.RunnerVersion
	regions  map[string]string // of Cloud identities
}

// runnerFacts reads what is said of every Runner at once. Cloud identities are looked at only where one is named.
func (s *Server) runnerFacts(ctx context.Context, actor catalog.Actor, runners ...control.RunnerView) (f runnerFacts, err error) {
	var only []string
	if len(runners) == 1 {
		only = []string{runners[0].ID}
	}
	if f.versions, err = s.Control.RunnerVersions(ctx, actor, only...); err != nil {
		return f, err
	}
	for _, r := range runners {
		if r.Hosting == nil || r.Hosting.Region != "" || r.Hosting.CloudIdentity == "" {
			continue
		}
		identities, err := s.Control.CloudIdentities(ctx, actor)
		if err != nil {
			return f, err
		}
		f.regions = map[string]string{}
		for _, i := range identities {
			f.regions[i.Name] = i.Region
		}
		break
	}
	return f, nil
}

// host adds to a RunnerView what its launcher and the releases have to do with.
func (f runnerFacts) host(r *RunnerView) {
	r.Version = runnerVersionOf(f.versions[r.ID])
	if r.Type = SelfHosted; r.Hosting != nil {
		r.Type, r.Region = Hosted, cmp.Or(r.Hosting.Region, f.regions[r.Hosting.CloudIdentity])
	}
}
