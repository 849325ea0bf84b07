package web

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/a-h/templ"
	"github.com/klauspost/compress/gzhttp"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// sheet is a form with an address of its own: GET shows it, POST does it. With scripts it opens over the page whose link
// leads to it, without them it is a page. What is wrong is shown at its fields, and what was typed stays.
type sheet struct {
	path string
	nav  string
	need catalog.Permission
	show func(v *visit, f form) (sheetContent, error)
	act  func(v *visit, f form) (outcome, error)
}

// sheetContent is what a sheet shows.
type sheetContent struct {
	title string
	body  templ.Component // its form posts to the sheet's own address
}

// outcome is what follows from an act: another page and a sentence there, or something that is shown once, in the sheet.
type outcome struct {
	next string
	note string
	show *sheetContent

	keep func(rw http.ResponseWriter, r *http.Request) // nil, or what the browser is to keep
}

func (w *Web) addSheet(s sheet) {
	guarded := func(fn func(rw http.ResponseWriter, r *http.Request, v *visit)) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			v := w.visitOf(r)
			if err := v.actor.Need(s.need); err != nil {
				w.fail(rw, r, err)
				return
			}
			fn(rw, r, v)
		}
	}
	w.pages.HandleFunc("GET "+s.path, guarded(func(rw http.ResponseWriter, r *http.Request, v *visit) {
		w.showSheet(rw, r, v, s, form{}, http.StatusOK)
	}))
	w.pages.HandleFunc("POST "+s.path, guarded(func(rw http.ResponseWriter, r *http.Request, v *visit) {
		w.actSheet(rw, r, v, s)
	}))
}

func (w *Web) showSheet(rw http.ResponseWriter, r *http.Request, v *visit, s sheet, f form, status int) {
	c, err := s.show(v, f)
	if err != nil {
		w.fail(rw, r, err)
		return
	}
	w.answerSheet(rw, r, v, s, c, status)
}

func (w *Web) answerSheet(rw http.ResponseWriter, r *http.Request, v *visit, s sheet, c sheetContent, status int) {
	p := page{path: s.path, nav: s.nav}
	around := content{title: c.title, body: sheetPage(c)}
	r = r.WithContext(context.WithValue(r.Context(), sheetKey, [2]string{r.URL.Path, s.backPath(v)}))
	w.answer(rw, r, status, shellPage(v, p, around, frame{theme: themeOf(r)}))
}

func (w *Web) actSheet(rw http.ResponseWriter, r *http.Request, v *visit, s sheet) {
	f, err := readForm(r)
	if err != nil {
		w.fail(rw, r, err)
		return
	}
	done, err := s.act(v, f)
	if err != nil {
		if found := fault.Of(err); found.Kind == fault.Internal {
			w.fail(rw, r, err)
			return
		} else {
			w.showSheet(rw, r, v, s, f.failed(err), statusOf(found.Kind))
		}
		return
	}
	if done.show != nil { // often a secret: not compressed, so that the length of the answer says nothing of it beside what was typed
		rw.Header().Set(gzhttp.HeaderNoCompression, "true")
		w.answerSheet(rw, r, v, s, *done.show, http.StatusOK)
		return
	}
	if done.keep != nil {
		done.keep(rw, r)
	}
	if done.note != "" {
		w.leaveNote(rw, r, done.note)
	}
	w.sendTo(rw, r, done.next)
}

// backPath returns the address that the sheet goes back to without scripts: the page of its subject where it has one.
func (s sheet) backPath(v *visit) string {
	parent, _, _ := strings.Cut(s.path, "}/")
	if subject := v.request.URL.Path; strings.HasPrefix(parent, "/jobs/{") {
		return path.Dir(subject)
	}
	return s.nav
}

// sheetAddress gives the address of the sheet that is rendered, where its form goes also when it stands over another page, and
// the address that it goes back to.
func sheetAddress(ctx context.Context) (self, back string) {
	path, _ := ctx.Value(sheetKey).([2]string)
	return path[0], cmp.Or(path[1], "/")
}
