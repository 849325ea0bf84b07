package harness_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"legwork/internal/harness"
	"legwork/internal/work"
)

// recorder is a proxy in front of a Server that keeps every byte that passes.
type recorder struct {
	url   string
	mu    sync.Mutex
	flows []*bytes.Buffer
}

func record(t *testing.T, server string) *recorder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &recorder{url: "http://" + l.Addr().String()}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
			if err != nil {
				in.Close()
				continue
			}
			go r.pass(in, out)
			go r.pass(out, in)
		}
	}()
	return r
}

// flow keeps what goes one way of one connection.
type flow struct {
	r *recorder
	b *bytes.Buffer
}

func (f flow) Write(p []byte) (int, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	return f.b.Write(p)
}

func (r *recorder) pass(from, to net.Conn) {
	f := flow{r, &bytes.Buffer{}}
	r.mu.Lock()
	r.flows = append(r.flows, f.b)
	r.mu.Unlock()
	_, _ = io.Copy(io.MultiWriter(to, f), from)
	to.Close()
	from.Close()
}

// plain gives all that passed: as it was, and what WebSocket frames and packed log batches in it hold.
func (r *recorder) plain(t *testing.T) []byte {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []byte
	for _, f := range r.flows {
		all = append(all, f.Bytes()...)
		payload := frames(f.Bytes())
		all = append(all, payload...)
		all = append(all, unpacked(t, payload)...)
	}
	return all
}

// frames takes the payload out of a flow that begins with an upgrade to WebSocket (RFC 6455), else nothing.
func frames(data []byte) (payload []byte) {
	head, rest, ok := bytes.Cut(data, []byte("\r\n\r\n"))
	if !ok || !bytes.Contains(bytes.ToLower(head), []byte("upgrade: websocket")) {
		return nil
	}
	for len(rest) >= 2 {
		masked, size, at := rest[1]&0x80 != 0, uint64(rest[1]&0x7f), 2
		switch {
		case size == 126 && len(rest) >= 4:
			size, at = uint64(binary.BigEndian.Uint16(rest[2:])), 4
		case size == 127 && len(rest) >= 10:
			size, at = binary.BigEndian.Uint64(rest[2:]), 10
		}
		var mask [4]byte
		if masked && len(rest) >= at+4 {
			copy(mask[:], rest[at:])
			at += 4
		}
		if uint64(len(rest)) < uint64(at)+size {
			return payload
		}
		for i, b := range rest[at : uint64(at)+size] {
			payload = append(payload, b^mask[i%4])
		}
		rest = rest[uint64(at)+size:]
	}
	return payload
}

// unpacked gives what every zstd frame in data holds.
func unpacked(t *testing.T, data []byte) (all []byte) {
	t.Helper()
	magic := []byte{0x28, 0xb5, 0x2f, 0xfd}
	for at := bytes.Index(data, magic); at >= 0; {
		decoder, err := zstd.NewReader(bufio.NewReader(bytes.NewReader(data[at:])), zstd.WithDecoderConcurrency(1), zstd.IgnoreChecksum(true))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(decoder) // what follows the frame is no frame
		decoder.Close()
		all = append(all, text...)
		next := bytes.Index(data[at+4:], magic)
		if next < 0 {
			break
		}
		at += 4 + next
	}
	return all
}

