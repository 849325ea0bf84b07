package store

import (
	"time"
)

// LoadSample is how much there was to do at one moment, in an Organization or at one of its Runners.
type LoadSample struct {
	RunnerID string // "" for the whole Organization
	At       time.Time
	Queued   int           // Jobs that waited; 0 for a Runner, because a Job may wait for several
	Oldest   time.Duration // that the first of them had waited
	Active   int           // Jobs that took a place
	Capacity int           // places of the connected Instances
}

// Loads counts how it is now in every Organization, by its id, and at each of its Runners that has a place or a Job.
func (tx *Tx) Loads() (map[string][]LoadSample, error) {
	organizations, err := tx.Organizations()
	loads := map[string][]LoadSample{}
	for n := 0; n < len(organizations) && err == nil; n++ {
		id := organizations[n].ID
		loads[id], err = tx.loadOf(id)
	}
	return loads, err
}

// PutLoadSamples notes what Loads counted, under the given time. What is noted for that time already, by another Server,
// stays.
func (tx *Tx) PutLoadSamples(at time.Time, loads map[string][]LoadSample) error {
	for org, samples := range loads {
		for _, s := range samples {
			_, err := tx.exec(`INSERT INTO load_samples (org, runner_id, at, queued, oldest, active, capacity)
				VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
				org, s.RunnerID, micros(at), s.Queued, s.Oldest.Microseconds(), s.Active, s.Capacity)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// loadOf counts what an Organization has to do now: the whole first, then its Runners.
func (tx *Tx) loadOf(org string) ([]LoadSample, error) {
	whole := LoadSample{}
	err := tx.countQueued(org, &whole)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	samples := []LoadSample{whole}
	runner := func(id string) *LoadSample {
		if at[id] == 0 {
			at[id] = len(samples)
			samples = append(samples, LoadSample{RunnerID: id})
		}
		return &samples[at[id]]
	}
	instances, err := tx.Instances(org, "")
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		if i.Connected {
			runner(i.RunnerID).Capacity += i.Capacity
			samples[0].Capacity += i.Capacity
		}
	}
	taken, err := list(tx, scanPlaces, selectPlacesOfOrg, org)
	for _, p := range taken {
		runner(p.runnerID).Active += p.taken
		samples[0].Active += p.taken
	}
	return samples, err
}

func (tx *Tx) countQueued(org string, s *LoadSample) error {
	scan := func(r row) (struct{}, error) {
		var oldest *int64
		err := r.Scan(&s.Queued, &oldest)
		if oldest != nil {
			s.Oldest = max(tx.now.Sub(moment(*oldest)), 0)
		}
		return struct{}{}, err
	}
	_, err := list(tx, scan, selectQueueDepth, org)
	return err
}

const selectSamples = `SELECT runner_id, at, queued, oldest, active, capacity FROM load_samples
	WHERE org = $1 AND runner_id = $2 AND at >= $3 ORDER BY at LIMIT 10000`

// LoadSamples gives the samples of an Organization (runnerID "") or of one of its Runners since a time, the oldest first, at most
// 10,000.
func (tx *Tx) LoadSamples(org, runnerID string, since time.Time) ([]LoadSample, error) {
	scan := func(r row) (s LoadSample, err error) {
		var at, oldest int64
		err = r.Scan(&s.RunnerID, &at, &s.Queued, &oldest, &s.Active, &s.Capacity)
		s.At, s.Oldest = moment(at), time.Duration(oldest)*time.Microsecond
		return s, err
	}
	return list(tx, scan, selectSamples, org, runnerID, micros(since))
}

// PruneLoadSamples deletes samples from before a time, at most 10,000 at once.
func (tx *Tx) PruneLoadSamples(before time.Time) error {
	_, err := tx.exec(`DELETE FROM load_samples WHERE at < $1
		AND at <= (SELECT max(at) FROM (SELECT at FROM load_samples ORDER BY at LIMIT 10000) oldest)`, micros(before))
	return err
}
