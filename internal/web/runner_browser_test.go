package web_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"legwork/internal/api/apitest"
	"legwork/internal/harness"
)

// evaluate runs a script for what it does.
func evaluate(script string) chromedp.Action { return chromedp.Evaluate(script, nil) }

// slowly is until for what takes as long as it takes until a Runner that was killed is missed.
func (b *tab) slowly(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(3 * apitest.Patience)
	for !eval[bool](b, "!!("+expression+")") {
		if time.Now().After(deadline) {
			b.t.Fatalf("not true in time: %s\non the page:\n%s", expression, eval[string](b, "document.body.innerText"))
		}
		<-time.After(200 * time.Millisecond)
	}
}

// shell runs what a page shows in a shell of its own, where the program is on the way and nothing else is known.
func shell(t *testing.T, dir, commands string) *exec.Cmd {
	t.Helper()
	program, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(bin, "legwork")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", commands)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// A Runner is added in the page, started with the commands that the page shows, seen online without a reload, drained, and seen
// offline after it was killed.
func TestBrowserAddsARunner(t *testing.T) {
	t.Cleanup(harness.Cleanup)
	s := harness.StartServer(t)
	b := newTab(t, &apitest.World{URL: s.URL})
	b.expected = "422"
	b.logInWithToken(s.Token())
	b.open("/runners")
	b.isLive()
	b.click(`a[href="/runners/new"]`)
	b.write("dialog[open] #f-name", "Edge 9")
	b.press("Enter")
	b.see("#p-name")
	b.write("#f-name", "edge-9")
	b.write("#f-labels", "region=eu")
	b.click("dialog .button.primary")
	b.see("#made-secret")
	b.do(evaluate(`window.sameDocument = true`))
	b.until(`document.querySelector("#arrival").innerText.includes("first heartbeat")`)
	b.press("Escape")
	if !eval[bool](b, `document.querySelector("dialog").open`) {
		t.Error("a key closes what is shown once")
	}
	dir := t.TempDir()
	if out, err := shell(t, dir, eval[string](b, `document.querySelector("#start-settings").textContent`)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if info, err := os.Stat(filepath.Join(dir, "edge-9.env")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the settings: %v %v", info, err)
	}
	runner := shell(t, dir, eval[string](b, `document.querySelector("#start-shell").textContent`))
	var said bytes.Buffer
	runner.Stdout, runner.Stderr = &said, &said
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		if runner.ProcessState == nil {
			_ = syscall.Kill(-runner.Process.Pid, syscall.SIGKILL) // it may have ended
			_ = runner.Wait()
		}
	}
	t.Cleanup(func() { end(); harness.EndKeepers(filepath.Join(dir, ".legwork", "runner")) })
	b.until(`document.querySelector("#arrival").innerText.includes("ONLINE")`)
	b.until(`document.querySelector("#runners").innerText.includes("ONLINE") && document.querySelector("#live-state[data-state=on]")`)
	if !eval[bool](b, `window.sameDocument`) {
		t.Error("the page was loaded anew")
	}
	b.click(`dialog .form-end a`)
	b.until(`document.querySelector("#instances")?.innerText.includes("Online")`)
	b.isLive()
	b.do(evaluate(`window.sameDocument = true`))
	b.click(`#runner-head a[href="/runners/edge-9/drain"]`)
	b.click("dialog[open] .button.primary")
	b.until(`document.querySelector("#runner-head")?.innerText.includes("DRAINING") && document.querySelector(".toast")?.innerText.includes("drains")`)
	b.isLive()
	b.do(evaluate(`window.sameDocument = true`))
	end()
	if strings.Contains(said.String(), "lws_") {
		t.Error("the Runner says its secret")
	}
	if testing.Short() {
		return
	}
	b.slowly(fmt.Sprintf(`document.querySelector("#runner-head").innerText.includes(%q) && window.sameDocument`, "OFFLINE"))
	b.clean()
}
