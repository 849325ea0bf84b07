package api_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
)

// What a Credential opened ends with it: event streams and followed logs, when it is deleted and when its role changes.
func TestRevocationEndsStreams(t *testing.T) {
	w, ctx := apitest.Start(t, func(o *api.Options) { o.RecheckInterval = 10 * time.Millisecond }), context.Background()
	w.Apply("kind: Stack\nname: prod\n")
	made, err := w.Client.CreatePrincipal(ctx, api.PrincipalRequest{Name: "watcher", Role: catalog.RoleViewer})
	w.Must(err)
	follow := func(token string) *bufio.Reader {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+"/api/v1/events?after=0", nil)
		w.Must(err)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Accept", "text/event-stream")
		answer, err := http.DefaultClient.Do(r)
		w.Must(err)
		t.Cleanup(func() { answer.Body.Close() })
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("got %s, want 200", answer.Status)
		}
		lines := bufio.NewReader(answer.Body)
		_, err = lines.ReadString('\n')
		w.Must(err)
		return lines
	}
	stays := follow(w.Token)
	ends := follow(made.Token)
	w.Must(w.Client.DeletePrincipal(ctx, made.Principal.ID))
	if _, err := io.Copy(io.Discard, ends); err != nil {
		t.Errorf("revoked stream: got %v, want its end", err)
	}
	w.Apply("kind: Stack\nname: later\n")
	for {
		line, err := stays.ReadString('\n')
		if err != nil {
			t.Fatalf("stream of another credential: got %v, want the event of the new stack", err)
		}
		if strings.Contains(line, "later") || strings.HasPrefix(line, "event: stack.changed") {
			return
		}
	}
}

// The kinds of events that the audit log reserves for owners do not reach others.
func TestReservedEvents(t *testing.T) {
	w, ctx := apitest.Start(t), context.Background()
	viewer := w.ClientWith(w.TokenFor("default", catalog.RoleViewer))
	_, err := w.Client.CreateUser(ctx, api.UserRequest{Name: "ann", Role: catalog.RoleViewer, Password: "correct horse battery"})
	w.Must(err)
	_, err = w.Client.CreatePrincipal(ctx, api.PrincipalRequest{Name: "ci", Role: catalog.RoleViewer})
	w.Must(err)
	w.Apply("kind: Stack\nname: prod\n")
	seen := func(c *api.Client) map[string]bool {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		kinds := map[string]bool{}
		_ = c.FollowEvents(ctx, 0, func(e api.Event) error { // it ends by cancel
			kinds[e.Kind] = true
			if e.Kind == "stack.changed" {
				cancel()
			}
			return nil
		})
		return kinds
	}
	all, some := seen(w.Client), seen(viewer)
	for _, kind := range []string{"user.changed", "principal.changed"} {
		if !all[kind] || some[kind] {
			t.Errorf("%s: got owner %v, viewer %v; want true, false", kind, all[kind], some[kind])
		}
	}
	if !some["stack.changed"] {
		t.Error("the viewer got no stack.changed")
	}
}
