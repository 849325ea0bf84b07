package web_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/web"
)

// An answer that is none is said: over the form that waits for it, whose text stays, or as a toast. Nothing fails in silence.
func TestBrowserSaysWhatFailed(t *testing.T) {
	var status atomic.Int64 // 0 = as it is; 1 = the connection breaks
	streaming, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	w := apitest.Start(t, func(o *api.Options) {
		pages := web.New(web.Options{Control: o.Control, Access: o.Access, Log: o.Log, Version: "test", Streaming: streaming})
		o.Pages = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			switch n := int(status.Load()); {
			case n == 0 || strings.HasPrefix(r.URL.Path, "/-/"):
				pages.ServeHTTP(rw, r)
			case n == 1:
				panic(http.ErrAbortHandler)
			default:
				http.Error(rw, "upstream is away", n)
			}
		})
	})
	b := newTab(t, w)
	b.expected = "/users"
	b.logInWithToken(w.Token)
	b.open("/users")
	b.isLive()
	b.click(`a[href="/users/new"]`)
	b.write("dialog[open] #f-name", "bob")
	b.write("#f-password", password)
	for _, step := range []struct {
		status int64
		says   string
	}{{503, "503"}, {404, "404"}, {413, "413"}, {1, "not known"}} {
		status.Store(step.status)
		b.click("dialog .button.primary")
		b.until(`document.querySelectorAll("dialog[open] .note-box.bad[role=alert]").length === 1 && document.querySelector("dialog[open] .note-box.bad").innerText.includes("` + step.says + `")`)
		if got := eval[string](b, `document.querySelector("#f-name").value`); got != "bob" {
			t.Errorf("%d: what was typed: %q", step.status, got)
		}
	}
	b.press("Escape")
	b.see("dialog[open] [data-unsaved]")
	b.press("Escape")
	b.until(`!document.querySelector("dialog[open]")`)
	status.Store(503)
	b.click(`a[href="/users/new"]`)
	b.until(`document.querySelector(".toasts .toast.bad")?.innerText.includes("503")`)
	status.Store(0)
	b.click(`a[href="/users/new"]`)
	b.write("dialog[open] #f-name", "bob")
	b.write("#f-password", "short")
	b.click("dialog .button.primary")
	b.see("dialog[open] #p-password") // what the Server says of a form is shown as ever
	b.clean()
}
