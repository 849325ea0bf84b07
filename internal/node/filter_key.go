package node

import (
	"fmt"
	"slices"
	"strings"
)

var filterKeys = []string{"name", "tags", "os", "arch", "address", "user"}

// otherWords are what the keys are called elsewhere.
var otherWords = map[string]string{
	"tag": "tags", "group": "tags", "groups": "tags", "label": "tags", "labels": "tags", "role": "tags",
	"host": "name", "node": "name", "nodename": "name", "id": "name",
	"hostname": "address", "ip": "address", "addr": "address", "username": "user", "login": "user",
	"platform": "os", "osfamily": "os", "osname": "os", "system": "os", "osarch": "arch", "architecture": "arch", "cpu": "arch",
}

// key tells which key a word before a colon is.
func (p *filterParser) key(w word) (key, string, *FilterError) {
	if slices.Contains(filterKeys, w.text) {
		return key(w.text), "", nil
	}
	if name, ok := strings.CutPrefix(w.text, attributePrefix); ok {
		if rule := attributeNameProblem(name); rule != "" {
			return "", "", p.fail(w.at+len(attributePrefix), "the name of the attribute %s", rule).hint(`for example "attribute.rack: r1"`)
		}
		return attributeKey, name, nil
	}
	if w.text == "" {
		return "", "", p.fail(w.at, "there is no key before the colon").hint(`for example "tags: web"`)
	}
	if meant := nearestKey(w.text); meant != "" {
		return "", "", p.fail(w.at, "there is no key %s; did you mean %q?", brief(w.text), meant).hint("the keys are %s and attribute.NAME", strings.Join(filterKeys, ", "))
	}
	return "", "", p.fail(w.at, "there is no key %s", brief(w.text)).hint(
		"the keys are %s and attribute.NAME, so that of an attribute is %q; a value that has a colon in it is put into quotes",
		strings.Join(filterKeys, ", "), attributePrefix+AttributeName(w.text))
}

// nearestKey gives the key that was probably meant, or "".
func nearestKey(text string) string {
	lower := strings.ToLower(text)
	if slices.Contains(filterKeys, lower) {
		return lower
	}
	if first, rest, ok := strings.Cut(text, "."); ok {
		if attributeNameProblem(rest) == "" && (nearest(strings.ToLower(first), []string{"attribute"}) != "" || strings.HasPrefix("attribute", strings.ToLower(first))) {
			return attributePrefix + rest
		}
		return ""
	}
	if meant, ok := otherWords[lower]; ok {
		return meant
	}
	return nearest(lower, filterKeys)
}

// bareWord refuses words without a key that are surely no names of Nodes.
func (p *filterParser) bareWord(w word) *FilterError {
	if w.quoted {
		return nil
	}
	switch strings.ToLower(w.text) {
	case "and", "or", "not", "&", "&&", "|", "||":
		return p.fail(w.at, "filters have no %s", brief(w.text)).hint(
			`clauses one after the other must all hold; "tags: a,b" is one or the other, "tags: a+b" is both, "!tags: a" is not; a Node of this name is put into quotes`)
	}
	if before, after, ok := strings.Cut(w.text, "="); ok {
		meant := nearestKey(before)
		if name, isAttribute := strings.CutPrefix(before, attributePrefix); isAttribute && attributeNameProblem(name) == "" {
			meant = before
		}
		if meant == "" {
			meant = attributePrefix + AttributeName(before)
		}
		return p.fail(w.at+len(before), "after a key comes a colon, not =").hint("write %q", fmt.Sprintf("%s: %s", meant, after))
	}
	return nil
}

// nearest gives the known word that a wrong one was probably meant to be, or "".
func nearest(text string, known []string) string {
	best, least := "", max(1, min(3, len(text)/3))+1
	for _, k := range known {
		if len(text) > 2*len(k)+2 {
			continue
		}
		if d := distance(text, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, change or swap with their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// brief quotes what the user wrote, cut to a length that fits a sentence.
func brief(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%q", strings.ToValidUTF8(s[:most], "")+"…")
	}
	return fmt.Sprintf("%q", s)
}
