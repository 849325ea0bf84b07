package web_test

import (
	"context"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// violations collects what the Content-Security-Policy refuses on every page that the tab opens.
const violations = `document.addEventListener("securitypolicyviolation", (e) => {
	const key = "violations", found = JSON.parse(sessionStorage.getItem(key) || "[]");
	sessionStorage.setItem(key, JSON.stringify([...found, location.pathname + ": " + e.violatedDirective + " " + e.blockedURI]));
})`

// TestBrowserBreaksNoPolicy visits every page and switches what htmx replaces: nothing breaks the Content-Security-Policy.
func TestBrowserBreaksNoPolicy(t *testing.T) {
	w := start(t)
	world := fillEverything(t, w)
	b := newTab(t, w)
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(violations).Do(ctx)
		return err
	}))
	b.logInWithToken(w.Token)
	for _, p := range somePlaces(t) {
		b.open(p.filled(world))
		b.until(`document.readyState === "complete"`)
	}
	b.open("/runners")
	b.isLive()
	b.click(`a[href="/runners/new"]`)
	for _, path := range []string{"/runners/new/hosted", "/runners/new", "/runners/new/hosted"} {
		b.click(`dialog[open] a[href="` + path + `"]`)
		b.until(`document.querySelector('dialog[open] a[href="` + path + `"]')?.hasAttribute("aria-current")`)
	}
	for _, found := range eval[[]string](b, `JSON.parse(sessionStorage.getItem("violations") || "[]")`) {
		t.Errorf("the policy refuses something: %s", found)
	}
	b.clean()
}

// TestBrowserAsksBeforeInputIsLost asks before a reload that would lose what was typed, and only then.
func TestBrowserAsksBeforeInputIsLost(t *testing.T) {
	b := newTab(t, start(t))
	b.open("/login")
	b.write("#f-name", "ann")
	b.press("b")
	b.do(chromedp.Reload())
	b.see("#f-name")
	b.do(chromedp.Reload())
	b.see("#f-name")
	b.mu.Lock()
	defer b.mu.Unlock()
	if want := []string{"beforeunload"}; !slices.Equal(b.dialogs, want) {
		t.Errorf("dialogs: got %q, want %q", b.dialogs, want)
	}
}
