package api

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

const (
	smallBody       = 64 << 10 // bodies up to this size are not counted
	bodyPortion     = 64 << 10 // bytes that are reserved at a time
	defaultBody     = 1 << 20  // largest body of an operation that names no other, as the library has it
	minBodyBudget   = 64 << 20
	bodyBudgetQueue = 10 * time.Second // how long a request waits for others to be over
)

// bodyBudget bounds the bytes of request bodies in memory: of all requests, and of each principal or user, who gets
// half at most. Bytes count from their arrival, so a slow request holds no memory that it does not fill.
type bodyBudget struct {
	share int64
	all   *room

	mu     sync.Mutex
	actors map[string]*actorBudget
}

// actorBudget is the share of one principal or user, while it has requests.
type actorBudget struct {
	*room
	requests int
}

// newBodyBudget returns a budget with room for four of the largest bodies.
func newBodyBudget(maxBody int64) *bodyBudget {
	size := max(minBodyBudget, 4*maxBody)
	return &bodyBudget{share: size / 2, all: newRoom(size), actors: map[string]*actorBudget{}}
}

// join returns the share of an actor. leave must be called.
func (b *bodyBudget) join(actor string) *actorBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	share := b.actors[actor]
	if share == nil {
		share = &actorBudget{room: newRoom(b.share)}
		b.actors[actor] = share
	}
	share.requests++
	return share
}

func (b *bodyBudget) leave(actor string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	share := b.actors[actor]
	if share.requests--; share.requests == 0 {
		delete(b.actors, actor)
	}
}

// countedBody is the body of a request whose bytes are reserved in the budget as they arrive.
type countedBody struct {
	io.ReadCloser
	ctx    context.Context
	budget *bodyBudget
	actor  string
	copies int64 // of the body in memory at once

	share    *holding // of the share of the actor; nil until something is reserved
	all      *holding
	arrived  int64
	reserved int64
	failed   error
}

// Read reads the body, and waits for room in the budget.
func (c *countedBody) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.ReadCloser.Read(p)
	c.arrived += int64(n)
	if c.arrived > smallBody && c.arrived*c.copies > c.reserved {
		if c.failed = c.reserve(c.arrived * c.copies); c.failed != nil {
			return 0, c.failed
		}
	}
	return n, err
}

// reserve takes room for a number of bytes in all, in portions.
func (c *countedBody) reserve(bytes int64) error {
	bytes = min((bytes+bodyPortion-1)/bodyPortion*bodyPortion, c.budget.share)
	more := bytes - c.reserved
	if more <= 0 {
		return nil
	}
	if c.share == nil {
		c.share, c.all = &holding{room: c.budget.join(c.actor).room}, &holding{room: c.budget.all}
	}
	ctx, cancel := context.WithTimeout(c.ctx, bodyBudgetQueue)
	defer cancel()
	if !c.share.grow(ctx, more) {
		return fault.New(fault.Unavailable, "too_many_bodies", "the server is busy with other large requests of yours").
			WithHint("Send fewer large requests at a time.")
	}
	if !c.all.grow(ctx, more) {
		return fault.New(fault.Unavailable, "too_many_bodies", "the server is busy with other large requests").
			WithHint("Try again in a few seconds.")
	}
	c.reserved = bytes
	return nil
}

// release returns the room that the request reserved.
func (c *countedBody) release() {
	if c.share == nil {
		return
	}
	c.share.release()
	c.all.release()
	c.budget.leave(c.actor)
}

// guardBody returns what an operation does before its body is read: it checks the permission, and counts the body.
func (s *Server) guardBody(op huma.Operation) func(huma.Context, func(huma.Context)) {
	need, known := permissions[op.OperationID]
	if !known {
		panic("the operation " + op.OperationID + " is missing in permissions")
	}
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		if err := allowed(r, need); err != nil {
			s.writeProblem(w, r, err)
			return
		}
		_, isCounted := r.Body.(*memoryBody) // in the request that makes this one
		if isCounted || r.Body == nil || r.Body == http.NoBody {
			next(ctx)
			return
		}
		body := &countedBody{ReadCloser: r.Body, ctx: r.Context(), budget: s.bodyBudget, actor: budgetKey(r.Context()), copies: 1}
		if r.Header.Get(idempotencyHeader) != "" {
			body.copies = 2 // the body is read before the handler reads it
		}
		defer body.release()
		r.Body = body
		next(ctx)
	}
}

// budgetKey returns the key of the share that a request counts against.
func budgetKey(ctx context.Context) string {
	sender := senderOf(ctx)
	return sender.OrganizationID + " " + sender.ID
}

// allowed checks the permission of a request. Operations without one check something else than a role.
func allowed(r *http.Request, need catalog.Permission) error {
	if need == "" {
		return nil
	}
	return actorOf(r.Context()).Need(need)
}
