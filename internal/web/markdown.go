package web

import (
	"bytes"
	"context"
	"html"
	"io"
	"net/url"
	"strings"
	"unicode"

	"github.com/a-h/templ"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
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
		var b bytes.Buffer
		if err := notesWriter.Convert([]byte(text), &b); err != nil {
			return err
		}
		_, err := out.Write(bytes.Map(noBidiControl, b.Bytes())) // of entities, too
		return err
	})
}

// noBidiControl drops the characters that let text look other than it is, such as U+202E; and those that only say in which direction.
func noBidiControl(r rune) rune {
	if unicode.Is(unicode.Bidi_Control, r) {
		return -1
	}
	return r
}

// plainTables writes tables without a style or an attribute of the columns.
var plainTables = extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))

// notesWriter knows no extension that writes a style or an id.
var notesWriter = goldmark.New(goldmark.WithExtensions(extension.Strikethrough, extension.Linkify, plainTables),
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
