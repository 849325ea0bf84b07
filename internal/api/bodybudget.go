package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/sync/semaphore"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

const (
	smallBody       = 64 << 10 // bodies up to this size are not counted
	defaultBody     = 1 << 20  // largest body of an operation that names no other, as the library has it
	minBodyBudget   = 64 << 20
	bodyBudgetQueue = 10 * time.Second // how long a request waits for others to be over
)

// newBodyBudget returns what bounds the bytes of bodies that are in memory at once, two of the largest at least.
func newBodyBudget(maxBody int64) (*semaphore.Weighted, int64) {
	size := max(minBodyBudget, 4*maxBody)
	return semaphore.NewWeighted(size), size
}

// guardBody returns what an operation does before its body is read: it checks the permission, and waits until there is
// room for the body.
func (s *Server) guardBody(op huma.Operation) func(huma.Context, func(huma.Context)) {
	need, known := permissions[op.OperationID]
	if !known {
		panic("the operation " + op.OperationID + " is missing in permissions")
	}
	limit := op.MaxBodyBytes
	if limit == 0 {
		limit = defaultBody
	}
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		release, err := s.admitBody(r, limit, need)
		if err != nil {
			s.writeProblem(w, r, err)
			return
		}
		defer release()
		next(ctx)
	}
}

// admitBody checks the permission of a request and reserves memory for its body.
func (s *Server) admitBody(r *http.Request, limit int64, need catalog.Permission) (release func(), err error) {
	if need != "" {
		if err := actorOf(r.Context()).Need(need); err != nil {
			return nil, err
		}
	}
	size := r.ContentLength
	if size < 0 || size > limit {
		size = limit
	}
	if size <= smallBody || r.Body == http.NoBody {
		return func() {}, nil
	}
	if r.Header.Get(idempotencyHeader) != "" {
		size *= 2 // the body is read before the handler reads it
	}
	size = min(size, s.bodyBudgetSize)
	ctx, cancel := context.WithTimeout(r.Context(), bodyBudgetQueue)
	defer cancel()
	if s.bodyBudget.Acquire(ctx, size) != nil {
		return nil, fault.New(fault.Unavailable, "too_many_bodies", "the Server is busy with other large requests").WithHint("try again in a few seconds")
	}
	return func() { s.bodyBudget.Release(size) }, nil
}
