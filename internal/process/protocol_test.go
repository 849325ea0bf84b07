//go:build linux

package process

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"legwork/internal/fault"
)

func TestCommonProtocol(t *testing.T) {
	if speak, err := commonProtocol(protocolMin, 1, 99); err != nil || speak != protocolMax {
		t.Fatalf("a newer peer: %d, %v", speak, err)
	}
	if _, err := commonProtocol(protocolMin, protocolMax+1, 99); !fault.Is(err, fault.Unsupported) {
		t.Fatalf("a peer that is too new: %v", err)
	}
	if _, err := commonProtocol(protocolMin, 0, protocolMin-1); !fault.Is(err, fault.Unsupported) {
		t.Fatalf("a peer that is too old: %v", err)
	}
	if speak, err := commonProtocol(protocolMin, 1, 2); err != nil || speak != 2 {
		t.Errorf("a runner with a keeper of the release before: got protocol %d and error %v, want 2 and none", speak, err)
	}
}

func TestFaultsTravel(t *testing.T) {
	sent := fault.New(fault.Conflict, "some_code", "100%% wrong").WithHint("do %s", "this").
		WithDetails(fault.Problem{Field: "id", Message: "bad"}).WithCause(errors.New("private"))
	got := toFaultBody(sent).asError()
	f := fault.Of(got)
	if !fault.Is(got, fault.Conflict) || f.Code != "some_code" || f.Message != "100% wrong" || f.Hint != "do this" || len(f.Details) != 1 {
		t.Fatalf("got %+v", f)
	}
	if got := toFaultBody(errors.New("why")).asError(); got == nil || got.Error() != "keeper: why" {
		t.Fatalf("got %v", got)
	}
	if got := toFaultBody(nil).asError(); got != nil {
		t.Fatalf("got %v", got)
	}
}

// rawPeer speaks to a keeper byte by byte.
type rawPeer struct {
	*bench
	conn net.Conn
	in   *bufio.Reader
}

func newRawPeer(b *bench) *rawPeer {
	b.Helper()
	short, done, err := socketDir(b.keeper)
	if err != nil {
		b.Fatal(err)
	}
	defer done()
	conn, err := net.Dial("unix", filepath.Join(short, socketName))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &rawPeer{bench: b, conn: conn, in: bufio.NewReader(conn)}
}

func (p *rawPeer) say(message any) {
	p.Helper()
	text, err := encoding.Marshal(message)
	if err != nil {
		p.Fatal(err)
	}
	if _, err := p.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)); err != nil {
		p.Fatal(err)
	}
}

func (p *rawPeer) answer() frame {
	p.Helper()
	for {
		f, err := readFrame(p.in)
		if err != nil {
			p.Fatal(err)
		}
		if f.Op != opSpools {
			return f
		}
	}
}

// TestRunnerWithoutKey checks what a runner of a release before the key hears from a keeper.
func TestRunnerWithoutKey(t *testing.T) {
	p := newRawPeer(newBench(t))
	p.say(map[any]any{2: opHello, 3: map[string]any{"min": 1, "max": 2, "version": "1"}})
	err := p.answer().Fault.asError()
	if got, want := fault.Code(err), "keeper_protocol"; got != want {
		t.Errorf("code of the fault: got %q, want %q", got, want)
	}
	if got, want := fault.Of(err).Hint, "start the release that started the commands again until they have ended"; !strings.Contains(got, want) {
		t.Errorf("hint: got %q, want one with %q", got, want)
	}
}

// A newer Runner sends fields and operations that this keeper does not know.
func TestNewerRunner(t *testing.T) {
	b := newBench(t)
	p := newRawPeer(b)
	p.say(map[any]any{2: opHello, 77: "new", 3: map[string]any{"min": 1, "max": 9, "version": "9", "key": readKey(b.keeper), "mood": []int{1}}})
	hello := p.answer()
	var mine helloBody
	if err := decodeBody(hello, &mine); err != nil || mine.Speak != protocolMax || mine.Version != "test" {
		t.Fatalf("hello is %+v, %v", mine, err)
	}
	p.say(map[any]any{1: 1, 2: "dance", 3: 5})
	if f := p.answer(); f.Call != 1 || !fault.Is(f.Fault.asError(), fault.Unsupported) {
		t.Fatalf("got %+v", f)
	}
	spec := shellSpec(b.dir, "new", "exit 2")
	p.say(map[any]any{1: 2, 2: opStart, 78: 1, 3: map[string]any{
		"id": spec.ID, "argv": spec.Argv, "env": spec.Env, "dir": spec.Dir, "nice": 10,
		"spool": spec.Spool, "start_file": spec.StartFile, "exit_file": spec.ExitFile,
	}})
	if f := p.answer(); f.Call != 2 || f.Fault != nil {
		t.Fatalf("got %+v", f.Fault)
	}
	if exit := b.wait(spec); exit.Code != 2 {
		t.Fatalf("exit is %+v", exit)
	}
	p.say(map[any]any{1: 3, 2: opStart, 3: "no map"})
	if f := p.answer(); f.Call != 3 || !fault.Is(f.Fault.asError(), fault.Invalid) {
		t.Fatalf("got %+v", f.Fault)
	}
}

