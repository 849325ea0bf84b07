package catalog

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"legwork/internal/fault"
)

// parser reads the files of one manifest and collects what is wrong with them.
type parser struct {
	manifest  Manifest
	problems  []fault.Problem
	documents int
	budget    budget // of the whole manifest
}

func (p *parser) add(file string, line int, field, format string, args ...any) {
	p.problems = append(p.problems, fault.Problem{File: file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
}

// file reads the documents of one file, one at a time, since a document as a tree takes many times its
// size. One that is no YAML does not hide the next.
func (p *parser) file(f ManifestFile) {
	for doc, problem := range readDocuments(f) {
		if problem != nil {
			p.problems = append(p.problems, *problem)
			p.lose(Kinds...)
		} else {
			p.documents++
		}
		if p.documents > MaxDocuments {
			p.add(f.Name, doc.line, "", "is one document more than the %d that a manifest may have", MaxDocuments)
		}
		if p.documents > MaxDocuments || len(p.problems) > maxProblems {
			p.lose(Kinds...)
			return
		}
		if problem == nil {
			p.document(doc)
		}
	}
}

func (p *parser) document(doc document) {
	d := &decoder{doc: doc, total: &p.budget, lines: map[string]int{}}
	d.own = budget{nodes: maxDocumentNodes, bytes: MaxManifestFile}
	entries, ok := d.entries(doc.root, "")
	if ok {
		p.declare(d, entries)
	} else {
		p.lose(Kinds...)
	}
	p.problems = append(p.problems, d.problems...)
}

// lose notes that documents of these kinds may be there that are not known.
func (p *parser) lose(kinds ...Kind) {
	if p.manifest.lost == nil {
		p.manifest.lost = map[Kind]bool{}
	}
	for _, kind := range kinds {
		p.manifest.lost[kind] = true
	}
}

// declare decodes a document into the Spec of its kind.
func (p *parser) declare(d *decoder, entries []entry) {
	kind, ok := d.kind(entries)
	if !ok {
		p.lose(Kinds...)
		return
	}
	m := &p.manifest
	switch kind {
	case KindStack:
		declare(d, entries, &m.Stacks)
	case KindNamespace:
		declare(d, entries, &m.Namespaces)
	case KindCloudIdentity:
		declare(d, d.withoutSecretKey(entries), &m.CloudIdentities)
	case KindRunner:
		declare(d, entries, &m.Runners)
	case KindModule:
		declare(d, entries, &m.Modules)
	case KindAssignment:
		declare(d, entries, &m.Assignments)
	case KindNode:
		declare(d, entries, &m.Nodes)
	case KindNodeSource:
		declare(d, entries, &m.NodeSources)
	case KindRunbook:
		declare(d, entries, &m.Runbooks)
	case KindSecret:
		declare(d, d.withoutValue(entries), &m.Secrets)
	}
	if d.stopped || d.reported("name") || d.reported("stack") || d.reported("namespace") {
		p.lose(kind)
	}
}

func declare[T specification](d *decoder, entries []entry, list *[]Declared[T]) {
	var spec T
	d.fields(entries, reflect.ValueOf(&spec).Elem(), "", "kind")
	declared := Declared[T]{Spec: spec, Position: Position{d.doc.file, d.doc.line}, lines: d.lines}
	if !d.stopped {
		for _, problem := range spec.problems() {
			if !d.reported(problem.Field) {
				at := declared.At(problem.Field)
				problem.File, problem.Line = at.File, at.Line
				d.problems = append(d.problems, problem)
			}
		}
	}
	declared.broken = len(d.problems) > 0
	*list = append(*list, declared)
}

// kind reads which Spec the document declares.
func (d *decoder) kind(entries []entry) (Kind, bool) {
	for _, e := range entries {
		if e.key != "kind" {
			continue
		}
		word, _ := d.text(e.value, "kind")
		var c checker
		choice(&c, "kind", Kind(word), Kinds, true)
		if len(c.problems) > 0 && !d.reported("kind") {
			d.add(e.line, "kind", "%s", c.problems[0].Message)
		}
		return Kind(word), len(c.problems) == 0
	}
	d.add(d.doc.line, "kind", "is missing: %s", oneOf(Kinds))
	return "", false
}

// reported tells whether a problem of the field, or of what it is part of or made of, is known
// already, so that a rule about a value that could not be read is not told as well.
func (d *decoder) reported(field string) bool {
	for _, p := range d.problems {
		if p.Field == field || strings.HasPrefix(p.Field, field+".") || strings.HasPrefix(p.Field, field+"[") ||
			strings.HasPrefix(field, p.Field+".") || strings.HasPrefix(field, p.Field+"[") {
			return true
		}
	}
	return false
}

// Bounds of what anchors may expand to, and of nesting.
const (
	maxNodes         = 1_000_000 // values in a manifest, counted each time they are referred to
	maxDocumentNodes = 200_000   // and in a document
)

// MaxDepth is how deep the values of a manifest may be nested.
const MaxDepth = 64

// budget is what may still be read.
type budget struct{ nodes, bytes int }

func (b *budget) spend(bytes int) bool {
	b.nodes--
	b.bytes -= bytes
	return b.nodes >= 0 && b.bytes >= 0
}

// document is one document of a file as a tree of nodes.
type document struct {
	file   string
	line   int // where its first value stands
	offset int // to add to the lines of its nodes
	root   *yaml.Node
}
