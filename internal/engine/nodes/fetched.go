package nodes

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"legwork/internal/fault"
)

const (
	maxFetchHead = 8 << 10 // bytes of the first line that a node sends
	maxFetchTail = 128     // bytes of the last line
)

// received is what a node sent, in a temporary file. Nothing in it is trusted.
type received struct {
	file    *os.File
	size    int64
	checked int64 // size at the last check of the free space
	least   int64
	cancel  func(error) // ends the transfer
	err     error       // why the transfer was ended
	said    string
}

// Write stores what arrives, until a limit is reached.
func (r *received) Write(data []byte) (int, error) {
	if r.err != nil {
		return len(data), nil
	}
	if r.err = r.store(data); r.err != nil {
		r.cancel(r.err)
	}
	return len(data), nil
}

func (r *received) store(data []byte) error {
	if r.size+int64(len(data)) > maxFetchTar+maxFetchHead+maxFetchTail {
		return fetchTooLarge()
	}
	if r.size-r.checked >= spaceCheckStep {
		r.checked = r.size
		if err := checkSpace(filepath.Dir(r.file.Name()), r.least); err != nil {
			return err
		}
	}
	n, err := r.file.Write(data)
	r.size += int64(n)
	if err != nil {
		return storeFault("a temporary file", err)
	}
	return nil
}

func (r *received) remove() {
	_ = r.file.Close()
	_ = os.Remove(r.file.Name())
}

// reason returns the word with which the node explains a refusal.
func (r *received) reason() string {
	head := make([]byte, 64)
	n, _ := r.file.ReadAt(head, 0)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	word, _ := strings.CutPrefix(line, "stop 0 ")
	return word
}

// sent is what a node sent, once its checksum is known to be right.
type sent struct {
	folder bool
	path   string // on the node, reported by it
	data   *io.SectionReader
}

// open checks what was received.
func (r *received) open() (*sent, error) {
	head := make([]byte, min(r.size, maxFetchHead))
	if _, err := r.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	end := bytes.IndexByte(head, '\n')
	kind, name, ok := strings.Cut(strings.TrimPrefix(string(head[:max(end, 0)]), "begin "), " ")
	if !ok || kind != "file" && kind != "folder" {
		return nil, errors.New("the node did not send what was expected")
	}
	if !strings.HasPrefix(name, "/") || !plainText(name) {
		return nil, refusedName(name)
	}
	tail := make([]byte, min(r.size-int64(end)-1, maxFetchTail))
	if _, err := r.file.ReadAt(tail, r.size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	lines := bytes.Split(tail, []byte("\n"))
	if len(lines) < 3 || len(lines[len(lines)-1]) > 0 {
		return nil, errors.New("the transfer ended early")
	}
	last := string(lines[len(lines)-2])
	s := &sent{folder: kind == "folder", path: name}
	s.data = io.NewSectionReader(r.file, int64(end)+1, r.size-int64(end)-1-int64(len(last))-2)
	if s.data.Size() > maxFetchTar || !s.folder && s.data.Size() > maxFetchBytes {
		return nil, fetchTooLarge()
	}
	return s, s.check(last, r.said)
}

// check compares the exit status and the checksum that the node sent with what arrived.
func (s *sent) check(last, said string) error {
	status, digest, _ := strings.Cut(last, " ")
	if status != "0" {
		return errors.New(orWord(said, "reading it failed on the node with exit status "+oneLine(status)))
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, s.data); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return errors.New("the checksum of the received bytes differs from that of the node")
	}
	_, err := s.data.Seek(0, io.SeekStart)
	return err
}

// stored is the result of a fetch.
type stored struct {
	files   int
	changed []string // files, by their paths on the node
	skipped int      // links and special files
	seen    map[string]bool
	entries int
	bytes   int64
}

