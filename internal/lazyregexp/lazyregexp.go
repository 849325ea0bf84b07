// Package lazyregexp compiles regular expressions on first use.
//
// A program that runs as a server, a runner and a command line links many package-level expressions, and every
// process would otherwise pay for all of them at its start.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that is compiled when it is first used. It is safe for concurrent use. Its methods are
// those of [regexp.Regexp].
type Regexp struct {
	expr     string
	compiled func() *regexp.Regexp
}

// New returns the regular expression expr. An expression that does not compile panics on first use.
func New(expr string) *Regexp {
	return &Regexp{expr: expr, compiled: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// String returns the source text of the expression.
func (r *Regexp) String() string { return r.expr }

// MatchString reports whether s contains a match.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindString returns the leftmost match in s, or "".
func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }

// FindStringSubmatch returns the leftmost match in s and its subexpressions, or nil.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// FindAllStringIndex returns the start and end of at most n successive matches in s; all of them if n < 0.
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

// FindAllSubmatch returns at most n successive matches in b and their subexpressions; all of them if n < 0.
func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte {
	return r.compiled().FindAllSubmatch(b, n)
}

// ReplaceAllString returns a copy of src in which repl replaces each match.
func (r *Regexp) ReplaceAllString(src, repl string) string {
	return r.compiled().ReplaceAllString(src, repl)
}
