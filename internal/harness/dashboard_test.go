package harness_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"legwork/internal/harness"
	"legwork/internal/work"
)

const dashboardManifest = `
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net, defaults: {engine: opentofu, runner: edge-1}}
---
kind: Module
stack: prod
namespace: net
name: base
approval: always
source:
  type: inline
  files:
    main.tf: |
      resource "terraform_data" "x" {
        provisioner "local-exec" { command = "for i in 1 2 3; do echo said-$((i * 111)); sleep 0.3; done" }
      }
      output "id" { value = terraform_data.x.id }
---
{kind: Module, stack: prod, namespace: net, name: top, engine: script, script: {run: 'sleep 600'}, inputs: [{name: base, from: output, module: base, output: id}]}
`

// browser is a real one with one tab, on the dashboard of a Server.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string
}

func openBrowser(t *testing.T, s *harness.Server) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: scripts/prerequisites.sh does that")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("ignore-certificate-errors", true),
		chromedp.WindowSize(1360, 900), chromedp.UserDataDir(t.TempDir()), chromedp.Env("HOME="+t.TempDir()))
	allocated, endAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocated, chromedp.WithErrorf(browserErrorf))
	limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(func() { cancel(); end(); endAll() })
	return &browser{t: t, ctx: limited, url: s.URL}
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

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) open(path string) { b.t.Helper(); b.do(chromedp.Navigate(b.url + path)) }

// text gives a text that an expression is.
func (b *browser) text(expression string) (text string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(expression, &text))
	return text
}

// until waits for an expression to be true.
func (b *browser) until(expression string) { b.t.Helper(); b.within(harness.Patience, expression) }

func (b *browser) within(patience time.Duration, expression string) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var is bool
		err := chromedp.Run(b.ctx, chromedp.Evaluate("(() => { try { return !!("+expression+") } catch { return false } })()", &is)) // a page that is being replaced has nothing yet
		if err != nil && !beingReplaced(err) {
			b.t.Fatal(err)
		}
		if err == nil && is {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not true in time: %s\non the page:\n%s", expression, b.text("document.body.innerText"))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// beingReplaced tells whether the page went away while it was asked: the next one is asked again.
func beingReplaced(err error) bool {
	var said *cdproto.Error
	return errors.As(err, &said) && slices.Contains([]string{"Inspected target navigated or closed", "Cannot find context with specified id", "Execution context was destroyed."}, said.Message)
}

func (b *browser) see(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector))
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.see(selector)
	b.do(chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).click()", selector), nil))
}

func (b *browser) write(selector, text string) {
	b.t.Helper()
	b.see(selector)
	b.do(chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).focus()", selector), nil), input.InsertText(text))
}

// press presses keys one after another.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	codes := map[string]int64{"Enter": 13, "Tab": 9, "Escape": 27}
	for _, key := range keys {
		down := input.DispatchKeyEvent(input.KeyDown).WithKey(key).WithWindowsVirtualKeyCode(codes[key])
		switch {
		case key == "Enter":
			down = down.WithText("\r")
		case codes[key] == 0:
			down = down.WithText(key)
		}
		b.do(down, input.DispatchKeyEvent(input.KeyUp).WithKey(key).WithWindowsVirtualKeyCode(codes[key]))
	}
}

// tabTo goes on with the Tab key until the focus is on what a selector names.
func (b *browser) tabTo(selector string) {
	b.t.Helper()
	for range 60 {
		var there bool
		if b.do(chromedp.Evaluate(fmt.Sprintf("document.activeElement.matches(%q)", selector), &there)); there {
			return
		}
		b.press("Tab")
	}
	b.t.Fatalf("the Tab key does not lead to %s", selector)
}

func (b *browser) isLive() {
	b.t.Helper()
	b.until(`document.querySelector("#live-state[data-state=on]")`)
}

