package nodes

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/lazyregexp"
	"legwork/internal/runbook"
)

// copyFunctions are the functions that generated scripts call.
//
//go:embed copy.sh
var copyFunctions string

var ownerName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?$`)

// copying is a copy to one node, with all templates filled in.
type copying struct {
	dest    string // of the file, or of the folder
	src     string
	mode    string // declared, in octal; "": that of the file it replaces
	owner   string
	group   string
	entries []copyEntry // folders come before their contents
	size    int64       // bytes of all files
}

// copyEntry is a file or a folder of a copy.
type copyEntry struct {
	name   string // in the source; "" is the text of the step
	path   string // on the node
	folder bool
	mode   string // of a new file or folder, in octal
	size   int64
	data   []byte
}

func (e copyEntry) label() string {
	if e.folder {
		return e.path + "/"
	}
	return e.path
}

// newCopying lists what a copy writes. The contents are not read yet.
func (p *pair) newCopying(s *catalog.CopyStep) (*copying, error) {
	c := &copying{mode: s.Mode}
	v := p.view()
	for _, field := range []struct {
		to   *string
		text string
	}{{&c.dest, s.Dest}, {&c.src, s.Src}, {&c.owner, s.Owner}, {&c.group, s.Group}} {
		var err error
		if *field.to, err = v.Expand(field.text); err != nil {
			return nil, err
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if s.Content != nil {
		c.size = int64(len(*s.Content))
		c.entries = []copyEntry{{path: c.dest, mode: "0644", size: c.size}}
		return c, nil
	}
	return c, c.listSource(p.round.file.SourceDir)
}

// check refuses values that lead elsewhere than declared.
func (c *copying) check() error {
	bad := func(what, value, rule string) error {
		return fault.New(fault.Invalid, "copy_invalid", "%s of the copy is %.200q: it must %s", what, value, rule)
	}
	segments := strings.Split(c.dest, "/")
	switch {
	case !strings.HasPrefix(c.dest, "/") && !strings.HasPrefix(c.dest, "~/"):
		return bad("dest", c.dest, "begin with / or ~/")
	case slices.Contains(segments, ".."):
		return bad("dest", c.dest, "not contain ..")
	case !utf8.ValidString(c.dest) || strings.ContainsFunc(c.dest, unicode.IsControl):
		return bad("dest", c.dest, "be text without control characters")
	case c.owner != "" && !ownerName.MatchString(c.owner):
		return bad("owner", c.owner, "be the name or number of a user")
	case c.group != "" && !ownerName.MatchString(c.group):
		return bad("group", c.group, "be the name or number of a group")
	}
	slash := strings.HasSuffix(c.dest, "/")
	if c.dest = path.Clean(c.dest); slash && c.dest != "/" {
		c.dest += "/"
	}
	return nil
}

// load reads the contents of all files, and fills in templates.
func (c *copying) load(dir string, v runbook.View, s *catalog.CopyStep) error {
	if s.Content != nil {
		c.entries[0].data = []byte(*s.Content)
	} else if err := c.readSource(dir); err != nil {
		return err
	}
	if !s.Template {
		return nil
	}
	total := 0
	for i := range c.entries {
		e := &c.entries[i]
		if !utf8.Valid(e.data) {
			return fault.New(fault.Invalid, "copy_template", "%s is not UTF-8 text, so templates cannot be filled in",
				e.name).
				WithHint("copy it in a step of its own without `template: true`")
		}
		text, err := v.Expand(string(e.data))
		if err != nil {
			return inFile(e.name, err)
		}
		if v.NamesSecret(string(e.data)) {
			e.mode = "0600"
		}
		e.data = []byte(text)
		if total += len(text); total > maxCopyBytes {
			return copyTooLarge()
		}
	}
	return nil
}

// inFile adds the file to an error about a template.
func inFile(name string, err error) error {
	f := fault.Of(err)
	if f == nil || name == "" {
		return err
	}
	return fault.New(f.Kind, f.Code, "%s: %s", name, f.Message).WithHint("%s", f.Hint)
}

func copyTooLarge() error {
	return fault.New(fault.Invalid, "copy_too_large", "the files have more than %d MiB together", maxCopyBytes>>20).
		WithHint("split the step, or let the nodes download large files")
}

// script begins a script of calls of the functions of copy.sh.
func (c *copying) script(archive string) *bytes.Buffer {
	b := bytes.NewBufferString(copyFunctions)
	for _, v := range [][2]string{{"owner", c.owner}, {"group", c.group}, {"token", rand.Text()}, {"archive",
		archive}} {
		fmt.Fprintf(b, "%s=%s\n", v[0], quoted(v[1]))
	}
	return b
}

// checks is the script that reports which entries differ.
func (c *copying) checks() []byte {
	b := c.script("")
	for i, e := range c.entries {
		if e.folder {
			fmt.Fprintf(b, "check_folder %d %s\n", i, quotedPath(e.path))
			continue
		}
		fmt.Fprintf(b, "check_file %d %s %s %s\n", i, quotedPath(e.path), e.digest(), quoted(c.mode))
	}
	b.WriteString("exit 0\n")
	return b.Bytes()
}

// writes is the script that puts the changed entries in their places, out of an archive.
func (c *copying) writes(changed []int, archive string) []byte {
	b := c.script(archive)
	b.WriteString("unpack\n")
	for _, i := range changed {
		e := c.entries[i]
		if e.folder {
			fmt.Fprintf(b, "make_folder %d %s %s\n", i, quotedPath(e.path), c.folderMode())
			continue
		}
		fmt.Fprintf(b, "put_file %d %s %s %s %s\n", i, quotedPath(e.path), e.digest(), quoted(c.mode), e.mode)
	}
	b.WriteString("exit 0\n")
	return b.Bytes()
}

// folderMode is the mode of new folders: who can read files can enter folders.
func (c *copying) folderMode() string {
	mode, err := strconv.ParseUint(c.mode, 8, 32)
	if err != nil {
		return "0755"
	}
	mode = mode&0o777 | 0o700
	return fmt.Sprintf("%04o", mode|(mode&0o444)>>2)
}

func (e copyEntry) digest() string {
	sum := sha256.Sum256(e.data)
	return hex.EncodeToString(sum[:])
}

// quotedPath is one word of a shell. ~/ is the home of the step's user.
func quotedPath(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return `"$HOME"/` + quoted(rest)
	}
	return quoted(name)
}

// archive packs the files of some entries, named by their numbers.
func (c *copying) archive(changed []int) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range changed {
		e := c.entries[i]
		if e.folder {
			continue
		}
		err := w.WriteHeader(&tar.Header{Name: strconv.Itoa(i), Mode: 0o600, Size: int64(len(e.data)),
			Format: tar.FormatUSTAR})
		if err == nil {
			_, err = w.Write(e.data)
		}
		if err != nil {
			return nil, fmt.Errorf("packing files: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing files: %w", err)
	}
	return b.Bytes(), nil
}
