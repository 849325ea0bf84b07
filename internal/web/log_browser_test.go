package web_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"legwork/internal/api/apitest"
	"legwork/internal/store"
	"legwork/internal/work"
)

// visibleLines are the numbers of the lines that are on the screen.
const visibleLines = `(() => { const box = document.querySelector("#log-view").getBoundingClientRect();
	return [...document.querySelectorAll(".ll")].filter((e) => { const r = e.getBoundingClientRect(); return r.bottom > box.top + 1 && r.top < box.bottom - 1 && !e.querySelector(".wait"); })
		.map((e) => Number(e.id.slice(1))) })()`

// sees waits for a line to be on the screen, with all of its neighbours there.
func (b *tab) sees(line int) {
	b.t.Helper()
	b.until(lineSeen(line))
}

func lineSeen(line int) string {
	return fmt.Sprintf(`(() => { const seen = %s; return seen.includes(%d) && seen.every((n, i) => !i || n === seen[i - 1] + 1) })()`, visibleLines, line)
}

// A log of a million lines stays usable: any line is there in a moment, and only what is on the screen is in the page.
func TestBrowserLogOfAMillionLines(t *testing.T) {
	const many = 1_000_000
	w := start(t)
	j := jobWithLog(w)
	batch := make([]work.Record, 5000)
	for first := 1; first <= many; first += len(batch) {
		for i := range batch {
			batch[i] = work.Record{Time: time.UnixMilli(1_700_000_000_000 + int64(first+i)), Stream: work.Stdout, Data: fmt.Appendf(nil, "\x1b[36mmodule.network.subnet[%d]\x1b[0m: creation complete after %ds, as lines of a log are", first+i, i%60)}
		}
		w.Must(w.Store.Update(context.Background(), func(tx *store.Tx) error {
			_, err := tx.AppendLog(j.ID, store.LogKey{Attempt: 1, Step: 1}, uint64(first), batch)
			return err
		}))
	}
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	within := b.timed()
	quick := func(what string, line int) {
		t.Helper()
		within(what, lineSeen(line))
		if n := eval[int](b, `document.querySelectorAll(".ll").length`); n > 200 {
			t.Errorf("%s: %d lines are in the page", what, n)
		}
	}
	b.open(fmt.Sprintf("/jobs/%d", j.Number))
	quick("the end, of a log that nobody looked at before", many)
	b.press("g", "g")
	quick("the begin", 1)
	b.press("G")
	quick("the end", many)
	b.do(chromedp.Evaluate(`location.hash = "#L500000"`, nil))
	quick("a line in the middle", 500_000)
	b.until(`document.querySelector("#L500000.picked")?.getBoundingClientRect().bottom <= innerHeight`)
	b.do(chromedp.Evaluate(`(() => { const v = document.querySelector("#log-view"); v.scrollTop = v.scrollHeight * 0.25 })()`, nil))
	b.until(fmt.Sprintf(`Math.abs(%s[0] - 250000) < 2000`, visibleLines))
	first := eval[int](b, visibleLines+"[0]")
	b.do(chromedp.Evaluate(`document.querySelector("#log-view").scrollTop += 200`, nil)) // as a wheel does: ten lines
	b.until(fmt.Sprintf(`%s[0] === %d`, visibleLines, first+10))
	<-time.After(300 * time.Millisecond) // the scroll bar settles
	if now := eval[int](b, visibleLines+"[0]"); now != first+10 {
		t.Errorf("after the wheel there is %d at the top, not %d", now, first+10)
	}
	b.press("/")
	b.write("#log-q", "subnet[777777]")
	quick("a search", 777_777)
	b.until(`document.querySelector("#log-found").innerText === "1 of 1" && document.querySelector("#L777777.here mark")`)
	b.write("#log-q", "after 59s")
	b.until(`document.querySelector("#log-found").innerText.endsWith("of 10,000+")`)
	b.do(chromedp.Evaluate(`document.querySelector("#log-view").focus()`, nil))
	b.press("n")
	b.until(`document.querySelector(".ll.here")`)
	b.press("/")
	b.press("Escape")
	b.until(`!document.querySelector(".ll.here, .ll.hit, .ll mark") && !document.querySelector("#log-found").innerText && !document.querySelector("#log-q").value`)
	b.press("w")
	b.until(`document.querySelector("#log.wrap")`)
	b.press("g", "g")
	quick("the begin, wrapped", 1)
	b.press("G")
	quick("the end, wrapped", many)
	b.clean()
}