// storeFetched stores what a node sent at a place below a folder. Nothing that the node names leads out of the place.
func storeFetched(dir, place string, from *sent) (*stored, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, storeFault(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, storeFault(dir, err)
	}
	defer root.Close()
	s := &stored{seen: map[string]bool{}}
	if !from.folder {
		return s, s.file(root, place, from.path, from.data)
	}
	if err := root.MkdirAll(place, 0o700); err != nil {
		return nil, storeFault(place, err)
	}
	inside, err := root.OpenRoot(place)
	if err != nil {
		return nil, storeFault(place, err)
	}
	defer inside.Close()
	return s, s.archive(inside, from)
}

// archive stores the entries of an archive.
func (s *stored) archive(root *os.Root, from *sent) error {
	archive := tar.NewReader(bufio.NewReader(from.data))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.New(fault.Failed, "fetch_failed", "the node sent an archive that cannot be read: %s",
				oneLine(err.Error())).WithHint("check the tar program of the node")
		}
		s.entries++
		if s.bytes += h.Size; s.bytes > maxFetchBytes || s.entries > maxFetchFiles {
			return fetchTooLarge()
		}
		if err := s.entry(root, from.path, h, archive); err != nil {
			return err
		}
	}
}

// entry stores one entry of an archive.
func (s *stored) entry(root *os.Root, nodePath string, h *tar.Header, data io.Reader) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(name) || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return refusedName(h.Name)
	}
	label := path.Join(nodePath, name)
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(name, 0o700); err != nil {
			return storeFault(label, err)
		}
		return nil
	case tar.TypeReg, tar.TypeGNUSparse:
		s.seen[name] = true
		return s.file(root, name, label, data)
	case tar.TypeLink:
		return s.hardLink(root, name, label, path.Clean(h.Linkname))
	}
	s.skipped++
	return nil
}

// hardLink stores another name of a file of the same archive.
func (s *stored) hardLink(root *os.Root, name, label, target string) error {
	if !s.seen[target] {
		return refusedName(target)
	}
	f, err := root.Open(target)
	if err != nil {
		return storeFault(label, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return storeFault(label, err)
	}
	if s.bytes += info.Size(); s.bytes > maxFetchBytes {
		return fetchTooLarge()
	}
	return s.file(root, name, label, f)
}

// file stores one file, unless the same content is there already. A half-written file never has the final name.
func (s *stored) file(root *os.Root, name, label string, data io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return storeFault(label, err)
	}
	s.files++
	temp := path.Join(path.Dir(name), ".legwork-"+rand.Text())
	digest, err := writeTemp(root, temp, data)
	if err == nil && digest == digestOf(root, name) {
		return root.Remove(temp)
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
		return storeFault(label, err)
	}
	s.changed = append(s.changed, label)
	return nil
}

// writeTemp writes a new file, and returns the digest of its content.
func writeTemp(root *os.Root, name string, data io.Reader) (digest string, err error) {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), data)
	if err == nil {
		err = f.Sync()
	}
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, f.Close())
}

// digestOf returns the digest of a regular file, "" where there is none.
func digestOf(root *os.Root, name string) string {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// plainText reports whether a text is UTF-8 without control characters.
func plainText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

func refusedName(name string) error {
	return fault.New(fault.Failed, "fetch_refused", "the node sent the name %.200q, which is not below the fetched folder",
		name).WithHint("check the node: its tar does not do what was asked")
}

func fetchTooLarge() error {
	return fault.New(fault.Invalid, "fetch_too_large",
		"the node sends more than %d MiB, or more than %d files and folders", maxFetchBytes>>20, maxFetchFiles).
		WithHint("fetch less, or have the node upload large files itself")
}

func storeFault(what string, err error) error {
	var problem *fs.PathError
	if errors.As(err, &problem) {
		err = problem.Err
	}
	return fault.New(fault.Failed, "fetch_failed", "cannot store %s on the runner: %v", oneLine(what), err).
		WithHint("%s", "check the folder of fetched files on the host of the runner: its disk, its mode and its links").
		WithCause(fmt.Errorf("storing a fetched file: %w", err))
}
