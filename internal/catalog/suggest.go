package catalog

import (
	"fmt"
	"strings"
)

// Nearest gives the known word that a wrong one was probably meant to be, or "". Case, _, - and blanks make no
// difference; up to three letters may be wrong, of short words fewer.
func Nearest(word string, known []string) string {
	best, least := "", max(1, min(3, len(word)/3))+1
	for _, k := range known {
		if d := distance(plainWord(word), plainWord(k), least); d < least {
			best, least = k, d
		}
	}
	return best
}

// didYouMean gives `; did you mean "x"?` for the nearest of the known words, or "".
func didYouMean(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// plainWord makes runnerName, Runner-Name and runner_name alike.
func plainWord(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance counts the letters to insert, delete, change or swap with their neighbour to make b of
// a. It stops counting at limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// oneOf writes the allowed words for a sentence: "a, b or c".
func oneOf[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// brief quotes what the user wrote, cut to a length that fits a sentence.
func brief(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%q", strings.ToValidUTF8(s[:most], "")+"…")
	}
	return fmt.Sprintf("%q", s)
}
