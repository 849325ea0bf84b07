package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/a-h/templ"

	"legwork/internal/catalog"
	"legwork/internal/control"
)

// Sent gives what a stream sends of a part with rows, for each of its faces: the HTML of the whole, in which {} stands where
// the rows do, and that of the rows by id.
func Sent(faces ...Face) (sent []string, err error) {
	s := &stream{visit: &visit{ctx: context.Background()}, sent: map[string][sha256.Size]byte{}, shells: map[string][sha256.Size]byte{}}
	for _, f := range faces {
		var b bytes.Buffer
		p := part{id: "p", rows: []part{}, body: text(f.Whole)}
		for _, r := range f.Rows {
			p.rows = append(p.rows, part{id: r[0], body: text(r[1])})
		}
		if err := s.render(&b, p); err != nil {
			return nil, err
		}
		sent = append(sent, b.String())
	}
	return sent, nil
}

// Face is a part as it is once.
type Face struct {
	Whole string
	Rows  [][2]string
}

func text(s string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	})
}

// Concerned tells whether an event concerns the page of a Job or of a Runner.
func (w *Web) Concerned(actor catalog.Actor, path string, e control.Event) (bool, error) {
	p, name := jobPage(), "job"
	if strings.HasPrefix(path, "/runners/") {
		p, name = runnerPage(), "runner"
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.SetPathValue(name, path[strings.LastIndexByte(path, '/')+1:])
	v := w.visitOf(r.WithContext(context.WithValue(r.Context(), actorKey, actor)))
	c, err := p.load(v)
	s := &stream{page: p}
	s.about.Store(&c.about)
	return s.concerns(e), err
}
