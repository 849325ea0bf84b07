package web_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/work"
)

// tab is one tab of a real browser, with what it complained of.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	trouble  []string
	dialogs  []string // kinds of those that opened; each is accepted
	expected string   // what is no trouble, such as of an answer that is meant to be an error
}

// newTab starts a browser of its own, so that cookies are, too, and ends it with the test.
func newTab(t *testing.T, w *apitest.World) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: scripts/prerequisites.sh does that")
	}
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WindowSize(1360, 900), chromedp.UserDataDir(dir), chromedp.Env("HOME="+dir), chromedp.WSURLReadTimeout(apitest.Patience))
	allocated, endAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocated, chromedp.WithErrorf(browserErrorf))
	t.Cleanup(func() {
		end()
		endAll()
		eventually(t, "the browser is gone, with what it writes", func() bool { return os.RemoveAll(dir) == nil }) // its last processes end after it
	})
	b := &tab{t: t, ctx: ctx, url: w.URL}
	chromedp.ListenTarget(ctx, b.hear)
	b.do(cdplog.Enable())
	return b
}

// browserErrorf logs what chromedp reports. It leaves out an event of newer browsers that chromedp does not know, and that
// nothing here needs.
func browserErrorf(format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if message == "unhandled node event *dom.EventTopLayerElementsUpdated" {
		return
	}
	log.Printf("chromedp: %s", message)
}

func (b *tab) hear(event any) {
	text := ""
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError {
			text = e.Entry.Text + " " + e.Entry.URL
		}
	case *page.EventJavascriptDialogOpening:
		b.mu.Lock()
		b.dialogs = append(b.dialogs, string(e.Type))
		b.mu.Unlock()
		go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(true)) }() // or the page stays as it is for ever
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Error()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if text != "" && (b.expected == "" || !strings.Contains(text, b.expected)) {
		b.trouble = append(b.trouble, text)
	}
}

// clean fails the test when the browser complained: of the Content-Security-Policy, of a script, of a file that is missing.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.trouble {
		b.t.Errorf("the browser says: %s", text)
	}
	b.trouble = nil
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		var html string
		_ = chromedp.Run(b.ctx, chromedp.Evaluate("document.body.innerText", &html)) // as far as there is one
		b.t.Fatalf("%v\non the page:\n%s", err, html)
	}
}

// eval gives what an expression is.
func eval[T any](b *tab, expression string) (v T) {
	b.t.Helper()
	b.do(chromedp.Evaluate(expression, &v))
	return v
}

// until waits for an expression to be true. It is evaluated until it is, and may act.
func (b *tab) until(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(apitest.Patience)
	for {
		var holds bool
		err := chromedp.Run(b.ctx, chromedp.Evaluate("!!("+expression+")", &holds))
		if holds {
			return
		}
		var thrown *runtime.ExceptionDetails                                                                                                    // what it speaks of is not there yet
		if err != nil && !errors.As(err, &thrown) && !strings.Contains(err.Error(), "navigated") && !strings.Contains(err.Error(), "context") { // the page is just being replaced
			b.t.Fatalf("%s: %v", expression, err)
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not true in time: %s (%v)\non the page:\n%s", expression, err, eval[string](b, "document.body.innerText"))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// timed gives a function that waits for an expression to be true as what happens is shown, and fails the test at its end when nothing at all was
// shown as fast as a hint is: without one it takes 5 s. A single one may be slow on a busy machine.
func (b *tab) timed() func(what, expression string) {
	b.t.Helper()
	quickest := time.Hour
	b.t.Cleanup(func() {
		if quickest > patience*3*time.Second && !b.t.Failed() {
			b.t.Errorf("the quickest took %s", quickest)
		}
	})
	return func(what, expression string) {
		b.t.Helper()
		begun := time.Now()
		b.until(expression)
		took := time.Since(begun)
		b.t.Logf("%s: %s", what, took.Round(time.Millisecond))
		quickest = min(quickest, took)
	}
}

// see waits until an element is there to be seen.
func (b *tab) see(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector))
}

// click clicks on an element as soon as it is there to be seen: the page may put another in its place at any time.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf("(e => e?.checkVisibility() && (e.click(), true))(document.querySelector(%q))", selector))
}

// write types text into an element, in place of what is there.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("(e => e?.checkVisibility() && (e.focus(), e.select?.(), true))(document.querySelector(%q))", selector))
	b.do(input.InsertText(text))
}

// press presses keys, as a keyboard does: one that a script takes writes nothing.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		down := input.DispatchKeyEvent(input.KeyDown).WithKey(key)
		switch key {
		case "Enter":
			down = down.WithText("\r").WithWindowsVirtualKeyCode(13)
		case "Escape":
			down = down.WithWindowsVirtualKeyCode(27)
		case "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown":
		default:
			down = down.WithText(key)
		}
		b.do(down, input.DispatchKeyEvent(input.KeyUp).WithKey(key))
	}
}

