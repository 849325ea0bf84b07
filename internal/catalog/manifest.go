package catalog

import (
	"fmt"
	"slices"
	"strings"

	"legwork/internal/fault"
)

// Limits of a manifest.
const (
	MaxManifestFile  = 4 << 20  // bytes of one file
	MaxDocument      = 2 << 20  // bytes of one document
	MaxManifest      = 16 << 20 // bytes of all files
	MaxManifestFiles = 10_000
	MaxDocuments     = 10_000
	maxProblems      = 1_000 // named one by one; beyond, only that there are more
)

// ManifestFile is one file of a manifest, YAML or JSON. A name that ends with .json is read as JSON.
type ManifestFile struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// Position is a place in a manifest. The zero Position is none: a Spec that came another way.
type Position struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // 1-based
}

// Declared is a Spec with the place where its document begins.
type Declared[T any] struct {
	Spec T `json:"spec"`
	Position
	lines  map[string]int // by field
	broken bool           // some of it could not be read: what it lacks may be there
}

// At gives the place of a field, such as "inputs[2].module", or the nearest above it that is known.
func (d Declared[T]) At(field string) Position {
	for field != "" {
		if line, ok := d.lines[field]; ok {
			return Position{d.File, line}
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return d.Position
}

// Manifest is what the files of one manifest declare, in their order.
type Manifest struct {
	Stacks      []Declared[StackSpec]
	Namespaces  []Declared[NamespaceSpec]
	Runners     []Declared[RunnerSpec]
	Modules     []Declared[ModuleSpec]
	Assignments []Declared[AssignmentSpec]
	Nodes       []Declared[NodeSpec]
	NodeSources []Declared[NodeSourceSpec]
	Runbooks    []Declared[RunbookSpec]
	Secrets     []Declared[SecretDocument]

	CloudIdentities []Declared[CloudIdentitySpec]

	problems []fault.Problem // of the documents by themselves, found while they were read
	lost     map[Kind]bool   // kinds of which a document could not be read so far that its path is known
}

// Len gives the number of documents.
func (m Manifest) Len() int {
	return len(m.Stacks) + len(m.Namespaces) + len(m.Runners) + len(m.Modules) + len(m.Assignments) +
		len(m.Nodes) + len(m.NodeSources) + len(m.Runbooks) + len(m.Secrets) + len(m.CloudIdentities)
}

// ParseManifest reads all files of a manifest. Every problem of every file is named, with file, line
// and field, in one Fault of kind Invalid and code manifest_invalid; files over a limit of size give
// kind TooLarge and code manifest_too_large, before anything is read. A file may hold several
// documents, parted by ---. YAML is understood as version 1.2 has it (yes and 010 are text, or
// refused where that is in doubt), with anchors and merge keys. Files without any document declare
// nothing, which is no problem.
//
// With problems of code manifest_invalid it gives what could be read, too, which is not to be applied: Plan
// refuses it, and names beside these problems those of what the documents say of one another.
func ParseManifest(files []ManifestFile) (Manifest, error) {
	if err := checkSizes(files); err != nil {
		return Manifest{}, err
	}
	p := parser{budget: budget{nodes: maxNodes, bytes: 2 * MaxManifest}}
	for _, f := range files {
		if p.documents <= MaxDocuments && len(p.problems) <= maxProblems {
			p.file(f)
		}
	}
	p.problems = append(p.problems, duplicates(p.manifest)...)
	p.manifest.problems = p.problems
	return p.manifest, manifestFault(slices.Clone(p.problems))
}

func checkSizes(files []ManifestFile) error {
	var problems []fault.Problem
	total := 0
	for _, f := range files {
		total += len(f.Data)
		if len(f.Data) > MaxManifestFile {
			problems = append(problems, fault.Problem{File: f.Name, Message: fmt.Sprintf("has %d bytes, more than the %d that a file may have", len(f.Data), MaxManifestFile)})
		}
	}
	if total > MaxManifest {
		problems = append(problems, fault.Problem{File: files[0].Name, Message: fmt.Sprintf("and the files beside it have %d bytes, more than the %d that a manifest may have", total, MaxManifest)})
	}
	if len(files) > MaxManifestFiles {
		problems = append(problems, fault.Problem{File: files[0].Name, Message: fmt.Sprintf("and the files beside it are %d, more than %d", len(files), MaxManifestFiles)})
	}
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.TooLarge, "manifest_too_large", "%s", problems[0]).WithDetails(problems...).
		WithHint("split the manifest, and keep large files in a git source")
}

// manifestFault makes one Fault of all problems, in the order of files and lines.
func manifestFault(problems []fault.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	order := map[string]int{}
	cutLong(problems)
	for _, p := range problems {
		if _, ok := order[p.File]; !ok {
			order[p.File] = len(order)
		}
	}
	slices.SortStableFunc(problems, func(a, b fault.Problem) int {
		if a.File != b.File {
			return order[a.File] - order[b.File]
		}
		return a.Line - b.Line
	})
	f := fault.New(fault.Invalid, "manifest_invalid", "%s", problems[0])
	if len(problems) > 1 {
		f = fault.New(fault.Invalid, "manifest_invalid", "the manifest has %d problems; the first: %s", len(problems), problems[0])
	}
	if len(problems) > maxProblems {
		last := problems[len(problems)-1].File
		problems = append(problems[:maxProblems:maxProblems], fault.Problem{File: last, Message: fmt.Sprintf("and %d more problems", len(problems)-maxProblems)})
	}
	return f.WithHint("correct what is named and try again; nothing of the manifest was applied").WithDetails(problems...)
}

// cutLong keeps what a problem quotes of the file to a length that fits an answer.
func cutLong(problems []fault.Problem) {
	cut := func(s string, most int) string {
		if len(s) <= most {
			return s
		}
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	for i := range problems {
		p := &problems[i]
		p.Field, p.Message = cut(p.Field, 200), cut(p.Message, 600)
	}
}

// duplicates names documents that declare what another has declared before.
func duplicates(m Manifest) []fault.Problem {
	var problems []fault.Problem
	problems = append(problems, twice(KindStack, m.Stacks)...)
	problems = append(problems, twice(KindNamespace, m.Namespaces)...)
	problems = append(problems, twice(KindCloudIdentity, m.CloudIdentities)...)
	problems = append(problems, twice(KindRunner, m.Runners)...)
	problems = append(problems, twice(KindModule, m.Modules)...)
	problems = append(problems, twice(KindAssignment, m.Assignments)...)
	problems = append(problems, twice(KindNode, m.Nodes)...)
	problems = append(problems, twice(KindNodeSource, m.NodeSources)...)
	problems = append(problems, twice(KindRunbook, m.Runbooks)...)
	return append(problems, twice(KindSecret, m.Secrets)...)
}

func twice[T specification](kind Kind, list []Declared[T]) []fault.Problem {
	var problems []fault.Problem
	first := make(map[string]Position, len(list))
	for _, d := range list {
		path := d.Spec.Path()
		before, ok := first[path]
		if !ok {
			first[path] = d.Position
			continue
		}
		if strings.Trim(path, "/:") != "" {
			problems = append(problems, fault.Problem{File: d.File, Line: d.Line, Field: "name", Message: fmt.Sprintf("%s %s is declared already%s", kind, brief(path), before.clause())})
		}
	}
	return problems
}

// clause gives " in file:line", or "" for none.
func (p Position) clause() string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf(" in %s:%d", p.File, p.Line)
}

// specification is what the Specs have in common.
type specification interface {
	Path() string
	problems() []fault.Problem
}
