package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// AuditEntry is one thing that somebody did.
type AuditEntry struct {
	ID      int64           `json:"id" doc:"Rising; that of the event."`
	Time    time.Time       `json:"time"`
	Action  string          `json:"action" doc:"job.submit, manifest.apply, runner.create, ..."`
	Actor   string          `json:"actor" doc:"Name of the principal at that time."`
	ActorID string          `json:"actor_id"`
	Address string          `json:"address,omitempty" doc:"That the request came from."`
	Kind    string          `json:"kind" doc:"Of the event: what changed."`
	Subject string          `json:"subject" doc:"Id of what changed."`
	Data    json.RawMessage `json:"data,omitempty" doc:"Of the event."`
}

// What names what was done something to, as people name it, and the number of the Job if it is one, else 0.
func (e AuditEntry) What() (text string, job int64) {
	var data struct {
		Number                                                    int64
		Module, Path, Principal, Instance, Runner, Name, User, By string
		Secrets                                                   []control.UsedSecret
	}
	_ = json.Unmarshal(e.Data, &data) // what it does not hold is not shown
	switch {
	case data.Number > 0 && e.Action == "secret.use":
		text = fmt.Sprintf("#%d", data.Number)
		for i, s := range data.Secrets {
			text += [2]string{" ", ", "}[min(i, 1)] + s.Name + "@" + s.Scope
		}
		return text, data.Number
	case data.Number > 0: // of a Job, whatever it is bound to
		return strings.TrimSpace(fmt.Sprintf("#%d %s", data.Number, data.Module)), data.Number
	case e.Action == "user.login":
		return cmp.Or(data.By, e.Subject), 0
	}
	return cmp.Or(data.Instance, data.Path, data.User, data.Principal, data.Runner, data.Name, data.Module, e.Subject), 0
}

// AuditPage is one page of the audit, newest first.
type AuditPage struct {
	Items []AuditEntry `json:"items" nullable:"false"`
	Next  string       `json:"next,omitempty" doc:"Position of the next page, for before. Missing on the last page."`
}

// AuditQuery narrows a listing of the audit.
type AuditQuery struct {
	Actor   string    `query:"actor" maxLength:"100" doc:"Name or id of a principal."`
	Action  string    `query:"action" maxLength:"100" doc:"An action, or what stands before its dot: job."`
	Subject string    `query:"subject" maxLength:"100" doc:"Id of what was changed."`
	Since   time.Time `query:"since" doc:"At or after."`
	Until   time.Time `query:"until" doc:"Only entries before this time."`
	Before  int64     `query:"before" minimum:"0" doc:"Only entries with a smaller id: next of the previous page. Default: the newest entries."`
	Limit   int       `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Largest number of items to return."`
}

func (s *Server) registerAudit(h huma.API) {
	op := operation("list-audit", http.MethodGet, "/audit", "Audit", "Who did what, newest first")
	handle(s, h, op, s.audit)
}

func (s *Server) audit(ctx context.Context, actor catalog.Actor, in *AuditQuery) (*body[AuditPage], error) {
	entries, err := s.Control.Audit(ctx, actor, control.AuditFilter{
		Actor: in.Actor, Action: in.Action, Subject: in.Subject, Since: in.Since, Until: in.Until, BeforeID: in.Before, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	page := AuditPage{Items: make([]AuditEntry, len(entries))}
	for i, e := range entries {
		page.Items[i] = AuditEntryOf(e)
	}
	if len(entries) == in.Limit {
		page.Next = nextNumber(entries[len(entries)-1].ID)
	}
	return answer(page, nil)
}

// AuditEntryOf gives an entry as it is sent.
func AuditEntryOf(e control.AuditEntry) AuditEntry {
	return AuditEntry{ID: e.ID, Time: e.Time, Action: e.Action, Actor: e.Actor, ActorID: e.ActorID, Address: e.Address,
		Kind: e.Kind, Subject: e.Subject, Data: e.Data}
}

// Audit gives one page of the audit, newest first.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (page AuditPage, err error) {
	query := url.Values{}
	set := func(key, value string) {
		if value != "" {
			query.Set(key, value)
		}
	}
	moment := func(key string, at time.Time) {
		if !at.IsZero() {
			query.Set(key, at.UTC().Format(time.RFC3339Nano))
		}
	}
	number := func(key string, n int64) {
		if n > 0 {
			query.Set(key, strconv.FormatInt(n, 10))
		}
	}
	set("actor", q.Actor)
	set("action", q.Action)
	set("subject", q.Subject)
	moment("since", q.Since)
	moment("until", q.Until)
	number("before", q.Before)
	number("limit", int64(q.Limit))
	return page, c.call(ctx, http.MethodGet, prefix+"/audit", query, nil, &page)
}