// quickly has the page see keys pressed one right after the other, however long a key takes to come from here.
func (b *tab) quickly(keys ...string) {
	b.t.Helper()
	b.do(evaluate(fmt.Sprintf(`for (const key of %q.split(" ")) document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}))`, strings.Join(keys, " "))))
}

func (b *tab) open(path string) { b.t.Helper(); b.do(chromedp.Navigate(b.url + path)) }

// isLive waits for the event stream of the page.
func (b *tab) isLive() { b.t.Helper(); b.until(`document.querySelector("#live-state[data-state=on]")`) }

func (b *tab) logInWithToken(token string) {
	b.t.Helper()
	b.open("/login")
	b.click("details.other summary")
	b.write("#f-token", token)
	b.press("Enter")
	b.isLive() // and so the scripts are there
}

func TestBrowserLogIn(t *testing.T) {
	w := start(t)
	_, err := w.Access.CreateUser(context.Background(), owner(w), "ann", catalog.RoleViewer, password)
	w.Must(err)
	b := newTab(t, w)
	b.expected = "401"
	b.open("/runners?state=online")
	b.write("#f-name", "ann")
	b.write("#f-password", "wrong password")
	b.press("Enter")
	b.see("[role=alert]")
	if got := eval[string](b, `document.querySelector("#f-name").value + "," + document.querySelector("#f-password").value`); got != "ann," {
		t.Errorf("what was typed: %q", got)
	}
	b.write("#f-password", password)
	b.press("Enter")
	b.see("#view")
	if got := eval[string](b, "location.pathname + location.search"); got != "/runners?state=online" {
		t.Errorf("it was %s that was asked for", got)
	}
	if eval[bool](b, `!!document.querySelector('.nav a[href="/users"]')`) {
		t.Error("a viewer is shown the way to the users")
	}
	if cookies := eval[string](b, "document.cookie"); strings.Contains(cookies, "legwork=") {
		t.Errorf("scripts see the cookie: %s", cookies)
	}
	b.click(`form[action="/logout"] button`)
	b.see("#f-name")
	b.open("/runners")
	b.see("#f-name")
	b.clean()
}