// says waits until the page's main part holds a text, without a reload.
func (b *browser) says(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector("#view")?.innerText.includes(%q)`, text))
}

// A day at the dashboard, with a real Server, a real Runner and a real engine.
func TestDashboardFromAddingARunnerToItsDeath(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--set", "lease=4s", "--set", "heartbeat=1s")
	b := openBrowser(t, s)

	// By keyboard alone: in with the token, and to the form that adds a Runner.
	b.open("/login")
	b.tabTo("details.other summary")
	b.press("Enter")
	b.tabTo("#f-token")
	b.do(input.InsertText(s.Token()))
	b.press("Enter")
	b.isLive()
	b.press("g", "r")
	b.see(`a[href="/runners/new"]`)
	b.isLive()
	b.tabTo(`a[href="/runners/new"]`)
	b.press("Enter")
	b.write("dialog[open] #f-name", "edge-1")
	b.click("dialog[open] [name=is_assigned_to_all_modules]")
	b.click("dialog[open] .button.primary")
	b.see("#made-secret")
	shown := func(id string) string {
		return strings.TrimSpace(b.text(fmt.Sprintf(`document.querySelector("#%s").innerText`, id)))
	}
	runner := s.RunnerOf("edge-1", harness.MadeRunner{ID: shown("made-id"), OrganizationID: shown("made-organization"),
		ClientID: shown("made-client"), ClientSecret: shown("made-secret")})
	b.until(`!document.querySelector("#arrival").matches(".good")`)
	runner.Start()
	b.until(`document.querySelector("#arrival").matches(".good") && document.querySelector("#arrival").innerText.includes("ONLINE")`)

	// Apply: the plan waits for a person, and the log arrives while it runs.
	s.Apply(dashboardManifest)
	b.open("/modules/prod/net/base")
	b.isLive()
	b.click(`a[href="/modules/prod/net/base/apply"]`)
	b.click("dialog[open] .button.primary")
	b.until(`/^\/jobs\/\d+$/.test(location.pathname)`)
	b.says("Needs approval")
	b.says("1 to add")
	b.press("a")
	b.click("dialog[open] .button.primary")
	for _, line := range []string{"said-111", "said-333"} {
		b.until(fmt.Sprintf(`document.querySelector("#log").innerText.includes(%q)`, line))
	}
	b.until(`document.querySelector("#job-head .badge.good")?.innerText.includes("Succeeded")`)

	// Its output lets the next Module begin, whose colour changes in the graph.
	box := `[...document.querySelectorAll("svg.box")].find(x => x.textContent.includes("top"))`
	b.open("/stacks/prod")
	b.isLive()
	b.do(chromedp.Evaluate("window.sameDocument = true", nil))
	id := s.Submit("run", "prod/net/top")
	b.until(box + `.matches(".busy")`)

	// By keyboard alone: to the Job, and an end to it.
	b.press("g", "j")
	b.until(`location.pathname === "/jobs"`)
	b.isLive()
	b.press("j", "Enter")
	b.until(fmt.Sprintf(`location.pathname === "/jobs/%s"`, strings.TrimPrefix(id, "#")))
	b.isLive()
	b.press("c")
	b.see("dialog[open] .button.danger")
	b.tabTo("dialog[open] .button.danger")
	b.press("Enter")
	b.until(`document.querySelector("#job-head .badge")?.innerText.includes("Canceled")`)
	s.Ends(id, work.Canceled)

	// Drain, and the end of a process that says nothing.
	b.open("/runners/edge-1")
	b.isLive()
	b.click(`a[href="/runners/edge-1/drain"]`)
	b.click("dialog[open] .button.primary")
	b.until(`document.querySelector("h1 ~ .badge, .page-head .badge, #view .badge")?.innerText.includes("DRAINING")`)
	b.open("/runners")
	b.isLive()
	b.do(chromedp.Evaluate("window.sameDocument = true", nil))
	runner.Kill()
	b.within(work.OfflineAfter+harness.Patience, `document.querySelector("#runners").innerText.includes("OFFLINE") && window.sameDocument`)
}