// TestTheServerNeverSeesWhatAReferenceStandsFor runs a Job with references, and looks for their values on the wire, on the Server's disk and in its log.
func TestTheServerNeverSeesWhatAReferenceStandsFor(t *testing.T) {
	s := harness.StartServer(t)
	wire := record(t, s.URL)
	folder := t.TempDir()
	values := []string{"hunter2-of-a-file-4711", "hunter2-of-a-variable-4712"}
	if err := os.WriteFile(filepath.Join(folder, "token"), []byte(values[0]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := s.NewRunner("edge", func(m map[string]any) {
		m["Server"].(map[string]any)["Url"] = wire.url
		m["Policy"] = map[string]any{"ReferenceFolders": []string{folder}}
	})
	r.SetEnv("THE_TOKEN=" + values[1])
	r.Start()
	r.Online()
	s.Apply(`
{kind: Stack, name: prod}
---
{kind: Namespace, stack: prod, name: net}
---
{kind: Module, stack: prod, namespace: net, name: a, engine: script, runner: edge,
 inputs: [{name: FROM_FILE, kind: env, from: secret, value: file-token}, {name: FROM_ENV, kind: env, from: secret, value: env-token}],
 script: {run: "echo visible-marker; echo \"it is $FROM_FILE and $FROM_ENV\"; printf %s \"$FROM_FILE\" | sha256sum; printf %s \"$FROM_ENV\" | sha256sum"}}
---
{kind: Assignment, runner: edge, scope: prod}
`)
	if got := s.Try("job", "submit", "prod/net/a"); got.Status == 0 && strings.Contains(got.Out, "queued") {
		t.Errorf("a Job without its Secrets: %+v", got)
	}
	s.Do("secret", "set", "file-token", "--scope", "prod", "--reference", "${file:"+folder+"/token}")
	s.Do("secret", "set", "env-token", "--scope", "prod/net/a", "--reference", "${env:THE_TOKEN}")
	id := s.Submit("run", "prod/net/a")
	s.Ends(id, work.Succeeded)
	log := s.Log(id)
	for _, value := range values {
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(value))); !strings.Contains(log, sum) {
			t.Errorf("the script did not get what the reference stands for:\n%s", log)
		}
	}
	if !strings.Contains(log, "it is ***") {
		t.Errorf("not masked:\n%s", log)
	}
	passed := wire.plain(t)
	if !bytes.Contains(passed, []byte("visible-marker")) || !bytes.Contains(passed, []byte("it is ***")) {
		t.Error("the recorder does not see what the script prints: it would not see a value either")
	}
	seen := map[string][]byte{"the wire": passed, "the Server's log": []byte(s.Output()), "the Runner's log": []byte(r.Output()), "the Job's log": []byte(log)}
	err := filepath.WalkDir(s.Data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			seen[path], err = os.ReadFile(path)
		}
		if os.IsNotExist(err) {
			return nil // what went away meanwhile holds nothing
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, data := range seen {
		for _, value := range values {
			if bytes.Contains(data, []byte(value)) || bytes.Contains(unpacked(t, data), []byte(value)) {
				t.Errorf("%s holds the value of a reference", where)
			}
		}
	}
	if used := s.Do("audit", "list", "--action", "secret.use", "-o", "json"); !strings.Contains(used, "file-token") || !strings.Contains(used, "env-token") || strings.Contains(used, values[0]) {
		t.Errorf("audit: %s", used)
	}

	t.Run("a reference that cannot be had", func(t *testing.T) {
		s.Do("secret", "set", "file-token", "--scope", "prod", "--reference", "${file:/etc/passwd}")
		j := s.Ends(s.Submit("run", "prod/net/a"), work.Failed)
		if j.Failure == nil || j.Failure.Code != "reference_forbidden" {
			t.Errorf("outside of the folders: %+v", j.Failure)
		}
		s.Do("secret", "set", "file-token", "--scope", "prod", "--reference", "${file:"+folder+"/missing}")
		j = s.Ends(s.Submit("run", "prod/net/a"), work.Failed)
		if j.Failure == nil || j.Failure.Code != "reference_unavailable" {
			t.Errorf("a missing file: %+v", j.Failure)
		}
	})
	t.Run("paths are listed", func(t *testing.T) { listsPaths(t, s, folder, values) })
}

func listsPaths(t *testing.T, s *harness.Server, folder string, values []string) {
	found := s.Try("secret", "paths", "edge", "${file:"+folder+"}", "--stack", "prod")
	if found.Status != 0 || !strings.Contains(found.Out, "REFERENCE\n${file:"+folder+"/token}\n") || slices.ContainsFunc(values, func(v string) bool { return strings.Contains(found.Out+found.Err, v) }) {
		t.Errorf("found: %+v", found)
	}
	var paths []string
	s.JSON(&paths, "secret", "paths", "edge", "${env:THE_}", "--stack", "prod")
	if !slices.Equal(paths, []string{"${env:THE_TOKEN}"}) {
		t.Errorf("variables: %q", paths)
	}
	if got := s.Try("secret", "paths", "edge", "${file:/etc}", "--stack", "prod"); got.Status == 0 || !strings.Contains(got.Err, "policy refuses a reference") {
		t.Errorf("outside of the folders: %+v", got)
	}
}