// What happens appears on an open page within a second, without a reload.
func TestBrowserSeesChanges(t *testing.T) {
	w := start(t)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open("/runners")
	b.isLive()
	b.do(chromedp.Evaluate("window.sameDocument = true", nil))
	within := b.timed()
	made, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge-1"})
	w.Must(err)
	within("a new Runner", `document.querySelector("#runners .opener")?.innerText.includes("edge-1")`)
	w.Connect(made, func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	within("online", fmt.Sprintf(`document.querySelector("#runner-%s .badge.good")?.innerText.includes("ONLINE")`, made.ID))
	b.do(chromedp.Evaluate(`document.querySelector("#q").value = "ed"`, nil)) // what is typed is not lost
	instances, err := w.Client.Instances(context.Background(), "edge-1")
	w.Must(err)
	w.Must(w.Control.SetDraining(context.Background(), owner(w), instances[0].ID, true))
	within("draining", fmt.Sprintf(`document.querySelector("#runner-%s").innerText.includes("DRAINING")`, made.ID))
	if !eval[bool](b, `window.sameDocument && document.querySelector("#q").value === "ed"`) {
		t.Error("the page was loaded anew, or lost what was typed")
	}
	b.clean()
}

// A stream that breaks is shown, and what happened meanwhile is there once it is back.
func TestBrowserCatchesUp(t *testing.T) {
	w := start(t)
	b := newTab(t, w)
	b.expected = "/-/live"
	b.logInWithToken(w.Token)
	b.open("/runners")
	b.isLive()
	seen := eval[string](b, `(() => { window.states = []; new MutationObserver(() => states.push(document.querySelector("#live-state").dataset.state))
		.observe(document.querySelector("#live-state"), {attributes: true}); return "" })()`)
	if seen != "" {
		t.Fatal(seen)
	}
	w.HTTP.CloseClientConnections() // also that of w.Client, which may learn of it too late
	_, err := w.Control.CreateRunner(context.Background(), owner(w), catalog.RunnerSpec{Name: "made-meanwhile"})
	w.Must(err)
	b.until(`states.includes("lost")`)
	b.until(`document.querySelector("#runners").innerText.includes("made-meanwhile")`)
	b.isLive()
	_, err = w.Control.CreateRunner(context.Background(), owner(w), catalog.RunnerSpec{Name: "made-later"})
	w.Must(err)
	b.until(`document.querySelector("#runners").innerText.includes("made-later")`)
	b.clean()
}

// Whose Web session ends elsewhere is not shown anything any more.
func TestBrowserIsLoggedOutElsewhere(t *testing.T) {
	w := start(t)
	made, err := w.Client.CreatePrincipal(context.Background(), api.PrincipalRequest{Name: "ci", Role: catalog.RoleViewer})
	w.Must(err)
	b := newTab(t, w)
	b.expected = "/-/live"
	b.logInWithToken(made.Token)
	b.isLive()
	w.Must(w.Client.DeletePrincipal(context.Background(), "ci"))
	w.HTTP.CloseClientConnections()
	b.until(`location.pathname === "/login"`)
	b.clean()
}

func TestBrowserKeyboard(t *testing.T) {
	w := start(t)
	for _, name := range []string{"edge-1", "edge-2", "lab"} {
		_, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: name})
		w.Must(err)
	}
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.quickly("g", "r")
	b.see("#runners")
	b.isLive()
	b.press("/")
	b.until(`document.activeElement.id === "q"`)
	b.press("e", "d", "g", "e")
	b.until(`document.querySelectorAll("#runners tr").length === 2 && location.search.includes("q=edge")`)
	if got := eval[string](b, `document.activeElement.id + document.activeElement.value`); got != "qedge" {
		t.Errorf("the focus and the text of the search: %q", got)
	}
	b.press("Escape", "j", "j")
	b.until(`document.activeElement.innerText.trim() === "edge-2"`)
	b.press("Enter")
	b.until(`document.querySelector('[aria-expanded="true"]')?.innerText.trim() === "edge-2"`)
	b.until(`document.activeElement.getAttribute("aria-expanded") === "true"`)
	b.isLive()
	b.until(`document.querySelector("#live").getAttribute("sse-connect").includes("open%3Dedge-2")`) // the stream is that of what is shown
	_, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge-3"})
	w.Must(err)
	b.until(`document.querySelectorAll("#runners tr").length === 3 && document.querySelector('[aria-expanded="true"]')`)
	b.quickly("g", "u")
	b.see(`a[href="/users/new"]`)
	b.isLive() // and so the scripts are there
	b.do(chromedp.Evaluate(`document.querySelector('a[href="/users/new"]').focus()`, nil))
	b.press("Enter")
	b.see("dialog[open] #f-name")
	b.press("Escape")
	b.until(`!document.querySelector("dialog[open]")`)
	b.until(`document.activeElement.getAttribute("href") === "/users/new"`)
	b.clean()
}

func TestBrowserAddsAUser(t *testing.T) {
	w := start(t)
	b := newTab(t, w)
	b.expected = "422"
	b.logInWithToken(w.Token)
	b.open("/users")
	b.isLive()
	b.click(`a[href="/users/new"]`)
	b.write("dialog[open] #f-name", "bob")
	b.write("#f-password", "short")
	b.press("Enter")
	b.see("#p-password")
	if got := eval[string](b, `document.querySelector("#f-name").value`); got != "bob" {
		t.Errorf("what was typed is kept: %q", got)
	}
	b.write("#f-password", password)
	b.click(`input[value=operator]`)
	b.click("dialog .button.primary")
	b.until(`document.querySelector("#users")?.innerText.includes("bob") && document.querySelector(".toast")?.innerText.includes("bob")`)
	b.isLive() // and so the scripts are there
	b.click(`a[href="/users/bob/delete"]`)
	b.click("dialog[open] .button.danger")
	b.until(`document.querySelector(".toast")?.innerText.includes("deleted") && !document.querySelector("#users").innerText.includes("bob")`)
	b.open("/users/new") // the form as a page of its own says what is wrong where it is wrong, too
	b.write("#f-name", "eve")
	b.write("#f-password", "short")
	b.press("Enter")
	b.see("#p-password")
	if got := eval[string](b, `document.querySelector("#f-name").value`); got != "eve" {
		t.Errorf("what was typed on the page is kept: %q", got)
	}
	b.clean()
}

func TestBrowserTheme(t *testing.T) {
	w := start(t)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	ground := func() string { return eval[string](b, `getComputedStyle(document.body).backgroundColor`) }
	b.click("[data-theme-form] button")
	b.until(`document.documentElement.dataset.theme === "light"`)
	light := ground()
	b.click("[data-theme-form] button")
	b.until(`document.documentElement.dataset.theme === "dark"`)
	if dark := ground(); dark == light {
		t.Errorf("both are %s", dark)
	}
	eventually(t, "the choice is kept", func() bool {
		b.open("/runners")
		return eval[string](b, "document.documentElement.dataset.theme") == "dark"
	})
	b.clean()
}