// A newer keeper sends events and fields that this Runner does not know.
func TestNewerKeeper(t *testing.T) {
	b := &bench{TB: t, dir: t.TempDir()}
	b.keeper = filepath.Join(b.dir, "keeper")
	if err := privateDir(b.keeper); err != nil {
		t.Fatal(err)
	}
	listener, err := listen(b.keeper)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		p := &rawPeer{bench: b, conn: conn, in: bufio.NewReader(conn)}
		if f := p.answer(); f.Op != opHello {
			t.Errorf("first message is %+v", f)
		}
		p.say(map[any]any{2: opHello, 3: map[string]any{"min": 1, "max": 7, "speak": 1, "version": "test", "pid": 42, "mood": "fine"}})
		call := p.answer().Call
		p.say(map[any]any{2: "weather", 3: map[string]any{"sun": true}})
		p.say(map[any]any{2: opSpools, 3: map[string]any{"spools": []any{map[string]any{"spool": "/x", "next_seq": 5, "colour": 1}}}})
		p.say(map[any]any{1: call, 9: 9, 3: map[string]any{"commands": []any{map[string]any{"id": "a", "load": 3}}}})
	}()
	c := b.connect("test")
	watch := c.Grew("/x")
	defer watch.Stop()
	list, err := c.List(b.ctx())
	if err != nil || len(list) != 1 || list[0].ID != "a" || watch.State().NextSeq != 5 {
		t.Fatalf("list is %+v, %v; state is %+v", list, err, watch.State())
	}
	<-served
}

// A keeper of an earlier version is not given a command whose frames it would take for lines.
func TestFramedNeedsANewKeeper(t *testing.T) {
	there, here := net.Pipe()
	defer there.Close()
	c := &Client{dialing: make(chan struct{}, 1), conn: &clientConn{conn: here, peer: helloBody{Max: 1, Version: "v1"}, gone: make(chan struct{}), calls: map[uint64]chan frame{}}}
	err := c.Start(t.Context(), Spec{ID: "a", Framed: true})
	if !fault.Is(err, fault.Unavailable) || fault.Code(err) != codeTooOld {
		t.Errorf("got %v", err)
	}
}

func TestKeeperEndsBadConnections(t *testing.T) {
	b := newBench(t)
	hello := map[any]any{2: opHello, 3: map[string]any{"min": 1, "max": protocolMax, "key": readKey(b.keeper)}}
	for name, talk := range map[string]func(*rawPeer){
		"no hello":    func(p *rawPeer) { p.say(map[any]any{1: 1, 2: opList}) },
		"no protocol": func(p *rawPeer) { p.say(map[any]any{2: opHello, 3: map[string]any{"min": 50, "max": 60}}); p.answer() },
		"huge": func(p *rawPeer) {
			p.say(hello)
			p.answer()
			_, _ = p.conn.Write(binary.BigEndian.AppendUint32(nil, maxFrameIn+1))
		},
		"noise": func(p *rawPeer) {
			p.say(hello)
			p.answer()
			_, _ = p.conn.Write([]byte("\x00\x00\x00\x04GET "))
		},
	} {
		p := newRawPeer(b)
		talk(p)
		if f, err := readFrame(p.in); err == nil {
			t.Fatalf("%s: got %+v", name, f)
		}
	}
	b.run("alive", "true")
}

// FuzzReadFrame reads messages of any content.
func FuzzReadFrame(f *testing.F) {
	message, err := encodeFrame(7, opStart, Spec{ID: "x", Argv: []string{"a"}, Dir: "/"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message)
	failure, err := encodeFrame(7, opStart, nil, errors.New("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(failure)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := readFrame(bytes.NewReader(in))
		if err != nil {
			return
		}
		_ = got.Fault.asError()
		for _, into := range []any{&Spec{}, &helloBody{}, &stopBody{}, &waitBody{}, &listBody{}, &spoolsBody{}, &Exit{}} {
			_ = decodeBody(got, into)
		}
	})
}
