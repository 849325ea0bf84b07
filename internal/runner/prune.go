package runner

import (
	"cmp"
	"context"
	"slices"
	"time"

	"legwork/internal/source"
)

// How often the working directory is looked through, and how long what was used is left alone whatever its size.
const (
	pruneSoon   = time.Minute // after the start
	pruneEvery  = time.Hour
	pruneSpares = time.Hour
)

// Prune says which sources of Modules and mirrors are removed from the working directory. Never one in use.
type Prune struct {
	MaxAge     time.Duration // since it was last used; 0 means any
	MaxBytes   int64         // of all together; the least recently used go first; 0 means any
	LocalState bool          // also folders of Modules that hold local state or other files of their own
}

// keepHouse prunes from time to time until the Runner leaves.
func (r *Runner) keepHouse() {
	if r.cfg.Prune.MaxAge <= 0 && r.cfg.Prune.MaxBytes <= 0 {
		return
	}
	timer := time.NewTimer(pruneSoon)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			r.prune(r.cfg.Prune, time.Now())
			timer.Reset(pruneEvery)
		case <-r.life.Done():
			return
		}
	}
}

// prune removes what is too old, then what is too much.
func (r *Runner) prune(p Prune, now time.Time) {
	all, err := r.fetcher.Stored(r.home.modules())
	if err != nil {
		r.cleanupLog.Warn("the working directory cannot be looked through", "error", err)
		return
	}
	slices.SortFunc(all, func(a, b source.Stored) int { return cmp.Compare(a.Used.UnixNano(), b.Used.UnixNano()) })
	if age := p.MaxAge; age > 0 {
		all = slices.DeleteFunc(all, func(s source.Stored) bool { return now.Sub(s.Used) > age && r.discard(s, p, "age") })
	}
	if p.MaxBytes <= 0 {
		return
	}
	var total int64
	sizes := make([]int64, len(all))
	for i, s := range all {
		sizes[i] = s.Bytes()
		total += sizes[i]
	}
	for i, s := range all {
		if total <= p.MaxBytes || r.life.Err() != nil {
			return
		}
		if now.Sub(s.Used) > pruneSpares && r.discard(s, p, "size") {
			total -= sizes[i]
		}
	}
}

// discard removes what is stored, if nothing needs it, and tells whether it did.
func (r *Runner) discard(s source.Stored, p Prune, why string) bool {
	if !s.Mirror {
		tryOnce, cancel := context.WithCancel(r.life)
		cancel()
		release, err := r.modules.acquire(tryOnce, s.Name(), nil)
		if err != nil {
			return false
		}
		defer release()
		if r.holds(s.Name()) || !p.LocalState && s.OwnFiles() {
			return false
		}
	}
	removed, err := r.fetcher.Remove(s)
	if err != nil {
		r.cleanupLog.Warn("a folder cannot be removed", "folder", s.Path, "error", err)
	}
	if removed {
		r.cleanupLog.Info("folder removed", "folder", s.Path, "reason", why, "used", s.Used)
	}
	return removed
}

// holds tells whether a Job of a Module is on this host. One that comes later begins with a fetch, and that waits.
func (r *Runner) holds(moduleID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs {
		if j.ModuleID == moduleID {
			return true
		}
	}
	return false
}
