package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// ShownSecret renders what is shown of a secret that was made, when something failed after that.
func ShownSecret(ctx context.Context, w *Web, actor catalog.Actor, made control.NewRunner, later error) (string, error) {
	v := &visit{Web: w, ctx: ctx, url: &url.URL{Path: "/runners/new"}, actor: actor, now: w.Now()}
	v.request = httptest.NewRequestWithContext(ctx, http.MethodPost, "/runners/new", nil)
	var text strings.Builder
	err := shownSecret(v, "t", made, later).show.body.Render(context.Background(), &text)
	return text.String(), err
}
