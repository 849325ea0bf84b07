package node

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"legwork/internal/fault"
)

var orderKeys = []string{"name", "address", "os", "arch", "user", "port"}

// Sort orders Nodes by "name" (also for ""), "address", "os", "arch", "user", "port" or "attribute.NAME"; a "-" before it
// turns the order around. Numbers in texts count as numbers, see Compare. Nodes that are equal in it keep their order, and
// those that lack it come last both ways. An order that is not known is a Fault (Invalid, "node_order"); Sort(nil, by)
// checks one.
func Sort(nodes []Node, by string) error {
	key, reverse := strings.CutPrefix(strings.TrimSpace(by), "-")
	if key == "" && !reverse {
		key = "name"
	}
	attribute, isAttribute := strings.CutPrefix(key, attributePrefix)
	if isAttribute && attributeNameProblem(attribute) != "" || !isAttribute && !slices.Contains(orderKeys, key) {
		return orderFault(by, key, reverse)
	}
	slices.SortStableFunc(nodes, func(a, b Node) int {
		x, hasX := sortText(&a, key, attribute)
		y, hasY := sortText(&b, key, attribute)
		switch {
		case !hasX || !hasY:
			return cmp.Compare(rank(hasX), rank(hasY))
		case reverse:
			return Compare(y, x)
		}
		return Compare(x, y)
	})
	return nil
}

// rank puts those that have a text first.
func rank(has bool) int {
	if has {
		return 0
	}
	return 1
}

func orderFault(by, key string, reverse bool) error {
	f := fault.New(fault.Invalid, "node_order", "there is no order of Nodes by %s", brief(by))
	meant := nearestKey(key)
	if !slices.Contains(orderKeys, meant) && !strings.HasPrefix(meant, attributePrefix) {
		return f.WithHint("write %s or attribute.NAME, with a - before it for the other way round", strings.Join(orderKeys, ", "))
	}
	if reverse {
		meant = "-" + meant
	}
	return f.WithHint("did you mean %q? Orders are %s and attribute.NAME, with a - before it for the other way round", meant, strings.Join(orderKeys, ", "))
}

func sortText(n *Node, key, attribute string) (text string, ok bool) {
	switch key {
	case "name":
		text = n.Name
	case "address":
		text = n.Host()
	case "os":
		text = n.OS
	case "arch":
		text = n.Arch
	case "user":
		text = n.User
	case "port":
		text = strconv.Itoa(n.port())
	default:
		text, ok = n.Attributes[attribute]
		return text, ok
	}
	return text, text != ""
}

// port is where SSH is listened for.
func (n *Node) port() int {
	if n.Port == 0 {
		return 22
	}
	return n.Port
}

// Compare is the natural order of texts: runs of digits count as numbers, so that web-9 is before web-10 and 10.0.0.9
// before 10.0.0.10. It gives -1, 0 or 1; 0 for equal texts alone.
func Compare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		first, second := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if c := cmp.Or(cmp.Compare(len(first), len(second)), cmp.Compare(first, second)); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b)) // 007 and 7 are the same number, but not the same text
}

// digits gives how many digits a text begins with.
func digits(text string) int {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}
