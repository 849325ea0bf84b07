package api

import (
	"context"
	"sync"
	"time"

	"legwork/internal/catalog"
)

const (
	recheckInterval = 10 * time.Second // between two looks at the rights of what is open
	recheckTimeout  = 5 * time.Second
)

// grants are the streams and Sessions that are open, each with the Actor that it was opened for. While there are any, one
// goroutine looks at regular intervals whether their Credentials still stand, and ends those that do not.
type grants struct {
	mu   sync.Mutex
	open map[*grant]struct{}
	stop context.CancelFunc // of the goroutine; nil while nothing is open
}

// grant is one thing that stays open after it was authenticated.
type grant struct {
	actor catalog.Actor
	end   func()
}

// whileGranted has end called once the Credential of an Actor was deleted, has expired or has another role. The caller
// calls release when it is done.
func (s *Server) whileGranted(actor catalog.Actor, end func()) (release func()) {
	g := &grant{actor, end}
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	if s.grants.open == nil {
		s.grants.open = map[*grant]struct{}{}
	}
	s.grants.open[g] = struct{}{}
	if s.grants.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s.grants.stop = cancel
		go s.recheckGrants(ctx)
	}
	return func() { s.grants.release(g) }
}

func (all *grants) release(g *grant) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, g)
	if len(all.open) == 0 && all.stop != nil {
		all.stop()
		all.stop = nil
	}
}

// recheckGrants ends what is not granted any more, until nothing is open.
func (s *Server) recheckGrants(ctx context.Context) {
	tick := time.NewTicker(s.RecheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for org, open := range s.grants.byOrganization() {
			s.endRevoked(ctx, org, open)
		}
	}
}

func (all *grants) byOrganization() map[string][]*grant {
	all.mu.Lock()
	defer all.mu.Unlock()
	found := map[string][]*grant{}
	for g := range all.open {
		found[g.actor.OrganizationID] = append(found[g.actor.OrganizationID], g)
	}
	return found
}

// endRevoked ends those of some grants of one Organization whose Credential no longer stands.
func (s *Server) endRevoked(ctx context.Context, org string, open []*grant) {
	ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	distinct := map[string]bool{}
	var credentials []string
	for _, g := range open {
		if !distinct[g.actor.CredentialID] {
			distinct[g.actor.CredentialID] = true
			credentials = append(credentials, g.actor.CredentialID)
		}
	}
	standing, err := s.Access.Standing(ctx, org, credentials)
	if err != nil {
		if ctx.Err() == nil {
			s.Log.Warn("the rights of open streams and sessions were not checked", "error", err)
		}
		return
	}
	for _, g := range open {
		now, stands := standing[g.actor.CredentialID]
		if !stands || now.Role != g.actor.Role {
			g.end()
		}
	}
}
