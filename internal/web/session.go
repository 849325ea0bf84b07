package web

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

type contextKey int

const (
	actorKey contextKey = iota
	streamKey
	sheetKey
)

// cookieName is bound to this host and to TLS by the browser where there is TLS.
func (w *Web) cookieName(r *http.Request) string {
	if w.overTLS(r) {
		return "__Host-legwork"
	}
	return "legwork"
}

// deviceSuffix ends the name of the cookie of a browser in which somebody has logged in.
const deviceSuffix = "-device"

func (w *Web) deviceCookie(r *http.Request) string {
	cookie, err := r.Cookie(w.cookieName(r) + deviceSuffix)
	if err != nil {
		return ""
	}
	return cookie.Value
}

func (w *Web) overTLS(r *http.Request) bool { return w.secure || w.TLS(r) }

func (w *Web) setCookie(rw http.ResponseWriter, r *http.Request, name, value string, age int) {
	http.SetCookie(rw, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: w.overTLS(r), SameSite: http.SameSiteLaxMode,
	})
}

// actorOf tells whose Web session a request belongs to.
func (w *Web) actorOf(r *http.Request, seen bool) (catalog.Actor, error) {
	cookie, err := r.Cookie(w.cookieName(r))
	if err != nil {
		return catalog.Actor{}, fault.New(fault.Unauthenticated, "session_missing", "you are not logged in")
	}
	actor, err := w.Access.SessionActor(r.Context(), cookie.Value, seen)
	actor.Address = w.Address(r)
	return actor, err
}

// withActor has every request belong to a Web session; who is not logged in is sent to do that, and back.
func (w *Web) withActor(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		actor, err := w.actorOf(r, true)
		switch {
		case fault.Is(err, fault.Unauthenticated):
			w.sendTo(rw, r, loginFor(r))
		case err != nil:
			w.fail(rw, r, err)
		default:
			next.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), actorKey, actor)))
		}
	})
}

func loginFor(r *http.Request) string {
	if r.Method != http.MethodGet || r.URL.Path == "/" && r.URL.RawQuery == "" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(r.URL.RequestURI())
}

// sendTo has the browser go to another page, also where a script asked for a piece of one.
func (w *Web) sendTo(rw http.ResponseWriter, r *http.Request, to string) {
	if r.Header.Get("HX-Request") == "true" {
		rw.Header().Set("HX-Redirect", to)
		rw.WriteHeader(http.StatusOK)
		return
	}
	http.Redirect(rw, r, to, http.StatusSeeOther)
}

// safeNext gives where to go after the log in: a path of this Server, else its start.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

func (w *Web) showLogin(rw http.ResponseWriter, r *http.Request) {
	next := safeNext(r.URL.Query().Get("next"))
	if _, err := w.actorOf(r, true); err == nil {
		w.sendTo(rw, r, next)
		return
	}
	w.answer(rw, r, http.StatusOK, w.loginPage(r, form{}, next))
}

func (w *Web) logIn(rw http.ResponseWriter, r *http.Request) {
	f, err := readForm(r)
	if err != nil {
		w.fail(rw, r, err)
		return
	}
	next := safeNext(f.get("next"))
	if err := w.keepsCookie(r); err != nil { // before anything is counted or opened
		w.answer(rw, r, statusOf(err.Kind), w.loginPage(r, f.failed(err), next))
		return
	}
	var cookie, device string
	if token := f.get("token"); token != "" {
		cookie, err = w.Access.LoginWithToken(r.Context(), token, w.Address(r))
	} else {
		cookie, err = w.Access.LoginWithPassword(r.Context(), access.PasswordLogin{Name: f.get("name"), Password: f.get("password"), Address: w.Address(r), Device: w.deviceCookie(r)})
		device = w.Access.NewDevice(f.get("name"))
	}
	if err != nil {
		status := http.StatusInternalServerError
		if found := fault.Of(err); found.Kind != fault.Internal {
			status = statusOf(found.Kind)
		} else {
			w.Log.Error("log in failed", "error", err)
		}
		retryLater(rw, status)
		w.answer(rw, r, status, w.loginPage(r, f.failed(err), next))
		return
	}
	w.setCookie(rw, r, w.cookieName(r), cookie, int(access.SessionLifetime.Seconds()))
	if device != "" {
		w.setCookie(rw, r, w.cookieName(r)+deviceSuffix, device, year)
	}
	http.Redirect(rw, r, next, http.StatusSeeOther)
}

// keepsCookie refuses a log in whose cookie the browser would throw away: the public URL is https, and the page that was sent
// stood at http, where no cookie for TLS is kept, except on the host itself.
func (w *Web) keepsCookie(r *http.Request) *fault.Fault {
	origin, err := url.Parse(r.Header.Get("Origin"))
	if !w.secure || err != nil || origin.Scheme != "http" {
		return nil
	}
	if ip := net.ParseIP(origin.Hostname()); origin.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fault.New(fault.Invalid, "login_needs_tls", "this page was opened by http, where a browser does not stay logged in").WithHint("open %s", w.PublicURL)
}

func (w *Web) logOut(rw http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(w.cookieName(r)); err == nil {
		if err := w.Access.Logout(r.Context(), cookie.Value); err != nil {
			w.fail(rw, r, err)
			return
		}
	}
	w.setCookie(rw, r, w.cookieName(r), "", -1)
	rw.Header().Set("Clear-Site-Data", `"storage"`)
	http.Redirect(rw, r, "/login", http.StatusSeeOther)
}

const (
	themeCookie = "legwork-theme"
	noteCookie  = "legwork-note"
	year        = 365 * 24 * 60 * 60
)

// themeOf gives "light", "dark" or "" for what the system says.
func themeOf(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}

func (w *Web) setTheme(rw http.ResponseWriter, r *http.Request) {
	theme := r.FormValue("theme")
	if theme != "light" && theme != "dark" {
		theme = ""
	}
	w.setCookie(rw, r, themeCookie, theme, year)
	if r.Header.Get("HX-Request") == "true" {
		rw.WriteHeader(http.StatusNoContent)
		return
	}
	http.Redirect(rw, r, safeNext(r.FormValue("next")), http.StatusSeeOther)
}

// leaveNote has the next page show a sentence.
func (w *Web) leaveNote(rw http.ResponseWriter, r *http.Request, text string) {
	w.setCookie(rw, r, noteCookie, url.QueryEscape(text), 60)
}

// takeNote gives the sentence that an action left, once.
func (w *Web) takeNote(rw http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(noteCookie)
	if err != nil || c.Value == "" || len(c.Value) > 1000 {
		return ""
	}
	w.setCookie(rw, r, noteCookie, "", -1)
	text, err := url.QueryUnescape(c.Value)
	if err != nil {
		return ""
	}
	return text
}
