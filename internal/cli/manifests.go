package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func (a *app) manifestCommand() *cobra.Command {
	showSensitive, as := false, asYAML
	export := &cobra.Command{
		Use: "export", Short: "Print everything that is declared, as a manifest", Args: exactly(),
		Long: "Print everything that is declared, as a manifest. Applying it changes nothing.\n" +
			"Sensitive Inputs are printed without their values: apply then keeps those that are stored.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			text, err := client.ExportManifest(cmd.Context(), showSensitive)
			if err != nil {
				return err
			}
			if as == asJSON {
				return manifestJSON(a.Out, text)
			}
			_, err = a.Out.Write(text)
			return err
		},
	}
	export.Flags().BoolVar(&showSensitive, "show-sensitive", false, "with the values of sensitive Inputs; it leaves an event")
	export.Flags().VarP(formatOf{&as, []format{asYAML, asJSON}}, "output", "o", "yaml or json: a list of documents")
	_ = export.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"yaml", "json"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return parent("manifest", "Manifests: what is declared", a.manifestSend("apply", false, "Create or change what a manifest declares, all of it or nothing"),
		a.manifestSend("diff", true, "Say what apply would do"), export)
}

// manifestJSON writes a manifest of YAML documents as a list in JSON, which is a manifest, too.
func manifestJSON(w io.Writer, text []byte) error {
	m, err := catalog.ParseManifest([]catalog.ManifestFile{{Name: "export.yaml", Data: text}})
	if err != nil {
		return fault.New(fault.Unsupported, "answer_unreadable", "the Server's manifest cannot be read").
			WithHint("use -o yaml, and look whether Server and command line are of one version").WithCause(err)
	}
	s := m.Snapshot()
	list, err := documents(catalog.KindStack, s.Stacks, []json.RawMessage{}, nil)
	list, err = documents(catalog.KindNamespace, s.Namespaces, list, err)
	list, err = documents(catalog.KindCloudIdentity, s.CloudIdentities, list, err)
	list, err = documents(catalog.KindRunner, s.Runners, list, err)
	list, err = documents(catalog.KindModule, s.Modules, list, err)
	list, err = documents(catalog.KindAssignment, s.Assignments, list, err)
	list, err = documents(catalog.KindNode, s.Nodes, list, err)
	list, err = documents(catalog.KindNodeSource, s.NodeSources, list, err)
	list, err = documents(catalog.KindRunbook, s.Runbooks, list, err)
	if list, err = documents(catalog.KindSecret, s.Secrets, list, err); err != nil {
		return err
	}
	return writeJSON(w, list)
}

// documents adds Specs as documents of a kind, unless there was an error before.
func documents[T any](kind catalog.Kind, specs []T, list []json.RawMessage, err error) ([]json.RawMessage, error) {
	for _, spec := range specs {
		if err != nil {
			break
		}
		var text []byte
		if text, err = json.Marshal(spec); err != nil {
			break
		}
		list = append(list, append([]byte(`{"kind":"`+string(kind)+`",`), text[1:]...))
	}
	return list, err
}

func (a *app) manifestSend(verb string, dryRun bool, short string) *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: verb + " PATH...", Short: short,
		Long: short + ".\nA path is a file of YAML or JSON, a folder that is read whole (*.yaml, *.yml, *.json), or - for standard input.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly("PATH")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := ReadManifest(args, a.In)
			if err != nil {
				return err
			}
			manifest, broken := catalog.ParseManifest(files)
			if broken != nil && fault.Code(broken) != "manifest_invalid" {
				return broken
			}
			if broken == nil && manifest.Len() == 0 {
				return declaresNothing(args...)
			}
			client, err := a.client()
			if err == nil && broken != nil { // the Server names besides what is wrong between the documents
				_, err = client.ApplyManifest(cmd.Context(), files, true)
			}
			if broken != nil && fault.Code(err) != "manifest_invalid" {
				return broken
			}
			if err != nil {
				return err
			}
			result, err := client.ApplyManifest(cmd.Context(), files, dryRun)
			if err != nil {
				return err
			}
			if a.format != asTable {
				return a.show(result, nil)
			}
			return a.printChanges(result)
		},
	})
}