// What is printed is on the screen within a second; who scrolls up is left alone.
func TestBrowserLogIsLive(t *testing.T) {
	w := start(t)
	lines := make(chan string)
	over := sync.OnceFunc(func() { close(lines) })
	moduleOf(w, func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepRun {
			for text := range lines {
				s.Print(strings.Split(text, "\n")...)
			}
		}
		return work.StepResult{}
	})
	t.Cleanup(over)
	j := submitRun(w)
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open(fmt.Sprintf("/jobs/%d", j.Number))
	b.isLive()
	within := b.timed()
	for i := 1; i <= 3; i++ {
		lines <- fmt.Sprintf("\x1b[1;31mline %d\x1b[0m", i)
		within("a line", fmt.Sprintf(`document.querySelector("#L%d .term-fg31.term-fg1")?.innerText === "line %d"`, i, i))
	}
	lines <- strings.Repeat("more\n", 500) + "the last"
	b.sees(504)
	b.until(`document.querySelector("#L504").getBoundingClientRect().bottom <= innerHeight`) // the page goes along
	if eval[int](b, `document.querySelectorAll(".ll").length`) > 200 {
		t.Error("lines that are not on the screen are in the page")
	}
	b.do(chromedp.Evaluate(`document.querySelector("#log-view").scrollTop = 2000`, nil))
	b.until(`document.querySelector("#log-follow").getAttribute("aria-pressed") === "false"`)
	b.sees(110)
	lines <- "while somebody reads"
	b.until(`document.querySelector("#log-count").innerText === "505 lines"`)
	b.sees(110)
	b.click("#log-end")
	b.sees(505)
	lines <- "again at the end"
	b.sees(506)
	b.press("g", "g")
	b.sees(1)
	b.click(".lh") // the Step is folded
	b.until(`document.querySelectorAll(".ll").length === 0`)
	b.click(".lh")
	b.until(`document.querySelectorAll(".ll").length > 0`)
	b.click("#L2 .n, .ll .n")
	b.until(`location.hash.startsWith("#L") && document.querySelector(".ll.picked")`)
	b.press("t")
	b.until(`/^\d+:\d\d\.\d{3}$/.test(document.querySelector(".ll .t").innerText)`)
	over()
	b.until(`document.querySelector(".lh .lstate.good")`)
	b.until(`document.querySelector("#log-follow").hidden`)
	b.clean()
}

// TestLogShots takes pictures of the log into the folder LEGWORK_SHOTS.
func TestLogShots(t *testing.T) {
	folder := os.Getenv("LEGWORK_SHOTS")
	if folder == "" {
		t.Skip("LEGWORK_SHOTS names no folder")
	}
	w := start(t)
	plan := printed("\x1b[1mOpenTofu\x1b[0m used the selected providers to generate the following execution plan. Resource actions are indicated with the following symbols:",
		"  \x1b[32m+\x1b[0m create", "  \x1b[33m~\x1b[0m update in-place", "", "OpenTofu will perform the following actions:", "",
		"  \x1b[1m# terraform_data.subnet[\"a\"]\x1b[0m will be created", "  \x1b[32m+\x1b[0m resource \"terraform_data\" \"subnet\" {", "      \x1b[32m+\x1b[0m id     = (known after apply)",
		"      \x1b[33m~\x1b[0m input  = \"10.0.1.0/24\" \x1b[33m->\x1b[0m \"10.0.2.0/24\"", "    }", "", "\x1b[1mPlan:\x1b[0m 3 to add, 1 to change, 0 to destroy.",
		"\x1b[31m╷\x1b[0m", "\x1b[31m│\x1b[0m \x1b[1;31mError: \x1b[0m\x1b[1mInvalid value for variable\x1b[0m, a line that goes on for so long that it does not fit on most screens of most people who read it",
		"\x1b[41m failed \x1b[0m \x1b[42m ok \x1b[0m \x1b[44;97m info \x1b[0m \x1b[7m swapped \x1b[0m \x1b[38;5;208morange\x1b[0m \x1b[2mfaint\x1b[0m")
	plan[14].Stream, plan[13].Stream = work.Stderr, work.Stderr
	j := jobWithLog(w, append(printed("fetched \x1b[36mgit@example.com:network.git\x1b[0m at 4f2a91c", "unpacked 12 files"), numbered(6)...), append(plan, numbered(30)...))
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	w.Must(os.MkdirAll(folder, 0o755))
	for _, form := range []struct {
		name, theme   string
		width, height int64
	}{{"light", "light", 1360, 900}, {"dark", "dark", 1360, 900}, {"phone", "light", 390, 844}} {
		b.do(chromedp.EmulateViewport(form.width, form.height))
		b.open(fmt.Sprintf("/jobs/%d?%s#L12", j.Number, form.name))
		b.do(chromedp.Evaluate(fmt.Sprintf("document.documentElement.dataset.theme = %q", form.theme), nil))
		b.isLive()
		b.sees(12)
		b.write("#log-q", "terraform")
		b.until(`document.querySelector("#log-found").innerText.includes("of")`)
		b.do(chromedp.Evaluate(`document.querySelector("#log").scrollIntoView()`, nil))
		var png []byte
		b.do(chromedp.CaptureScreenshot(&png))
		w.Must(os.WriteFile(filepath.Join(folder, "log-"+form.name+".png"), png, 0o644))
		if wide := eval[int](b, "document.documentElement.scrollWidth"); int64(wide) > form.width {
			t.Errorf("%s is %d wide", form.name, wide)
		}
	}
	b.clean()
}
