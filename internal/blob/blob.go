// Package blob keeps bytes that are too large for the database: log archives, plan files, releases. It is a thin face
// over gocloud.dev/blob: a folder of files, or memory for tests.
//
// What Put has acknowledged is on the disk. A key is a path with slashes, such as "logs/0198.../1".
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"legwork/internal/fault"
)

// keyMost bounds the length of a key: object stores allow 1024 bytes, file systems 255 for one part.
const keyMost = 1024

// partial ends the names of files that are being written. No key may.
const partial = ".tmp"

// Store is a place for blobs. It is safe for concurrent use.
type Store struct {
	bucket *blob.Bucket
	dir    string // root of a folder of files, else empty
}

// Open opens a place for blobs. where is a folder or a file:// URL, which is made with mode 0700 when it is not
// there, or "mem://" for one that lives in memory alone.
func Open(ctx context.Context, where string) (*Store, error) {
	scheme, rest, hasScheme := strings.Cut(where, "://")
	switch {
	case !hasScheme:
		return openDir(where)
	case scheme == "mem" && rest == "":
		return &Store{bucket: memblob.OpenBucket(nil)}, nil
	case scheme == "file":
		u, err := url.Parse(where)
		if err == nil && u.Host == "" && filepath.IsAbs(u.Path) {
			return openDir(u.Path)
		}
	}
	return nil, fault.New(fault.Invalid, "blob_url", "the place for blobs is not one that this program knows").
		WithHint("name a folder, or write file:///folder")
}

func openDir(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder of blobs: %w", err)
	}
	bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{
		CreateDir: true, DirFileMode: 0o700,
		NoTempDir: true, // beside the file, so that renaming never crosses file systems
		Metadata:  fileblob.MetadataDontWrite,
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "blob_unreachable", "the folder of blobs %s cannot be opened", dir).
			WithHint("make sure that this user may write there").WithCause(err)
	}
	return &Store{bucket: bucket, dir: dir}, nil
}

// Close releases what the Store holds.
func (s *Store) Close() error { return s.bucket.Close() }

// Put stores what r gives under a key, replacing what is there. When it returns nil all of it is stored for good; when it fails, or
// ctx ends, nothing has changed.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) error {
	if err := check(key); err != nil {
		return err
	}
	ctx, abandon := context.WithCancel(ctx) // closing a writer whose ctx is over throws away what was written
	defer abandon()
	var file *os.File
	w, err := s.bucket.NewWriter(ctx, key, &blob.WriterOptions{
		ContentType: "application/octet-stream", // said, so that nobody guesses it from the bytes
		BeforeWrite: func(as func(any) bool) error {
			if as(&file) {
				return file.Chmod(0o600)
			}
			return nil
		},
	})
	if err != nil {
		return meaning(key, "write", err)
	}
	_, err = io.Copy(w, r)
	if err == nil && file != nil {
		err = file.Sync()
	}
	if err != nil {
		abandon()
		_ = w.Close() // it reports that it was abandoned
		return meaning(key, "write", err)
	}
	if err := w.Close(); err != nil {
		return meaning(key, "write", err)
	}
	return s.syncFolders(key)
}

// syncFolders makes the name of a new file last, and those of the folders on the way to it.
func (s *Store) syncFolders(key string) error {
	if s.dir == "" {
		return nil
	}
	for dir := filepath.Dir(filepath.Join(s.dir, filepath.FromSlash(key))); ; dir = filepath.Dir(dir) {
		d, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("keep the blob %s: %w", key, err)
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return fmt.Errorf("keep the blob %s: %w", key, err)
		}
		if dir == s.dir {
			return nil
		}
	}
}

// Object is a stored blob that can be read from anywhere. It is an io.ReaderAt.
type Object struct {
	Size   int64
	ctx    context.Context
	bucket *blob.Bucket
	key    string
}

// Get finds a blob; none under the key is a fault.NotFound. Reads of the Object end with ctx.
func (s *Store) Get(ctx context.Context, key string) (*Object, error) {
	if err := check(key); err != nil {
		return nil, err
	}
	a, err := s.bucket.Attributes(ctx, key)
	if err != nil {
		return nil, meaning(key, "read", err)
	}
	return &Object{Size: a.Size, ctx: ctx, bucket: s.bucket, key: key}, nil
}

// ReadAt fills b from an offset; each call is one read of the place for blobs.
func (o *Object) ReadAt(b []byte, offset int64) (int, error) {
	if offset >= o.Size {
		return 0, io.EOF
	}
	r, err := o.bucket.NewRangeReader(o.ctx, o.key, offset, int64(len(b)), nil)
	if err != nil {
		return 0, meaning(o.key, "read", err)
	}
	n, err := io.ReadFull(r, b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, errors.Join(err, r.Close())
}

// Reader reads the whole blob from its beginning. The caller closes it.
func (o *Object) Reader() (io.ReadCloser, error) {
	r, err := o.bucket.NewReader(o.ctx, o.key, nil)
	if err != nil {
		return nil, meaning(o.key, "read", err)
	}
	return r, nil
}

// Delete removes a blob; that there is none is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := check(key); err != nil {
		return err
	}
	err := s.bucket.Delete(ctx, key)
	if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return meaning(key, "delete", err)
	}
	return nil
}

// Entry is what List tells of one blob.
type Entry struct {
	Key  string
	Size int64
}

// List gives the blobs whose keys begin with prefix, in the order of their keys. After an error it ends.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		it := s.bucket.List(&blob.ListOptions{Prefix: prefix})
		for {
			o, err := it.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Entry{}, meaning(prefix, "list", err))
				return
			}
			if o.IsDir || strings.HasSuffix(o.Key, partial) { // left by a program that was killed
				continue
			}
			if !yield(Entry{Key: o.Key, Size: o.Size}, nil) {
				return
			}
		}
	}
}

// check refuses keys that would mean another file in some place for blobs. Keys are made by the program of ids and names.
func check(key string) error {
	ok := key != "" && len(key) <= keyMost && !strings.HasSuffix(key, partial)
	for part := range strings.SplitSeq(key, "/") {
		ok = ok && part != "" && part != "." && part != ".." && len(part) < 200
	}
	for _, c := range []byte(key) {
		ok = ok && (c == '/' || c == '-' || c == '_' || c == '.' ||
			'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}
	if !ok {
		return fault.New(fault.Invalid, "blob_key", "a blob cannot be kept under the key %q", key)
	}
	return nil
}

// meaning turns an error of the place for blobs into a fault.
func meaning(key, doing string, err error) error {
	var known *fault.Fault
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case gcerrors.Code(err) == gcerrors.NotFound:
		return fault.New(fault.NotFound, "blob_not_found", "there is no blob %q", key).WithCause(err)
	}
	return fmt.Errorf("%s the blob %s: %w", doing, key, err)
}
