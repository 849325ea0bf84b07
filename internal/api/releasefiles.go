package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"legwork/internal/access"
	"legwork/internal/fault"
	"legwork/internal/release"
)

// releasePath is below which the files of published releases are.
const releasePath = "/releases/"

// The bounds of what everybody may fetch. A fleet behind one address starts its updates at once.
const (
	downloadsPerSecond = 20  // of one address
	downloadsBurst     = 200 // likewise
	downloadsAtOnce    = 200 // of all, of assets: what is small takes no place
	downloadsAtOnceOf  = 32  // of one address, which may be that of many hosts
	downloadStill      = time.Minute
	downloadLeast      = 16 << 10 // bytes a second, on the whole, once the first minute is over
	addressesMost      = 10_000
)

// isReleaseFile tells whether a request moves a file of a release, which takes as long as it takes.
func isReleaseFile(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, releasePath) || r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, prefix+releasePath)
}

// registerReleaseFiles adds what moves the bytes of releases.
func (s *Server) registerReleaseFiles(mux *http.ServeMux) {
	d := &downloads{server: s, places: make(chan struct{}, downloadsAtOnce), of: map[string]*rate.Limiter{}, held: map[string]int{}}
	mux.HandleFunc("GET "+releasePath+"{version}/{name}", d.serve)
	mux.HandleFunc("PUT "+prefix+releasePath+"{version}/assets/{name}", s.putReleaseAsset)
}

// downloads hands out files of releases to whoever asks.
type downloads struct {
	server *Server
	places chan struct{}

	mu   sync.Mutex
	of   map[string]*rate.Limiter // by address
	held map[string]int           // places, by address
}

// allow tells whether an address may fetch another file now.
func (d *downloads) allow(ctx context.Context, address string) bool {
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
	access.NoteQuota(ctx, func() access.Quota {
		return access.QuotaOf("download", downloadsBurst, float64(downloadsPerSecond), l.Tokens())
	})
	return l.Allow()
}

// hold takes a place for a download of an address, and tells whether there was one.
func (d *downloads) hold(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held[address] >= downloadsAtOnceOf {
		return false
	}
	select {
	case d.places <- struct{}{}:
		d.held[address]++
		return true
	default:
		return false
	}
}

// free gives back what hold took.
func (d *downloads) free(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	<-d.places
	if d.held[address]--; d.held[address] == 0 {
		delete(d.held, address)
	}
}

// network is what downloads are bounded by: an address or, of IPv6, the network that one host has for itself.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Is4() {
		return address
	}
	p, _ := a.Prefix(64) // it is no longer than the address
	return p.String()
}

// isManifest tells whether a file is so small that it takes no place.
func isManifest(name string) bool {
	return name == release.ManifestName || name == release.SignatureName
}

func (d *downloads) serve(w http.ResponseWriter, r *http.Request) {
	address := network(requestOf(r.Context()).address)
	if !d.allow(r.Context(), address) {
		d.server.writeProblem(w, r, fault.New(fault.RateLimited, "too_many_downloads", "there are too many downloads from this address"))
		return
	}
	if !isManifest(r.PathValue("name")) {
		if !d.hold(address) {
			d.server.writeProblem(w, r, fault.New(fault.Unavailable, "downloads_busy", "this Server hands out as many files as it can, and no more than %d to one address", downloadsAtOnceOf).
				WithHint("try again when others are over"))
			return
		}
		defer d.free(address)
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
	http.ServeContent(&steady{ResponseWriter: w, control: http.NewResponseController(w), began: time.Now()}, r, "", time.Time{}, content)
	return nil
}

// steady gives each part of an answer the time that a whole one has elsewhere, as long as all of it comes on.
type steady struct {
	http.ResponseWriter
	control *http.ResponseController
	began   time.Time
	sent    int64
}

func (s *steady) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(s.until(time.Now())) // not every writer has one
	n, err := s.ResponseWriter.Write(b)
	s.sent += int64(n)
	return n, err
}

// until is when the next part must be over: who reads slower than downloadLeast on the whole holds a place for nothing.
func (s *steady) until(now time.Time) time.Time {
	least := s.began.Add(downloadStill + time.Duration(s.sent/downloadLeast)*time.Second)
	if still := now.Add(downloadStill); still.Before(least) {
		return still
	}
	return least
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
