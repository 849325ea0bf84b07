package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"legwork/internal/fault"
	"legwork/internal/release"
)

// releasePath is below which the files of published releases are.
const releasePath = "/releases/"

// The bounds of what everybody may fetch. A fleet behind one address starts its updates at once.
const (
	downloadsPerSecond = 20  // of one address
	downloadsBurst     = 200 // likewise
	downloadsAtOnce    = 200 // of all
	downloadStill      = time.Minute
	addressesMost      = 10_000
)

// isReleaseFile tells whether a request moves a file of a release, which takes as long as it takes.
func isReleaseFile(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, releasePath) || r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, prefix+releasePath)
}

// registerReleaseFiles adds what moves the bytes of releases.
func (s *Server) registerReleaseFiles(mux *http.ServeMux) {
	d := &downloads{server: s, places: make(chan struct{}, downloadsAtOnce), of: map[string]*rate.Limiter{}}
	mux.HandleFunc("GET "+releasePath+"{version}/{name}", d.serve)
	mux.HandleFunc("PUT "+prefix+releasePath+"{version}/assets/{name}", s.putReleaseAsset)
}

// downloads hands out files of releases to whoever asks.
type downloads struct {
	server *Server
	places chan struct{}

	mu sync.Mutex
	of map[string]*rate.Limiter // by address
}

// allow tells whether an address may fetch another file now.
func (d *downloads) allow(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.of[address]
	if l == nil {
		if len(d.of) >= addressesMost { // whoever has so many addresses is not held back by this
			clear(d.of)
		}
		l = rate.NewLimiter(downloadsPerSecond, downloadsBurst)
		d.of[address] = l
	}
	return l.Allow()
}

func (d *downloads) serve(w http.ResponseWriter, r *http.Request) {
	if !d.allow(requestOf(r.Context()).address) {
		d.server.writeProblem(w, r, fault.New(fault.RateLimited, "too_many_downloads", "there are too many downloads from this address"))
		return
	}
	select {
	case d.places <- struct{}{}:
		defer func() { <-d.places }()
	default:
		d.server.writeProblem(w, r, fault.New(fault.Unavailable, "downloads_busy", "this Server hands out as many files as it can"))
		return
	}
	if err := d.send(w, r); err != nil {
		d.server.writeProblem(w, r, err)
	}
}

// send answers with a file. An error is one of before the first byte.
func (d *downloads) send(w http.ResponseWriter, r *http.Request) error {
	version, name := r.PathValue("version"), r.PathValue("name")
	var content io.ReadSeeker
	kind := "application/octet-stream"
	switch name {
	case release.ManifestName, release.SignatureName:
		manifest, signature, err := d.server.Control.ReleaseManifest(r.Context(), version)
		if err != nil {
			return err
		}
		if content, kind = bytes.NewReader(manifest), "application/json"; name == release.SignatureName {
			content, kind = bytes.NewReader(signature), plainType
		}
	default:
		file, asset, err := d.server.Control.OpenReleaseAsset(r.Context(), version, name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was read or is not wanted
		content = file
		w.Header().Set("ETag", `"`+asset.SHA256+`"`)
		w.Header().Set("Content-Disposition", `attachment; filename="`+asset.Name+`"`)
	}
	w.Header().Set("Content-Type", kind)
	http.ServeContent(&steady{w, http.NewResponseController(w)}, r, "", time.Time{}, content)
	return nil
}

// steady gives each part of an answer the time that a whole one has elsewhere.
type steady struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (s *steady) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(downloadStill)) // not every writer has one
	return s.ResponseWriter.Write(b)
}

// putReleaseAsset stores one asset of a draft as it comes.
func (s *Server) putReleaseAsset(w http.ResponseWriter, r *http.Request) {
	version, name := r.PathValue("version"), r.PathValue("name")
	control := http.NewResponseController(w)
	a, err := s.Control.ExpectedAsset(r.Context(), actorOf(r.Context()), version, name)
	if err == nil && r.ContentLength >= 0 && r.ContentLength != a.Size {
		err = fault.New(fault.Invalid, "release_digest", "%s is not what the signed manifest says: %d bytes, not %d", a.Name, r.ContentLength, a.Size).
			WithHint("send the files that were built together with the manifest")
	}
	if err == nil {
		body := &arriving{http.MaxBytesReader(w, r.Body, a.Size+1), control}
		err = s.Control.PutReleaseAsset(r.Context(), actorOf(r.Context()), version, name, body)
	}
	_ = control.SetWriteDeadline(time.Now().Add(answerTimeout)) // not every writer has one
	if err != nil {
		s.writeProblem(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// arriving is a body that may take long, as long as it comes.
type arriving struct {
	from    io.Reader
	control *http.ResponseController
}

func (a *arriving) Read(b []byte) (int, error) {
	_ = a.control.SetReadDeadline(time.Now().Add(downloadStill)) // not every body has one
	n, err := a.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fault.New(fault.Unavailable, "body_broken", "the body of the request broke off").WithCause(err)
	}
	return n, err
}

// PutReleaseAsset sends one asset of a draft, of so many bytes. It takes as long as it takes.
func (c *Client) PutReleaseAsset(ctx context.Context, version, name string, size int64, content io.Reader) error {
	path := prefix + releasePath + url.PathEscape(version) + "/assets/" + url.PathEscape(name)
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	resp, err := c.sendSized(ctx, http.MethodPut, path, nil, header, content, size)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// ReleaseFile gives the manifest of a published release or its signature, by the names of package release. "latest" is the newest stable one.
func (c *Client) ReleaseFile(ctx context.Context, version, name string) (content []byte, err error) {
	return content, c.call(ctx, http.MethodGet, releasePath+url.PathEscape(version)+"/"+url.PathEscape(name), nil, nil, &content)
}
