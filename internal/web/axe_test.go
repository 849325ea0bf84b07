package web_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axeFile checks pages for what keeps people from using them. It is for tests alone, and not in the program.
const axeFile = "testdata/axe/axe-4.10.3.min.js"

// axe gives what keeps people from using the page as it is now.
func (b *tab) axe(t *testing.T) (found []string) {
	t.Helper()
	if eval[bool](b, `typeof axe === "undefined"`) {
		source, err := os.ReadFile(axeFile)
		if err != nil {
			t.Fatal(err)
		}
		b.do(chromedp.Evaluate(string(source)+";0", nil))
	}
	var text string
	b.do(chromedp.Evaluate(`axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v =>
		v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " (" + (n.any[0] || n.all[0] || n.none[0] || {}).message + ")").join("; "))))`,
		&text, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestBrowserAccessibility has axe-core look at every page and sheet, by day and by night, on a desk and on a phone.
func TestBrowserAccessibility(t *testing.T) {
	w := start(t)
	world := fillEverything(t, w)
	b := newTab(t, w)
	b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}))
	looks := []struct {
		theme string
		width int64
	}{{"light", 1360}, {"dark", 1360}, {"dark", 390}, {"light", 390}}
	for i, p := range append([]place{{"login", "/login"}}, somePlaces(t)...) {
		if i == 1 {
			b.logInWithToken(w.Token)
		}
		b.do(chromedp.EmulateViewport(looks[0].width, 900))
		b.open(p.filled(world))
		if eval[bool](b, `!!document.querySelector("#live-state")`) {
			b.isLive()
		}
		for _, look := range looks {
			b.do(chromedp.EmulateViewport(look.width, 900), chromedp.Evaluate(fmt.Sprintf("document.documentElement.dataset.theme = %q", look.theme), nil))
			for _, problem := range b.axe(t) {
				t.Errorf("%s, %s, %d wide: %s", p.name, look.theme, look.width, problem)
			}
			if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > look.width {
				t.Errorf("%s is %d wide of %d", p.name, wide, look.width)
			}
		}
	}
	b.clean()
}

// What keeps people from using a page is found.
func TestBrowserAccessibilityIsSeen(t *testing.T) {
	b := newTab(t, start(t))
	b.open("/login")
	b.do(chromedp.Evaluate(`document.querySelector("main").innerHTML = '<img src="/x.png"><p class="x">pale</p>'; document.querySelector(".x").style.color = "#ddd"`, nil))
	b.expected = "x.png"
	found := strings.Join(b.axe(t), "\n")
	for _, rule := range []string{"image-alt", "color-contrast"} {
		if !strings.Contains(found, rule) {
			t.Errorf("no %s: %s", rule, found)
		}
	}
}

func TestAxeIsAsPublished(t *testing.T) {
	file, err := os.ReadFile(axeFile)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("testdata/axe/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	if want, _, _ := strings.Cut(string(sums), " "); sumOf(file) != want {
		t.Errorf("%s: %s, want %s", axeFile, sumOf(file), want)
	}
}
