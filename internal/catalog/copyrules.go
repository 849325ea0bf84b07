package catalog

import (
	"slices"
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

func (c *checker) fetchStep(at string, s FetchStep) {
	c.printable(at+"src", s.Src, maxCopyPath)
	switch {
	case s.Src == "":
		c.add(at+"src", "is missing: the path of a file or folder on the node")
	case !strings.HasPrefix(s.Src, "/") && !strings.HasPrefix(s.Src, "~/") && !strings.HasPrefix(s.Src, "${"):
		c.add(at+"src", "must begin with / or ~/")
	}
	if s.Dest != "" && c.belowFolder(at+"dest", s.Dest) {
		c.printable(at+"dest", s.Dest, maxCopyPath)
	}
}

// belowFolder reports whether a path stays below the folder that it is relative to.
func (c *checker) belowFolder(field, path string) bool {
	switch {
	case strings.HasPrefix(path, "/") || strings.HasPrefix(path, "~"):
		c.add(field, "must be relative: it is below the runner's folder for fetched files")
	case slices.Contains(strings.Split(path, "/"), ".."):
		c.add(field, "must not contain ..")
	default:
		return true
	}
	return false
}
