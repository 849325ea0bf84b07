package web_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestShots takes pictures of every place into the folder LEGWORK_SHOTS, by day, by night and on a phone: `make shots`.
func TestShots(t *testing.T) {
	folder := os.Getenv("LEGWORK_SHOTS")
	if folder == "" {
		t.Skip("LEGWORK_SHOTS names no folder")
	}
	w := start(t)
	world := fillEverything(t, w)
	b := newTab(t, w)
	b.expected = "40"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}))
	for i, p := range append(append([]place{{"login", "/login"}}, somePlaces(t)...), place{"not-found", "/nothing"}) {
		if i == 1 {
			b.logInWithToken(w.Token)
		}
		for _, look := range []struct {
			name, theme   string
			width, height int64
		}{{"light", "light", 1360, 900}, {"dark", "dark", 1360, 900}, {"phone", "light", 390, 844}} {
			var png []byte
			b.do(chromedp.EmulateViewport(look.width, look.height))
			b.open(p.filled(world))
			b.do(chromedp.Evaluate(fmt.Sprintf("document.documentElement.dataset.theme = %q", look.theme), nil))
			if eval[bool](b, `!!document.querySelector("#live-state")`) {
				b.isLive()
			}
			if eval[bool](b, `!!document.querySelector("#log")`) {
				b.until(`document.querySelector(".ll") || document.querySelector("#log")?.innerText.includes("No output")`)
			}
			b.do(chromedp.FullScreenshot(&png, 100))
			if err := os.WriteFile(fmt.Sprintf("%s/%s-%s.png", folder, p.name, look.name), png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.clean()
}
