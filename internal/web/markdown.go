package web

import (
	"bytes"
	"context"
	"html"
	"io"
	"net/url"
	"strings"
	"sync"

	"github.com/a-h/templ"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"legwork/internal/lazyregexp"
)

// mostNotes is how much of the notes of one release is shown, in bytes.
const mostNotes = 32 << 10

// markdown shows a text that is written in Markdown and comes from outside: HTML in it is text, pictures are their words, links lead to http
// and https alone and let nothing be done to this page, and every heading is of one level, below those of the page.
func markdown(text string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, out io.Writer) error {
		if len(text) > mostNotes {
			text = strings.ToValidUTF8(text[:mostNotes], "") + "\n\n…"
		}
		shown, err := notesShown.of(text)
		if err != nil {
			return err
		}
		_, err = out.Write(shown)
		return err
	})
}

// notes keeps what texts were rendered to: a list of releases shows the same ones again and again, and some texts take a tenth of a second.
type notes struct {
	mu    sync.Mutex
	shown map[string][]byte
	order []string // the texts, the oldest first
}

// keptNotes is how many texts are kept rendered: those of one list of releases, and some.
const keptNotes = 64

var notesShown = notes{shown: map[string][]byte{}}

// of gives what a text is rendered to.
func (n *notes) of(text string) ([]byte, error) {
	n.mu.Lock()
	shown, ok := n.shown[text]
	n.mu.Unlock()
	if ok {
		return shown, nil
	}
	var b bytes.Buffer
	if err := notesWriter.Convert([]byte(shallow(text)), &b); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.shown[text]; !ok {
		n.shown[text], n.order = b.Bytes(), append(n.order, text)
	}
	if len(n.order) > keptNotes {
		delete(n.shown, n.order[0])
		n.order = n.order[1:]
	}
	return b.Bytes(), nil
}

// mostNested is how many quotes and lists may begin in one line, each in the one before: the time that they take grows with their square.
const mostNested = 20

// container is the beginning of a quote or of a list.
var container = lazyregexp.New(`^[ \t]*(?:>|[-+*](?:[ \t]|$)|[0-9]{1,9}[.)](?:[ \t]|$))`)

// shallow has what begins too deep in others be text.
func shallow(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		at, rest := 0, strings.TrimRight(line, "\r\n")
		for range mostNested {
			at += len(container.FindString(rest[at:]))
		}
		if next := container.FindString(rest[at:]); next != "" {
			at += strings.IndexAny(next, ">-+*.)")
			line = line[:at] + `\` + line[at:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// notesWriter knows no extension that writes a style or an id.
var notesWriter = goldmark.New(goldmark.WithExtensions(extension.Strikethrough, extension.Linkify,
	extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(safeNodes{}, 1))))

// safeNodes renders what could do harm.
type safeNodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (safeNodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, safeHeading)
	r.Register(ast.KindLink, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		return safeLink(w, string(n.(*ast.Link).Destination), entering)
	})
	r.Register(ast.KindAutoLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		link := n.(*ast.AutoLink)
		_, _ = safeLink(w, string(link.URL(source)), true)
		_, _ = w.WriteString(html.EscapeString(string(link.Label(source))))
		return safeLink(w, string(link.URL(source)), false)
	})
	r.Register(ast.KindImage, func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
		return ast.WalkContinue, nil // its words are its children
	})
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString(html.EscapeString(string(n.(*ast.RawHTML).Segments.Value(source))))
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHTMLBlock, safeBlock)
}

func safeHeading(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<h3>")
	} else {
		_, _ = w.WriteString("</h3>\n")
	}
	return ast.WalkContinue, nil
}

// safeLink begins or ends a link; one that leads elsewhere than to http and https is its words alone.
func safeLink(w util.BufWriter, to string, entering bool) (ast.WalkStatus, error) {
	u, err := url.Parse(to)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
	case entering:
		_, _ = w.WriteString(`<a href="` + html.EscapeString(u.String()) + `" rel="noopener noreferrer nofollow" target="_blank">`)
	default:
		_, _ = w.WriteString("</a>")
	}
	return ast.WalkContinue, nil
}

func safeBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	block := n.(*ast.HTMLBlock)
	if entering {
		_, _ = w.WriteString("<p>" + html.EscapeString(string(block.Lines().Value(source))))
	} else {
		if block.HasClosure() {
			_, _ = w.WriteString(html.EscapeString(string(block.ClosureLine.Value(source))))
		}
		_, _ = w.WriteString("</p>\n")
	}
	return ast.WalkContinue, nil
}
