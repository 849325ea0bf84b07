package web_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/work"
)

// longest returns a name of the greatest length that is allowed, without a place where a line could break.
func longest(letter string) string { return strings.Repeat(letter, 63) }

// TestBrowserLongNames opens the pages that show names of the greatest allowed length on a laptop and on a phone: nothing is wider than
// its panel, and the breadcrumbs leave room for the state of the event stream.
func TestBrowserLongNames(t *testing.T) {
	stack, namespace, module, runner := longest("s"), longest("n"), longest("m"), longest("r")
	path := stack + "/" + namespace + "/" + module
	w := start(t)
	w.Runner(runner, func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	w.Apply(fmt.Sprintf("{kind: Stack, name: %s}\n---\n{kind: Namespace, stack: %s, name: %s}\n---\n"+
		"{kind: Module, stack: %s, namespace: %s, name: %s, runner: %s, engine: script, script: {run: 'true'}}",
		stack, stack, namespace, stack, namespace, module, runner))
	j, err := w.Client.SubmitJob(context.Background(), api.JobRequest{Module: path, Action: work.Run})
	w.Must(err)
	reaches(t, w, fmt.Sprint(j.Number), work.Succeeded)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	pages := []string{"/", "/jobs", "/jobs/1", "/modules", "/modules/" + path, "/stacks/" + stack, "/stacks/" + stack + "/" + namespace,
		"/runners", "/runners/" + runner}
	for _, width := range []int64{1280, 390, 320} {
		b.do(chromedp.EmulateViewport(width, 900))
		for _, page := range pages {
			b.open(page)
			b.fits(t, fmt.Sprintf("%s at %d pixels", strings.NewReplacer(stack, "S", namespace, "N", module, "M", runner, "R").Replace(page), width), width)
		}
	}
	b.clean()
}

// TestBrowserRowActions opens the list of runners on a laptop while a runner is outdated, so that its row has all actions.
func TestBrowserRowActions(t *testing.T) {
	w := start(t)
	fillEverything(t, w)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	for _, width := range []int64{1280, 1024, 800} {
		b.do(chromedp.EmulateViewport(width, 900))
		b.open("/runners")
		b.until(`document.querySelectorAll("#runners td.end .button").length > 0`)
		hidden := eval[string](b, `[...document.querySelectorAll("td.end .button")].filter(a => {
			const box = a.getBoundingClientRect(), panel = a.closest(".panel").getBoundingClientRect();
			return box.left < panel.left || box.right > panel.right - 1 || box.right > innerWidth;
		}).map(a => a.textContent).join(", ")`)
		if hidden != "" {
			t.Errorf("at %d pixels: got actions outside their panel: %s, want none", width, hidden)
		}
	}
	b.clean()
}

// fits checks that the page is not wider than the window, that the state of the event stream is visible, and that no panel hides part of a row.
func (b *tab) fits(t *testing.T, page string, width int64) {
	t.Helper()
	if got := eval[int64](b, "document.documentElement.scrollWidth"); got > width {
		t.Errorf("%s: got a document of %d pixels, want at most %d", page, got, width)
	}
	if right := eval[float64](b, `document.querySelector("#live-state")?.getBoundingClientRect().right ?? 0`); right > float64(width) {
		t.Errorf("%s: got the state of the stream ending at %.0f, want at most %d", page, right, width)
	}
	clipped := eval[string](b, `[...document.querySelectorAll(".panel .scroll")].filter(e => e.scrollWidth > e.clientWidth + 1)
		.map(e => (e.closest(".panel").getAttribute("aria-labelledby") || e.closest(".panel").getAttribute("aria-label")) + " " + e.scrollWidth + " of " + e.clientWidth).join(", ")`)
	if clipped != "" {
		t.Errorf("%s: got panels that hide part of a row: %s, want none", page, clipped)
	}
}

// TestBrowserTabShowsTheStatus follows the title and the icon of the tab while a job runs.
func TestBrowserTabShowsTheStatus(t *testing.T) {
	w := start(t)
	release := make(chan struct{})
	w.Runner("edge-1", func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepRun {
			select {
			case <-release:
			case <-s.Ctx.Done():
			}
		}
		return work.StepResult{}
	})
	w.Apply("{kind: Stack, name: prod}\n---\n{kind: Namespace, stack: prod, name: net}\n---\n" +
		"{kind: Module, stack: prod, namespace: net, name: vpc, runner: edge-1, engine: script, script: {run: 'true'}}")
	_, err := w.Client.SubmitJob(context.Background(), api.JobRequest{Module: "prod/net/vpc", Action: work.Run})
	w.Must(err)
	reaches(t, w, "1", work.Running)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open("/jobs/1")
	b.isLive()
	b.until(`document.title === "Running · #1 run · Legwork"`)
	icon := eval[string](b, `document.querySelector("link[rel=icon]").href`)
	close(release)
	b.until(`document.title === "Succeeded · #1 run · Legwork"`)
	if got := eval[string](b, `document.querySelector("link[rel=icon]").href`); got == icon {
		t.Errorf("the icon of a job that succeeded: got the one of a running job, want another")
	}
	b.clean()
}

// TestBrowserUnsavedInput closes a sheet with input in it: the first time it stays open and warns.
func TestBrowserUnsavedInput(t *testing.T) {
	w := start(t)
	fillStacks(t, w)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open("/modules/prod/data/bucket")
	b.isLive()
	b.click(`a[href="/modules/prod/data/bucket/destroy"]`)
	b.see("dialog[open] #f-confirm")
	b.press("Escape")
	b.until(`!document.querySelector("dialog[open]")`)
	b.click(`a[href="/modules/prod/data/bucket/destroy"]`)
	b.write("dialog[open] #f-confirm", "buck")
	b.press("Escape")
	b.see("dialog[open] [data-unsaved]")
	if got := eval[string](b, `document.querySelector("#f-confirm").value`); got != "buck" {
		t.Errorf("input after the warning: got %q, want %q", got, "buck")
	}
	b.press("Escape")
	b.until(`!document.querySelector("dialog[open]")`)
	b.clean()
}

// TestBrowserPhoneMenu opens and closes the navigation in a narrow window.
func TestBrowserPhoneMenu(t *testing.T) {
	w := start(t)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.do(chromedp.EmulateViewport(390, 844))
	b.open("/jobs")
	if got := eval[float64](b, `document.querySelector(".side").getBoundingClientRect().height`); got > 64 {
		t.Errorf("height of the header of a phone: got %.0f pixels, want at most 64", got)
	}
	b.click(".menu-button")
	b.see(`.nav a[href="/runners"]`)
	b.click(`.nav a[href="/runners"]`)
	b.until(`location.pathname === "/runners"`)
	b.clean()
}

// TestBrowserNarrowPhone checks that no page is wider than the narrowest phone, also where its head has several buttons.
func TestBrowserNarrowPhone(t *testing.T) {
	w := start(t)
	world := fillEverything(t, w)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.do(chromedp.EmulateViewport(320, 700))
	narrow := regexp.MustCompile(`^(job-approval|secrets|run-done|run-asks)$`)
	for _, p := range somePlaces(t) {
		if !narrow.MatchString(p.name) {
			continue
		}
		b.open(p.filled(world))
		if got, most := eval[float64](b, `document.documentElement.scrollWidth`), 320.0; got > most {
			t.Errorf("%s: got a width of %.0f, want at most %.0f", p.name, got, most)
		}
	}
}
