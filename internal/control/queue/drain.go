package queue

import "legwork/internal/wire"

// Tell has the Instance drain or take Jobs again, as an operator wants. The Instance is told once no claim of it is under way, so that no
// Job follows.
func (i *Instance) Tell(drain bool) {
	i.q.mu.Lock()
	defer i.q.mu.Unlock()
	i.tell(drain)
}

func (i *Instance) tell(drain bool) {
	i.told = drain
	i.tellings++
	i.draining = i.told || i.leaving
	i.send(&wire.Drain{Resume: !drain})
	if drain {
		i.recall()
		i.ackDue = true
		i.acknowledge()
	} else if !i.leaving {
		i.ackDue = false
	}
	i.q.Wake()
}

// Tellings is how often the Instance was told.
func (i *Instance) Tellings() uint64 {
	i.q.mu.Lock()
	defer i.q.mu.Unlock()
	return i.tellings
}

// Correct tells the Instance what it should have been told, where that differs. One that was told something since Tellings is left alone:
// what should be was read before that.
func (i *Instance) Correct(drain bool, tellings uint64) {
	i.q.mu.Lock()
	defer i.q.mu.Unlock()
	if i.told != drain && i.tellings == tellings {
		i.tell(drain)
	}
}

// Leave takes in that the process of the Instance ends when its Jobs are over, and tells whether that is news. It is acknowledged when neither
// an Offer stands nor a claim is under way: what was bound before that, the Instance was told before.
func (i *Instance) Leave() (news bool) {
	i.q.mu.Lock()
	defer i.q.mu.Unlock()
	news = !i.leaving
	i.leaving, i.draining, i.ackDue = true, true, true
	i.recall()
	i.acknowledge()
	i.q.Wake()
	return news
}

// Dismiss has the process of the Instance end when its Jobs are over.
func (i *Instance) Dismiss() {
	i.Tell(true)
	i.send(&wire.Drain{Leave: true})
}

// Recall takes back the Offers that stand with the Instance, but for those that it is claiming.
func (i *Instance) Recall() {
	i.q.mu.Lock()
	defer i.q.mu.Unlock()
	i.recall()
	i.q.Wake()
}

func (i *Instance) recall() {
	for id := range i.offered {
		o := i.q.offers[id]
		switch {
		case o == nil:
			delete(i.offered, id)
		case o.by != i:
			delete(i.offered, id)
			delete(o.to, i)
			i.send(&wire.Withdrawn{Ref: wire.Ref{Job: id, Attempt: o.attempt}})
			if len(o.to) == 0 && !o.claiming {
				delete(i.q.offers, id)
			}
		}
	}
}

// acknowledge answers a drain when no claim is under way.
func (i *Instance) acknowledge() {
	if i.ackDue && i.claims == 0 {
		i.ackDue = false
		i.send(&wire.DrainAck{})
	}
}
