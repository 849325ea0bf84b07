package catalog

import (
	"strings"

	"legwork/internal/lazyregexp"
)

const (
	maxCopyPath  = 4 << 10
	maxOwnerName = 255
)

// copyMode is a file mode as chmod takes it.
var copyMode = lazyregexp.New(`^0?[0-7]{3,4}$`)

func (c *checker) copyStep(at string, r RunbookSpec, s CopyStep) {
	switch {
	case s.Src == "" && s.Content == nil:
		c.add(strings.TrimSuffix(at, "."), "requires src (a file or folder of the source) or content (a text)")
	case s.Src != "" && s.Content != nil:
		c.add(at+"content", "cannot be combined with src")
	case s.Content != nil:
		c.text(at+"content", *s.Content)
	default:
		c.relative(at+"src", s.Src)
		if r.Source.isEmpty() {
			c.add(at+"src", "names a file of the source, and the runbook has no source")
		}
	}
	c.copyDest(at+"dest", s)
	if s.Mode != "" && !copyMode.MatchString(s.Mode) {
		c.add(at+"mode", "must be octal and quoted, such as \"0644\"")
	}
	c.printable(at+"owner", s.Owner, maxOwnerName)
	c.printable(at+"group", s.Group, maxOwnerName)
}

func (c *checker) copyDest(field string, s CopyStep) {
	c.printable(field, s.Dest, maxCopyPath)
	switch {
	case s.Dest == "":
		c.add(field, "is missing: the path on the node")
	case !strings.HasPrefix(s.Dest, "/") && !strings.HasPrefix(s.Dest, "~/") && !strings.HasPrefix(s.Dest, "${"):
		c.add(field, "must begin with / or ~/")
	case s.Content != nil && strings.HasSuffix(s.Dest, "/"):
		c.add(field, "ends with a slash: content needs the name of a file")
	}
}
