package web_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"legwork/internal/catalog"
)

// TestBrowserShowsOneTimeZone shows times in the zone of the browser, by name, and in another one when a person chooses it.
func TestBrowserShowsOneTimeZone(t *testing.T) {
	w := start(t)
	_, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge-1"})
	w.Must(err)
	b := newTab(t, w)
	b.do(emulation.SetTimezoneOverride("America/New_York"))
	b.logInWithToken(w.Token)
	b.until(`document.querySelector("[data-zone-name]").textContent === "America/New_York"`)
	b.until(`document.querySelector("#zone").selectedOptions[0].textContent === "Browser: America/New_York"`)
	hours := eval[string](b, `[...document.querySelectorAll("[data-clock]")].map((e) => e.textContent).join()`)
	b.do(evaluate(`(() => { const zone = document.querySelector("#zone"); zone.value = "utc"; zone.dispatchEvent(new Event("change")) })()`))
	b.until(`document.querySelector("[data-zone-name]").textContent === "UTC"`)
	if got := eval[string](b, `[...document.querySelectorAll("[data-clock]")].map((e) => e.textContent).join()`); got == hours || got == "" {
		t.Errorf("hours of the chart: got %q in UTC and %q in New York", got, hours)
	}
	b.open("/jobs")
	b.until(`document.querySelector("#zone").value === "utc"`)
	b.open("/audit")
	b.until(`document.querySelector("time[data-since]")`)
	if got := eval[string](b, `document.querySelector("time[data-since]").title`); !strings.HasSuffix(got, " UTC") {
		t.Errorf("the title of a time: got %q, want it in UTC", got)
	}
	b.clean()
}