// printChanges says for each thing what became of it, or would.
func (a *app) printChanges(r api.ManifestResult) error {
	verbs := map[catalog.Action]string{catalog.Create: "created", catalog.Update: "updated", catalog.Unchanged: "unchanged"}
	summary := "%d created, %d updated, %d unchanged.\n"
	if !r.Applied {
		verbs = map[catalog.Action]string{catalog.Create: "create", catalog.Update: "update", catalog.Unchanged: "unchanged"}
		summary = "%d to create, %d to update, %d unchanged.\n"
	}
	styles := map[catalog.Action]string{catalog.Create: green, catalog.Update: yellow, catalog.Unchanged: dim}
	for _, change := range r.Changes {
		line := fmt.Sprintf("%-10s %s %s", verbs[change.Action], change.Kind, clean(change.Path))
		fmt.Fprintln(a.Out, a.out.paint(styles[change.Action], line))
		for _, field := range change.Fields {
			fmt.Fprintf(a.Out, "             %s: %s -> %s\n", clean(field.Path), brief(field.Old), brief(field.New))
		}
	}
	_, err := fmt.Fprintf(a.Out, summary, r.Created, r.Updated, r.Unchanged)
	return err
}

// brief writes a value of a diff on one line.
func brief(value string) string {
	if value == "" {
		return "(none)"
	}
	if first, _, more := strings.Cut(value, "\n"); more {
		value = first + " ..."
	}
	return cutTo(clean(value), 100)
}

// ReadManifest reads the files of a manifest: files, folders whole (*.yaml, *.yml, *.json; names that
// begin with a dot are passed over), and standard input for "-". What is larger than a manifest may be is
// not read.
func ReadManifest(paths []string, stdin io.Reader) ([]catalog.ManifestFile, error) {
	r := manifestReader{stdin: stdin, seen: map[string]bool{}}
	for _, path := range paths {
		if err := r.add(path); err != nil {
			return nil, err
		}
	}
	return r.files, nil
}

type manifestReader struct {
	stdin io.Reader
	files []catalog.ManifestFile
	seen  map[string]bool
	total int
}

func (r *manifestReader) add(path string) error {
	if path == "-" {
		return r.read("-", r.stdin)
	}
	info, err := os.Stat(path)
	if err != nil {
		return unreadable(path, err)
	}
	if !info.IsDir() {
		return r.open(path)
	}
	before := len(r.files)
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return unreadable(name, err)
		case name != path && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			return nil
		}
		return r.open(name)
	})
	if err == nil && len(r.files) == before {
		return declaresNothing(path)
	}
	return err
}

// declaresNothing is the error for files and folders without a single document.
func declaresNothing(paths ...string) error {
	return fault.New(fault.Invalid, "manifest_empty", "%s: nothing is declared there", strings.Join(paths, " ")).
		WithHint("a manifest is YAML or JSON documents that begin with a kind; in a folder, files named *.yaml, *.yml or *.json")
}

func unreadable(path string, err error) error {
	reason := "cannot be read"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = "is not there"
	case errors.Is(err, fs.ErrPermission):
		reason = "may not be read by this user"
	}
	return fault.New(fault.Invalid, "file_unreadable", "%s %s", path, reason).WithHint("check the path").WithCause(err)
}

func (r *manifestReader) open(path string) error {
	if clean := filepath.Clean(path); r.seen[clean] {
		return nil
	} else {
		r.seen[clean] = true
	}
	file, err := os.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	defer file.Close()
	return r.read(path, file)
}

// read takes one file, and not a byte more than it may have.
func (r *manifestReader) read(name string, from io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(from, catalog.MaxManifestFile+1))
	if err != nil {
		return unreadable(name, err)
	}
	r.total += len(data)
	switch {
	case len(data) > catalog.MaxManifestFile:
		return fault.New(fault.TooLarge, "manifest_too_large", "%s is larger than the %d MiB that a file of a manifest may have", name, catalog.MaxManifestFile>>20).
			WithHint("split it, and keep large files in a git source")
	case r.total > catalog.MaxManifest:
		return fault.New(fault.TooLarge, "manifest_too_large", "the manifest is larger than %d MiB in all, with %s", catalog.MaxManifest>>20, name).
			WithHint("apply it in parts, and keep large files in a git source")
	case len(r.files) >= catalog.MaxManifestFiles:
		return fault.New(fault.TooLarge, "manifest_too_large", "the manifest has more than %d files", catalog.MaxManifestFiles)
	}
	r.files = append(r.files, catalog.ManifestFile{Name: name, Data: data})
	return nil
}
