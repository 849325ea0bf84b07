package api

import (
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// ManifestFiles is a manifest as JSON: the files with their names, so that problems are named by file and line.
type ManifestFiles struct {
	Files []catalog.ManifestFile `json:"files" doc:"The data of each is base64 of YAML or JSON."`
}

// ManifestResult is what applying a manifest did, or would do.
type ManifestResult struct {
	Applied   bool            `json:"applied" doc:"False for a diff."`
	Created   int             `json:"created"`
	Updated   int             `json:"updated"`
	Unchanged int             `json:"unchanged"`
	Changes   catalog.Changes `json:"changes" nullable:"false"`
}

const yamlType = "application/yaml"

// registerManifest adds what takes and gives manifests. A manifest is sent as ManifestFiles, or as one file of YAML.
func (s *Server) registerManifest(h huma.API) {
	files := huma.SchemaFromType(h.OpenAPI().Components.Schemas, reflect.TypeFor[ManifestFiles]())
	text := &huma.Schema{Type: huma.TypeString, Description: "One file: YAML documents, parted by ---."}
	take := func(id, path, summary string) huma.Operation {
		op := operation(id, http.MethodPost, path, "Manifest", summary)
		// In base64 the same bytes are a third longer.
		op.MaxBodyBytes = s.MaxBodyBytes + s.MaxBodyBytes/2
		op.BodyReadTimeout = 2 * s.BodyTimeout
		return op
	}
	handle(s, h, take("apply-manifest", "/manifest/apply", "Create or change what a manifest declares, all of it or nothing"),
		func(ctx context.Context, actor catalog.Actor, in *manifestIn) (*body[ManifestResult], error) {
			return s.applyManifest(ctx, actor, in, false)
		})
	handle(s, h, take("diff-manifest", "/manifest/diff", "Say what applying a manifest would do"),
		func(ctx context.Context, actor catalog.Actor, in *manifestIn) (*body[ManifestResult], error) {
			return s.applyManifest(ctx, actor, in, true)
		})
	for _, path := range []string{"/manifest/apply", "/manifest/diff"} {
		// The library knows the body as bytes alone.
		h.OpenAPI().Paths[prefix+path].Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: files}, yamlType: {Schema: text},
		}}
	}
	export := operation("export-manifest", http.MethodGet, "/manifest/export", "Manifest", "Everything that is declared, as a manifest")
	export.Description = "Sensitive Inputs are without their values; applied like that, they keep those that are stored."
	export.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{yamlType: {Schema: text}}}}
	handle(s, h, export, s.exportManifest)
}

type manifestIn struct {
	Type    string `header:"Content-Type" hidden:"true"`
	Name    string `query:"name" maxLength:"1000" doc:"Name of the file, when it is sent as YAML."`
	RawBody []byte
}

func (s *Server) applyManifest(ctx context.Context, actor catalog.Actor, in *manifestIn, dryRun bool) (*body[ManifestResult], error) {
	files, err := in.files()
	if err != nil {
		return nil, err
	}
	manifest, err := catalog.ParseManifest(files)
	if fault.Code(err) == "manifest_invalid" { // what could be read is looked at as well, to name every problem at once
		if _, all := s.Control.ApplyManifest(ctx, actor, manifest, true); fault.Code(all) == "manifest_invalid" {
			err = all
		}
	}
	if err != nil {
		return nil, err
	}
	changes, err := s.Control.ApplyManifest(ctx, actor, manifest, dryRun)
	if err != nil {
		return nil, err
	}
	if changes == nil {
		changes = catalog.Changes{}
	}
	return &body[ManifestResult]{ManifestResult{
		Applied: !dryRun, Created: changes.Count(catalog.Create), Updated: changes.Count(catalog.Update),
		Unchanged: changes.Count(catalog.Unchanged), Changes: changes,
	}}, nil
}

// files reads the body by its type.
func (in *manifestIn) files() ([]catalog.ManifestFile, error) {
	kind, _, _ := mime.ParseMediaType(in.Type)
	switch kind {
	case yamlType, "application/x-yaml", "text/yaml", "text/x-yaml":
		name := in.Name
		if name == "" {
			name = "manifest.yaml"
		}
		return []catalog.ManifestFile{{Name: name, Data: bytes.Clone(in.RawBody)}}, nil
	case "application/json", "":
	default:
		return nil, withStatus(http.StatusUnsupportedMediaType, fault.New(fault.Invalid, "media_type", "a manifest is not sent as %q", kind).
			WithHint("send application/yaml, or application/json with the files in it"))
	}
	var sent ManifestFiles
	d := json.NewDecoder(bytes.NewReader(in.RawBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&sent); err != nil || len(sent.Files) == 0 {
		return nil, fault.New(fault.Invalid, "request_invalid", "the body is not of the form {\"files\":[{\"name\":...,\"data\":...}]}").
			WithHint("data is base64; a single file can be sent as it is with Content-Type: application/yaml")
	}
	return sent.Files, nil
}

type manifestOut struct {
	Type string `header:"Content-Type"`
	Body []byte
}

type exportIn struct {
	ShowSensitive bool `query:"show_sensitive" doc:"With the values of sensitive Inputs; needs the permissions declare and read_sensitive, and leaves an event."`
}

func (s *Server) exportManifest(ctx context.Context, actor catalog.Actor, in *exportIn) (*manifestOut, error) {
	text, err := s.Control.ExportManifest(ctx, actor, in.ShowSensitive)
	return &manifestOut{Type: yamlType, Body: text}, err
}
