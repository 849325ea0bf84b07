package web_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/control"
	"legwork/internal/work"
)

// The graph is alive: a Job colours its Module within a second, whatever was moved stays where it is, and keys do all of it.
func TestBrowserGraph(t *testing.T) {
	w := start(t)
	w.Apply(`
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: script, runner: edge}}
---
{kind: Runner, name: edge, is_assigned_to_all_modules: true}
---
{kind: Module, stack: prod, namespace: net, name: base, script: {run: 'true', repeatable: true}}
---
{kind: Module, stack: prod, namespace: net, name: top, script: {run: 'true', repeatable: true}, inputs: [{name: a, from: output, module: base, output: b}]}
`)
	ctx := context.Background()
	credential, err := w.Client.RotateCredential(ctx, "edge", false)
	w.Must(err)
	release := make(chan struct{})
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open("/stacks/prod")
	b.isLive()
	b.see("[data-graph].moves .graph-tools")
	modules, err := w.Control.ModuleTree(ctx, owner(w), control.ModuleFilter{})
	w.Must(err)
	base := "#box-" + modules[0].ID
	b.until(fmt.Sprintf(`document.querySelector(%q).matches("svg.box.calm") && document.querySelectorAll("path.edge").length === 1`, base))
	b.do(chromedp.Evaluate("window.sameDocument = true", nil))

	b.do(chromedp.Evaluate(`document.querySelector("[data-graph]").focus()`, nil))
	view := func() string { return eval[string](b, `document.querySelector("#graph").getAttribute("viewBox")`) }
	before := view()
	b.press("+")
	larger := view()
	b.do(input.DispatchKeyEvent(input.KeyDown).WithKey("ArrowRight"), input.DispatchKeyEvent(input.KeyUp).WithKey("ArrowRight"))
	moved := view()
	if before == larger || larger == moved {
		t.Errorf("keys do nothing: %q, %q, %q", before, larger, moved)
	}

	within := b.timed()
	_, err = w.Client.SubmitJob(ctx, api.JobRequest{Module: "prod/net/base", Action: work.Run})
	w.Must(err)
	within("waiting", fmt.Sprintf(`document.querySelector(%q).textContent.includes("Waiting")`, base))
	w.Connect(credential, func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepRun {
			select {
			case <-release:
			case <-s.Ctx.Done():
			}
		}
		return work.StepResult{}
	})
	within("running", fmt.Sprintf(`document.querySelector(%q).matches("svg.box.busy")`, base))
	close(release)
	within("up to date", fmt.Sprintf(`document.querySelector(%q).matches("svg.box.good") && document.querySelector(%q).namespaceURI.endsWith("svg")`, base, base))
	b.until(fmt.Sprintf(`document.querySelector("#module-%s").innerText.includes("Last run succeeded")`, modules[0].ID))
	if now := view(); now != moved || !eval[bool](b, "window.sameDocument") {
		t.Errorf("what was moved is elsewhere: %q, %q", moved, now)
	}
	w.Apply("{kind: Module, stack: prod, namespace: net, name: new, script: {run: 'true'}}")
	within("a new Module", `document.querySelectorAll("svg.box").length === 3`)
	if now := view(); now != moved {
		t.Errorf("a new picture is elsewhere: %q, %q", moved, now)
	}
	b.press("0")
	b.until(fmt.Sprintf(`document.querySelector("#graph").getAttribute("viewBox") !== %q`, moved))
	b.do(chromedp.Evaluate(fmt.Sprintf(`document.querySelector("%s a").focus()`, base), nil))
	b.until(`document.querySelector("path.edge.lit")`)
	b.press("Enter")
	b.until(`location.pathname === "/modules/prod/net/base"`)
	b.clean()
}

// By hand: a plan, a wrong name at destroy, and what a page shows then.
func TestBrowserModule(t *testing.T) {
	w := start(t)
	fillStacks(t, w)
	b := newTab(t, w)
	b.expected = "422"
	b.logInWithToken(w.Token)
	b.open("/modules/prod/data/bucket")
	b.isLive()
	b.click(`a[href="/modules/prod/data/bucket/destroy"]`)
	b.write("dialog[open] #f-confirm", "bukket")
	b.click("dialog[open] .button.danger")
	b.see("dialog[open] #p-confirm")
	if got := eval[string](b, `document.querySelector("#f-confirm").value`); got != "bukket" {
		t.Errorf("what was typed: %q", got)
	}
	b.press("Escape")
	b.open("/modules")
	b.isLive()
	b.do(chromedp.EmulateViewport(360, 720))
	for _, path := range []string{"/modules", "/stacks/prod", "/stacks/prod/network", "/modules/prod/network/vpc", "/modules/prod/network/vpc/destroy"} {
		b.open(path)
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 360 {
			t.Errorf("%s is %d wide", path, wide)
		}
	}
	b.clean()
}
