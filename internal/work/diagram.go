package work

import (
	"fmt"
	"slices"
	"strings"
)

// Diagram draws the table of transitions as a Mermaid state diagram, the same text every time.
func Diagram() string {
	type way struct{ from, to Status }
	labels := map[way][]string{}
	var ways []way
	for _, row := range table {
		for _, from := range row.From {
			for _, to := range row.To {
				w := way{from, to}
				if from == to {
					continue
				}
				if labels[w] == nil {
					ways = append(ways, w)
				}
				if !slices.Contains(labels[w], string(row.On)) {
					labels[w] = append(labels[w], string(row.On))
				}
			}
		}
	}
	slices.SortStableFunc(ways, func(a, b way) int {
		return 100*(slices.Index(Statuses, a.from)-slices.Index(Statuses, b.from)) +
			slices.Index(Statuses, a.to) - slices.Index(Statuses, b.to)
	})
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> queued\n")
	for _, w := range ways {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", w.from, w.to, strings.Join(labels[w], ", "))
	}
	for _, s := range Statuses {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	return b.String()
}
