package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/release"
)

// Release is a release of the program.
type Release struct {
	Version     string         `json:"version"`
	Channel     string         `json:"channel" enum:"stable,candidate"`
	State       string         `json:"state" enum:"draft,published,withdrawn" doc:"draft: its assets are being sent. withdrawn: nobody gets it any more."`
	Notes       string         `json:"notes,omitempty" doc:"What is new in the release, as Markdown."`
	Assets      []ReleaseAsset `json:"assets" nullable:"false"`
	PublishedAt time.Time      `json:"published_at,omitzero"`
	PublishedBy string         `json:"published_by,omitempty"`
}

// ReleaseAsset is one file of a release.
type ReleaseAsset struct {
	Name   string `json:"name"`
	OS     string `json:"os,omitempty" doc:"As Go names it. Missing: for none in particular."`
	Arch   string `json:"arch,omitempty"`
	Kind   string `json:"kind" enum:"binary,deb,rpm,sbom,sums,other"`
	Size   int64  `json:"size" doc:"Size of the file, in bytes."`
	SHA256 string `json:"sha256" doc:"SHA-256 of the file, in hex."`
}

// SignedManifest begins a release.
type SignedManifest struct {
	Manifest  string `json:"manifest" maxLength:"1048576" doc:"The manifest as it was signed, byte by byte."`
	Signature string `json:"signature" maxLength:"4096" doc:"Of minisign, over the bytes of the manifest."`
}

type versionIn struct {
	Version string `path:"version" maxLength:"64" doc:"With or without v."`
}

func releaseOf(r control.Release, err error) (*body[Release], error) {
	if err != nil {
		return nil, err
	}
	v := Release{Version: r.Version, Channel: string(r.Channel), State: r.State, Notes: r.Notes, Assets: make([]ReleaseAsset, len(r.Assets)),
		PublishedAt: r.PublishedAt, PublishedBy: r.PublishedBy}
	for i, a := range r.Assets {
		v.Assets[i] = ReleaseAsset(a)
	}
	return &body[Release]{v}, nil
}

func (s *Server) registerReleases(h huma.API) {
	list := operation("list-releases", http.MethodGet, "/releases", "Releases", "Releases of the program, newest first")
	list.Description = "Drafts and what was withdrawn are shown to owners alone."
	handle(s, h, list, func(ctx context.Context, actor catalog.Actor, in *NewestPage) (*body[listOf[Release]], error) {
		key := func(one Release) sortKey { return sortKey{one.Version} }
		return listPage(in, key, inOrder(key, func() ([]Release, error) {
			all, err := s.Control.Releases(ctx, actor)
			return each(all, err, func(r control.Release) Release {
				b, _ := releaseOf(r, nil)
				return b.Body
			})
		}))
	})
	draft := operation("draft-release", http.MethodPost, "/releases", "Releases", "Begin a release with its signed manifest")
	draft.Description = "Its assets are sent next, each with PUT, and then it is published. Its key must be trusted: release_keys in the settings of the Server."
	draft.MaxBodyBytes = 4 * release.ManifestMost // as a text in JSON it is longer
	draft.BodyReadTimeout = 2 * s.BodyTimeout
	handle(s, h, draft, func(ctx context.Context, actor catalog.Actor, in *struct{ Body SignedManifest }) (*body[Release], error) {
		return releaseOf(s.Control.DraftRelease(ctx, actor, []byte(in.Body.Manifest), []byte(in.Body.Signature)))
	})
	publish := operation("publish-release", http.MethodPost, "/releases/{version}/publish", "Releases", "Publish a release all assets of which were sent")
	handle(s, h, publish, func(ctx context.Context, actor catalog.Actor, in *versionIn) (*body[Release], error) {
		return releaseOf(s.Control.PublishRelease(ctx, actor, in.Version))
	})
	withdraw := operation("withdraw-release", http.MethodPost, "/releases/{version}/withdraw", "Releases", "Have nobody update to a release any more")
	withdraw.Description = "Its bytes are deleted, and its version is used up. A draft is forgotten."
	handle(s, h, withdraw, func(ctx context.Context, actor catalog.Actor, in *versionIn) (*body[Release], error) {
		return releaseOf(s.Control.WithdrawRelease(ctx, actor, in.Version))
	})
	describeReleases(h.OpenAPI())
}

// describeReleases describes what the library does not serve: the bytes of releases.
func describeReleases(spec *huma.OpenAPI) {
	text := &huma.Schema{Type: huma.TypeString}
	bytes := func() map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	}
	path := func(name string) *huma.Param {
		return &huma.Param{Name: name, In: "path", Required: true, Schema: text}
	}
	problem := &huma.Response{Description: "What is wrong", Content: map[string]*huma.MediaType{problemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}}}

	put := operation("put-release-asset", http.MethodPut, prefix+"/releases/{version}/assets/{name}", "Releases", "Send one asset of a draft")
	put.Description = "Its size and digest must be those of the manifest. One that is there already is left."
	put.Parameters = []*huma.Param{path("version"), path("name")}
	put.RequestBody = &huma.RequestBody{Required: true, Content: bytes()}
	put.Responses = map[string]*huma.Response{"204": {Description: "It is there"}, "default": problem}
	spec.AddOperation(&put)

	get := operation("get-release-file", http.MethodGet, releasePath+"{version}/{name}", "Releases", "The manifest of a published release, its signature, or one of its assets")
	get.Description = "For whoever asks: it is signed, and no secret. The version may be latest, the newest stable one. Names are manifest.json, " +
		"manifest.json.minisig, and those in the manifest. Ranges are answered (RFC 9110)."
	get.Security = []map[string][]string{{}}
	get.Parameters = []*huma.Param{path("version"), path("name")}
	get.Responses = map[string]*huma.Response{"200": {Description: "The file", Content: bytes()}, "206": {Description: "A part of it", Content: bytes()}, "default": problem}
	spec.AddOperation(&get)
}

// Releases lists the releases of the program, newest first.
func (c *Client) Releases(ctx context.Context) ([]Release, error) {
	return listNewest[Release](ctx, c, "/releases", nil)
}

// DraftRelease begins a release with its signed manifest.
func (c *Client) DraftRelease(ctx context.Context, manifest, signature []byte) (r Release, err error) {
	return r, c.call(ctx, http.MethodPost, prefix+"/releases", nil, SignedManifest{string(manifest), string(signature)}, &r)
}

// PublishRelease publishes a release all assets of which were sent.
func (c *Client) PublishRelease(ctx context.Context, version string) (r Release, err error) {
	return r, c.call(ctx, http.MethodPost, prefix+"/releases/"+url.PathEscape(version)+"/publish", nil, nil, &r)
}

// WithdrawRelease has nobody update to a release any more.
func (c *Client) WithdrawRelease(ctx context.Context, version string) (r Release, err error) {
	return r, c.call(ctx, http.MethodPost, prefix+"/releases/"+url.PathEscape(version)+"/withdraw", nil, nil, &r)
}
