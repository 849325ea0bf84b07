package web_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/release"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// fetchUnit registers the process of a Unit as it does itself, and brings it online.
func fetchUnit(w *apitest.World, task *work.RunnerTask, u work.Unit) {
	w.T.Helper()
	client, err := api.NewClient(api.ClientOptions{Server: task.ServerURL, Token: u.Token})
	w.Must(err)
	made, err := client.RegisterRunner(context.Background(), api.RegistrationRequest{Registration: catalog.Registration{Name: task.Runner, Instance: u.Name,
		OS: catalog.OS("linux"), Lifetime: catalog.Ephemeral, AllowMultipleInstances: true, Nonce: "0123456789abcdef"}})
	w.Must(err)
	w.Says = func(h *wire.Hello) { h.Instance, h.Key, h.Version = u.Name, "key of "+u.Name, "1.5.0" }
	w.Connect(made, func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
}

// The page of Runners without a reload: a release is published and the alert appears, its notes are read, all are updated and one is seen
// updating; then a hosted Runner is added in its tab, deployed Step by Step, and seen online.
func TestBrowserHostedRunners(t *testing.T) {
	w := start(t)
	units := make(chan *work.RunnerTask, 1)
	launches(w, "1.4.0", release.Minor)
	ops := w.Runner("ops-1", func(s *apitest.StepRun) work.StepResult {
		switch s.Kind {
		case work.StepInstall:
			<-s.Ctx.Done() // it leaves, and comes as what was installed
		case work.StepLaunch:
			units <- s.Spec.Task
		}
		return work.StepResult{}
	})
	launches(w, "1.4.0", release.Notify)
	w.Runner("old-1", func(*apitest.StepRun) work.StepResult { return work.StepResult{} })
	b := newTab(t, w)
	b.expected = "422"
	b.logInWithToken(w.Token)
	b.open("/runners")
	b.isLive()
	b.do(evaluate(`window.sameDocument = true`))

	shut := func() {
		b.click("dialog [data-close]")
		b.until(`!document.querySelector("dialog[open]")`)
	}

	w.Publish("1.5.0", notes)
	b.until(`document.querySelector("#runner-updates").innerText.includes("2 Runners are outdated. 1 of them can be updated from here.")`)
	b.click(`#runner-updates a[href="/releases/notes"]`)
	b.until(`document.querySelector("dialog[open] .prose")?.innerText.includes("alert(\"not this\")")`)
	if eval[bool](b, `!!document.querySelector("dialog script, dialog .prose img")`) {
		t.Error("notes bring scripts or pictures")
	}
	shut()

	b.click(`#runner-updates a[href="/runners/update"]`)
	b.until(`(t => t.includes("ops-1") && t.includes("In its place") && t.includes("set to notify only"))(document.querySelector("dialog[open]")?.innerText || "")`)
	b.click("dialog[open] .button.primary")
	b.until(`(t => t.includes("1 update Job queued") && t.includes("1 Runner left out"))(document.querySelector("dialog[open]")?.innerText || "")`)
	shut()
	row := func(runner string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("#runners tr")].find(r => r.innerText.includes(%q))?.innerText || ""`, runner)
	}
	b.until(`(` + row("ops-1") + `).includes("updating")`)
	ops.Leave()
	launches(w, "1.5.0", release.Minor)
	var launched atomic.Pointer[[]work.UnitReport] // what a cleanup finds
	w.Connect(ops.Created, func(s *apitest.StepRun) work.StepResult {
		var result work.StepResult
		switch s.Kind {
		case work.StepLaunch:
			var running []work.UnitReport
			for _, u := range s.Spec.Task.Units {
				running = append(running, work.UnitReport{Name: u.Name, ID: "pid 7", State: work.UnitRunning})
			}
			launched.Store(&running)
			units <- s.Spec.Task
		case work.StepTidy:
			if running := launched.Load(); running != nil {
				result.Units = *running
			}
		}
		return result
	})
	b.until(`document.querySelector("#runner-updates").innerText.includes("1 Runner is outdated. It cannot be updated from here.") && !document.querySelector("#runner-updates .primary") && (` + row("ops-1") + `).includes("1.5.0")`)

	b.click(`a[href="/runners/new"]`)
	b.see(`dialog[open] .sheet-tabs [href="/runners/new"][aria-current]`)
	b.click(`dialog .sheet-tabs [href="/runners/new/hosted"]`)
	b.see(`dialog [name="hosting.launcher"][value="process"]`)
	image := `document.getElementById("f-hosting.image").checkVisibility()`
	if eval[bool](b, image) {
		t.Error("processes are asked for an image")
	}
	b.click(`dialog [name="hosting.launcher"][value="kubernetes"]`)
	b.until(image + ` && document.getElementById("f-hosting.kubernetes.context").checkVisibility() && !document.getElementById("f-hosting.docker.host").checkVisibility()`)
	b.click(`dialog [name="hosting.launcher"][value="process"]`)
	b.write(`dialog #f-name`, "Burst")
	b.write(`dialog [name="hosting.min"]`, "20")
	b.do(evaluate(`document.getElementById("f-hosting.through").value = "ops-1"`))
	b.click("dialog[open] .button.primary")
	b.see("#p-name")
	b.until(`document.getElementById("p-hosting.min").innerText.includes("more than max")`)
	b.write(`dialog #f-name`, "burst")
	b.write(`dialog [name="hosting.min"]`, "0")
	b.click("dialog[open] .button.primary")
	b.until(`(t => t.includes("Prepare") && t.includes("STARTING"))(document.querySelector("#deployment")?.innerText || "")`)
	b.until(`(` + row("burst") + `).includes("STARTING")`)
	select {
	case task := <-units:
		fetchUnit(w, task, task.Units[0])
	case <-b.ctx.Done():
		t.Fatal("nothing was launched")
	}
	b.until(`(t => t.includes("ONLINE") && !t.includes("Running"))(document.querySelector("#deployment")?.innerText || "")`)
	b.until(`(` + row("burst") + `).includes("ONLINE")`)
	if !eval[bool](b, `window.sameDocument`) {
		t.Error("the page was loaded anew")
	}
	b.clean()
}
