package web_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/web"
)

// A sheet opens, or it is said why not, whatever the stream of the page does to the link that leads to it before the answer is there.
func TestBrowserOpensTheSheetOfALinkThatIsReplaced(t *testing.T) {
	streaming, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	asked, answers := make(chan struct{}), make(chan int) // the status of the next answer, 0 = as it is
	w := apitest.Start(t, func(o *api.Options) {
		pages := web.New(web.Options{Control: o.Control, Access: o.Access, Log: o.Log, Version: "test", Streaming: streaming})
		o.Pages = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/users/bob/delete" {
				select {
				case asked <- struct{}{}:
				case <-r.Context().Done():
					return
				}
				select {
				case status := <-answers:
					if status > 0 {
						http.Error(rw, "upstream is away", status)
						return
					}
				case <-r.Context().Done():
					return
				}
			}
			pages.ServeHTTP(rw, r)
		})
	})
	ctx := context.Background()
	_, err := w.Access.CreateUser(ctx, owner(w), "bob", catalog.RoleViewer, password)
	w.Must(err)
	b := newTab(t, w)
	b.expected = "/users/bob/delete"
	b.logInWithToken(w.Token)
	b.open("/users")
	b.isLive()
	for _, c := range []struct {
		role   catalog.Role
		status int
		shows  string
	}{
		{catalog.RoleOperator, 503, `document.querySelector(".toasts .toast.bad")?.innerText.includes("503")`},
		{catalog.RoleOwner, 0, `document.querySelector("dialog[open] .button.danger")?.checkVisibility()`},
	} {
		b.do(evaluate(`window.clicked = document.querySelector('a[href="/users/bob/delete"]'); window.clicked.click()`))
		select {
		case <-asked:
		case <-time.After(apitest.Patience):
			t.Fatal("the sheet is not asked for")
		}
		w.Must(w.Access.SetRole(ctx, owner(w), "bob", c.role))
		b.until(`!window.clicked.isConnected`)
		answers <- c.status
		b.until(c.shows)
	}
	b.clean()
}

// A sheet that opens right after another was closed stays as it is: a browser tells of the close only when it draws again.
func TestBrowserOpensASheetRightAfterAnother(t *testing.T) {
	w := start(t)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open("/users")
	b.isLive()
	b.click(`a[href="/users/new"]`)
	b.see("dialog[open] #f-name")
	b.do(evaluate(`window.told = 0; document.querySelector("#sheet").addEventListener("close", () => window.told++)`))
	b.do(evaluate(`document.querySelector("#sheet").close(); document.querySelector("#sheet").showModal()`))
	b.until(`window.told === 1`)
	b.see("dialog[open] #f-name")
	b.do(evaluate(`document.querySelector("#sheet").close()`))
	b.until(`window.told === 2 && document.querySelector("#sheet").childElementCount === 0`)
	b.clean()
}
