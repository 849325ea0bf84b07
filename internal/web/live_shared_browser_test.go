package web_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/web"
)

// TestBrowserSharesOneStream opens more tabs than a browser has connections to a host over HTTP/1.1: all of them load and
// are live, and the server has one event stream for them.
func TestBrowserSharesOneStream(t *testing.T) {
	streaming, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	var open atomic.Int64
	w := apitest.Start(t, func(o *api.Options) {
		pages := web.New(web.Options{Control: o.Control, Access: o.Access, Log: o.Log, Version: "test", Streaming: streaming})
		o.Pages = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == api.LivePath {
				open.Add(1)
				defer open.Add(-1)
			}
			pages.ServeHTTP(rw, r)
		})
	})
	first := newTab(t, w)
	first.do(emulation.SetFocusEmulationEnabled(true)) // it is visible behind the others
	first.logInWithToken(w.Token)
	tabs := []*tab{first}
	for _, path := range []string{"/runners", "/runners?q=edge", "/jobs", "/modules", "/nodes", "/runbooks", "/runners?q=e"} {
		ctx, closeTab := chromedp.NewContext(first.ctx)
		t.Cleanup(closeTab)
		b := &tab{t: t, ctx: ctx, url: w.URL}
		b.do(emulation.SetFocusEmulationEnabled(true))
		b.open(path)
		tabs = append(tabs, b)
	}
	for _, b := range tabs {
		b.isLive()
	}
	eventually(t, "one event stream for eight tabs", func() bool { return open.Load() == 1 })
	_, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge-1"})
	w.Must(err)
	for _, i := range []int{1, 2, 7} {
		tabs[i].until(`document.querySelector("#runners")?.innerText.includes("edge-1")`)
	}
	if got := open.Load(); got != 1 {
		t.Errorf("event streams for %d tabs: got %d, want 1", len(tabs), got)
	}
	first.clean()
}

// TestBrowserHidesItsStream checks that a hidden page is not followed, and that it catches up when it is shown.
func TestBrowserHidesItsStream(t *testing.T) {
	w := start(t)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open("/runners")
	b.isLive()
	hide := `(() => { Object.defineProperty(document, "hidden", { configurable: true, get: () => %t });
		document.dispatchEvent(new Event("visibilitychange")); return true })()`
	b.until(fmt.Sprintf(hide, true))
	b.until(`document.querySelector("#live-state").dataset.state === "lost"`)
	_, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "made-while-hidden"})
	w.Must(err)
	b.until(fmt.Sprintf(hide, false))
	b.isLive()
	b.until(`document.querySelector("#runners").innerText.includes("made-while-hidden")`)
	b.clean()
}
