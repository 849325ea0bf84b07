package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"

	"legwork/internal/lazyregexp"
)

//go:embed assets/*.css assets/*.js assets/*.svg assets/vendor/*.js
var embedded embed.FS

const assetPrefix = "/-/assets/"

// assets are the files that pages load, each under a name that holds its hash, so that browsers keep them for ever.
type assets struct {
	names map[string]string // "app.css" -> "app.1a2b3c4d.css"
	files map[string]asset  // by hashed name

	colours []string // the tokens of app.css that are colours
}

type asset struct {
	kind        string
	plain, gzip []byte
}

var assetKinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// colourToken is how app.css declares a colour: its value by day and by night.
var colourToken = lazyregexp.New(`(?m)^\s*--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);$`)

// loadAssets reads and compresses what is embedded: some 100 KiB, once. By gzip alone: an encoder of zstd that does better takes
// tens of MiB, which a Server at rest would keep.
func loadAssets() *assets {
	a := &assets{names: map[string]string{}, files: map[string]asset{}}
	err := fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		plain, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(plain)
		ext := path.Ext(name)
		base := path.Base(name)
		hashed := strings.TrimSuffix(base, ext) + "." + hex.EncodeToString(sum[:4]) + ext
		a.names[base] = hashed
		a.files[hashed] = asset{kind: assetKinds[ext], plain: plain, gzip: gzipped(plain)}
		return nil
	})
	if err != nil {
		panic(err) // embedded: a defect that every test sees
	}
	for _, found := range colourToken.FindAllSubmatch(a.files[a.names["app.css"]].plain, -1) {
		a.colours = append(a.colours, string(found[1]))
	}
	return a
}

func gzipped(plain []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a constant level
	_, _ = w.Write(plain)                                 // to memory
	_ = w.Close()
	return b.Bytes()
}

// path gives the URL of a file by its plain name.
func (a *assets) path(name string) string { return assetPrefix + a.names[name] }

// tabIcon returns the mark in the colour of a status, as a data URL.
func (a *assets) tabIcon(tone string) string {
	mark := string(a.files[a.names["mark.svg"]].plain)
	if colour := tabColours[tone]; colour != "" {
		mark = strings.Replace(mark, markColour, colour, 1)
	}
	return "data:image/svg+xml," + url.PathEscape(mark)
}

// markColour is the ground of the mark in mark.svg.
const markColour = "#2b53c6"

// tabColours are the grounds of the mark by the tone of a status; the others keep the mark's own.
var tabColours = map[string]string{"good": "#1a7f37", "busy": "#b58100", "warn": "#bc4c00", "bad": "#c42b2b", "ask": "#8250df"}

func (a *assets) serve(rw http.ResponseWriter, r *http.Request) {
	f, ok := a.files[r.PathValue("name")]
	if !ok {
		http.Error(rw, "there is no such file", http.StatusNotFound)
		return
	}
	h := rw.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzip
	}
	_, _ = rw.Write(body) // whoever left does not hear it
}
