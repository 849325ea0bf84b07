package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// The bounds of a download in time.
const (
	fetchMost  = time.Hour
	fetchStill = time.Minute // without a byte
)

var errStill = errors.New("no bytes came for a minute")

// Fetch downloads the program of a release for a platform through the Server into a file, mode 0755, in place of what is there. It checks
// the signature before it asks for anything, and size and digest while it writes; the file appears whole and right, or not at all. What is
// there already and right is not fetched again. Whether the version is wanted is for the caller to say (Consent.Allows).
//
// Its faults are those of Verify, Program, and "release_digest", "release_unreachable" (retryable), "release_not_served", "release_write".
func Fetch(ctx context.Context, client *http.Client, serverURL string, ref work.ReleaseRef, keys Keys, p Platform, toFile string) (Manifest, error) {
	m, err := Verify(ref.Manifest, ref.Signature, keys)
	if err != nil {
		return Manifest{}, err
	}
	if Compare(m.Version, ref.Version) != 0 {
		return Manifest{}, fault.New(fault.Forbidden, "release_signature", "release %q was asked for, and the signed manifest is of %s", short(ref.Version), m.Version).
			WithHint("do not use it: somebody hands on another release than the one they name")
	}
	a, err := m.Program(p)
	if err != nil {
		return Manifest{}, err
	}
	if Check(toFile, a) == nil {
		return m, nil
	}
	from, err := url.JoinPath(serverURL, ref.Path, a.Name)
	if err != nil {
		return Manifest{}, fault.New(fault.Invalid, "release_not_served", "the address of the Server cannot be read").WithCause(err)
	}
	return m, download(ctx, client, from, a, toFile)
}

// Check tells whether a file is an asset. Its fault is "release_digest"; other errors are those of reading.
func Check(file string, a Asset) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != a.Size {
		return wrongSize(a)
	}
	return Copy(io.Discard, f, a)
}

// Copy copies an asset and fails with "release_digest" when it is not exactly the one that is named: what was written until then is to be
// thrown away.
func Copy(to io.Writer, from io.Reader, a Asset) error {
	_, err := io.Copy(to, Checked(from, a))
	return err
}

// Checked reads an asset: it ends with io.EOF when it was exactly the one that is named, else with the fault "release_digest". At most one
// byte more than the size of the asset is read.
func Checked(from io.Reader, a Asset) io.Reader {
	return &checker{io.LimitReader(from, a.Size+1), a, sha256.New(), 0}
}

type checker struct {
	from  io.Reader
	asset Asset
	sum   hash.Hash
	n     int64
}

func (c *checker) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += int64(n)
	_, _ = c.sum.Write(b[:n]) // it never fails
	switch {
	case c.n > c.asset.Size:
		return 0, wrongSize(c.asset)
	case !errors.Is(err, io.EOF):
		return n, err
	case c.n != c.asset.Size:
		return n, wrongSize(c.asset)
	case hex.EncodeToString(c.sum.Sum(nil)) != c.asset.SHA256:
		return n, fault.New(fault.Invalid, "release_digest", "%s is not what the signed manifest says: its digest differs", c.asset.Name).
			WithHint("it was changed on its way or after signing: get it again, from where it was built")
	}
	return n, io.EOF
}

func wrongSize(a Asset) error {
	return fault.New(fault.Invalid, "release_digest", "%s is not what the signed manifest says: it has not %d bytes", a.Name, a.Size).
		WithHint("it was cut off or changed on its way: get it again, from where it was built")
}

// download gets an asset from a URL into a file.
func download(ctx context.Context, client *http.Client, from string, a Asset, toFile string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchMost)
	defer cancel()
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	still := time.AfterFunc(fetchStill, func() { give(errStill) })
	defer still.Stop()
	body, err := get(ctx, client, from)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return place(toFile, func(f io.Writer) error {
		return Copy(f, &reader{body, func() { still.Reset(fetchStill) }}, a)
	})
}

// reader tells of bytes that came, and gives the errors of a network their meaning.
type reader struct {
	from io.Reader
	came func()
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if n > 0 {
		r.came()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreachable(err)
	}
	return n, err
}

func unreachable(err error) error {
	return fault.New(fault.Unavailable, "release_unreachable", "the download of the release from the Server broke off").
		WithHint("try again; see whether a proxy or firewall stands between this host and the Server").WithCause(err)
}

func get(ctx context.Context, client *http.Client, from string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "release_not_served", "the address of the Server cannot be read").WithCause(err)
	}
	request.Header.Set("Accept-Encoding", "identity") // the bytes as they are: their size is known
	answer, err := client.Do(request)
	if err != nil {
		return nil, unreachable(err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	_ = answer.Body.Close()
	cause := fmt.Errorf("GET %s: %s", from, answer.Status)
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500 {
		return nil, unreachable(cause)
	}
	return nil, fault.New(fault.NotFound, "release_not_served", "the Server does not serve this release: it answers %d", answer.StatusCode).
		WithHint("it may have been withdrawn: see `legwork release list`").WithCause(cause)
}

// place has write fill a new file beside the one that is wanted, and puts it there when all went well.
func place(toFile string, write func(io.Writer) error) (err error) {
	cannot := func(err error) error {
		return fault.New(fault.Failed, "release_write", "the program of the release cannot be written to %s", filepath.Dir(toFile)).
			WithHint("see that the folder is there, that this user may write there, and that the disk has room").WithCause(err)
	}
	f, err := os.CreateTemp(filepath.Dir(toFile), "."+filepath.Base(toFile)+".*.part")
	if err != nil {
		return cannot(err)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // it may be closed
			_ = os.Remove(f.Name())
		}
	}()
	w := &checked{f, nil}
	if err := write(w); w.err != nil {
		return cannot(w.err)
	} else if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o755), f.Sync(), f.Close()); err != nil {
		return cannot(err)
	}
	if err := os.Rename(f.Name(), toFile); err != nil {
		return cannot(err)
	}
	return nil
}

// checked remembers that writing failed, which the reading side then is not blamed for.
type checked struct {
	to  io.Writer
	err error
}

func (c *checked) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.err = err
	return n, err
}
