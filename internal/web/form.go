package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/a-h/templ"

	"legwork/internal/fault"
)

// form is what was typed, and what is wrong with it. The zero form is an empty one.
type form struct {
	values   url.Values
	problems map[string]string // by field
	failure  *fault.Fault      // shown over the form
	whole    *fault.Fault      // what went wrong, wherever it is shown
	asked    map[string]bool   // fields that were rendered: each asks what is wrong with it
	back     string            // the button that leaves it as it is, "" = "Cancel"
}

func readForm(r *http.Request) (form, error) {
	err := r.ParseForm()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return form{}, fault.New(fault.Unavailable, "form_too_slow", "the form did not arrive in time").WithHint("send it again").WithCause(err)
	}
	if err != nil {
		return form{}, fault.New(fault.Invalid, "form_unreadable", "the form cannot be read").WithCause(err)
	}
	if err := readFiles(r); err != nil {
		return form{}, err
	}
	return form{values: r.PostForm}, nil
}

// get gives what was typed in a field. A password keeps its spaces.
func (f form) get(name string) string {
	v := f.values.Get(name)
	if name == "password" || name == "current" {
		return v
	}
	return strings.TrimSpace(v)
}

// or gives what was typed, else a value to begin with.
func (f form) or(name, otherwise string) string {
	if f.values.Has(name) {
		return f.get(name)
	}
	return otherwise
}

// failed puts an error at the fields that it names, else over the form.
func (f form) failed(err error) form {
	found := fault.Of(err)
	f.whole = found
	f.problems, f.asked = map[string]string{}, map[string]bool{}
	for _, p := range found.Details {
		if p.Field != "" {
			f.problems[p.Field] = p.Message
		}
	}
	if len(f.problems) == 0 {
		f.failure = found
	}
	return f
}

// problem gives what is wrong with a field, "" for nothing, and notes that the form has that field.
func (f form) problem(name string) string {
	if f.asked != nil {
		f.asked[name] = true
	}
	return f.problems[name]
}

// unsaid gives what is to be said over the form: what is wrong with something that it has no field for. The fields are rendered before.
func (f form) unsaid() *fault.Fault {
	if f.failure != nil {
		return f.failure
	}
	for name := range f.problems {
		if !f.asked[name] {
			return f.whole
		}
	}
	return nil
}

// fields renders the fields of a form, and over them what none of them says.
func fields(f form) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, out io.Writer) error {
		var b bytes.Buffer
		if err := templ.GetChildren(ctx).Render(templ.ClearChildren(ctx), &b); err != nil {
			return err
		}
		if found := f.unsaid(); found != nil {
			if err := faultBox(found).Render(templ.ClearChildren(ctx), out); err != nil {
				return err
			}
		}
		_, err := out.Write(b.Bytes())
		return err
	})
}
