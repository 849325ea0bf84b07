package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"legwork/internal/catalog"
)

func TestKeysAreTurnedOff(t *testing.T) {
	w := start(t)
	v := newVisitor(t, w)
	v.logIn(url.Values{"token": {w.TokenFor("default", catalog.RoleViewer)}})
	for _, keys := range []string{"off", "on"} {
		if status, text := v.post("/-/keyboard", url.Values{"keys": {keys}}); status != http.StatusOK || !strings.Contains(text, `data-keys="`+keys+`"`) {
			t.Errorf("%s: %d", keys, status)
		}
	}
	if status, text := v.get("/-/keyboard"); status != http.StatusOK || !strings.Contains(text, "<kbd>") {
		t.Errorf("the list: %d", status)
	}
}

func TestBrowserKeysAreTurnedOff(t *testing.T) {
	w := start(t)
	j := jobWithLog(w, numbered(2000))
	b := newTab(t, w)
	b.logInWithToken(w.Token)
	b.open(fmt.Sprintf("/jobs/%d", j.Number))
	b.isLive()
	b.sees(2000)
	b.quickly("g", "x")
	if top := eval[float64](b, `document.querySelector("#log-view").scrollTop`); top == 0 {
		t.Error("g and another key jumped")
	}
	b.press("g", "g")
	b.sees(1)
	b.press("?")
	b.click("dialog[open] .button.primary")
	b.until(`document.querySelector("[data-keys=off]") && location.pathname.startsWith("/jobs/")`)
	b.isLive()
	b.sees(2000)
	b.press("g", "g", "w", "?")
	b.sees(2000)
	if eval[bool](b, `!!document.querySelector("dialog[open]")`) {
		t.Error("the keys are not off")
	}
	b.clean()
}
