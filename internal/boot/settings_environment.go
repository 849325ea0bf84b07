package boot

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// The environment. Two underscores are one level.
//
// A Runner reads LEGWORK_RUNNER__ID (prefix, then the whole key) and, as other programs of its kind
// do, Runner__Id (the key alone). Every key of a Runner has a section, so that each of its variables
// holds a double underscore. A Server's keys have no sections; it reads LEGWORK_SERVER__LISTEN. That
// is also the form of the Runner's Server.Url, LEGWORK_SERVER__URL: no Server key is called as a key
// of the Runner's section Server (a test holds this), and each program passes over the other's.
//
// The command line's own LEGWORK_SERVER and LEGWORK_TOKEN, and what a Job sees (LEGWORK_JOB_ID, ...),
// hold no double underscore and are never settings.
const (
	prefix       = "LEGWORK_"
	serverPrefix = "LEGWORK_SERVER__"
	level        = "__"
)

// variableRule tells which key a variable's name stands for, as its segments; nil when the name is
// none of the program's. A strict one must be a known key.
type variableRule func(name string) (segments []string, strict bool)

func runnerVariable(name string) ([]string, bool) {
	rest, strict := cutPrefixFold(name, prefix)
	if !strings.Contains(rest, level) {
		return nil, false
	}
	if key, ok := cutPrefixFold(name, serverPrefix); ok && knownTo("server", strings.Split(key, level)...) {
		return nil, false
	}
	return strings.Split(rest, level), strict
}

func serverVariable(name string) ([]string, bool) {
	key, ok := cutPrefixFold(name, serverPrefix)
	if !ok || knownTo("runner", strings.Split(name[len(prefix):], level)...) {
		return nil, false
	}
	return strings.Split(key, level), true
}

func cutPrefixFold(text, prefix string) (string, bool) {
	if len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
		return text[len(prefix):], true
	}
	return text, false
}

// knownTo tells whether a program has a setting of this key.
func knownTo(program string, segments ...string) bool {
	schema, err := schemaOf(program)
	if err != nil {
		return false
	}
	_, found := newGathering(schema).walk(segments)
	return found != nil
}

// readEnvironment lays the environment over what is there: names without the prefix first, then
// those with it, each in alphabetical order.
func (g *gathering) readEnvironment(environ []string, rule variableRule) {
	values := map[string]string{} // as in a process, the last of a name counts
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	type variable struct {
		name     string
		segments []string
		strict   bool
	}
	var variables []variable
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if segments, strict := rule(name); segments != nil && values[name] != "" {
			variables = append(variables, variable{name, segments, strict})
		}
	}
	slices.SortStableFunc(variables, func(a, b variable) int { return cmp.Compare(rank(a.strict), rank(b.strict)) })
	for _, v := range variables {
		from := origin{file: "environment variable " + v.name}
		at, schema := g.walk(v.segments)
		switch {
		case schema != nil && !ignored(schema):
			g.place(at, schema, values[v.name], from)
		case v.strict && schema == nil:
			g.unknown(nil, strings.Join(v.segments, "."), from)
		}
	}
}

func rank(strict bool) int {
	if strict {
		return 1
	}
	return 0
}

// readFlags lays flags over what is there, in the order of their keys. names gives those that were not typed as --set.
func (g *gathering) readFlags(flags, names map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		from := origin{file: "flag " + cmp.Or(names[key], "--set "+key)}
		if at, schema := g.walk(strings.Split(key, ".")); schema != nil && !ignored(schema) {
			g.place(at, schema, flags[key], from)
		} else {
			g.unknown(nil, key, from)
		}
	}
}
