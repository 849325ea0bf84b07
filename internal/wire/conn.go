package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// The pace of a connection. The Runner's end pings, the Server's end answers; each end gives the
// other up when it has heard nothing for DeadAfter.
const (
	PingEvery = 10 * time.Second
	DeadAfter = 25 * time.Second
)

// tuning is the pace and the bounds of a Conn; tests make them small.
type tuning struct {
	pingEvery  time.Duration
	deadAfter  time.Duration
	closeGrace time.Duration // for what is queued and the close frame
	queueBytes int           // more than this not yet written: the peer is too slow
	roomBytes  int           // SendWait waits while more than this is queued
	frameBytes int           // small messages are joined into frames of about this size
}

func defaultTuning() tuning {
	return tuning{
		pingEvery: PingEvery, deadAfter: DeadAfter, closeGrace: 2 * time.Second,
		queueBytes: 32 << 20, roomBytes: 1 << 20, frameBytes: 64 << 10,
	}
}

// Conn is one end of a Session. Send, SendWait and Close may be called by anybody at any time;
// Receive by one goroutine. It must be closed.
type Conn struct {
	ws     *websocket.Conn
	line   net.Conn // below ws and TLS
	tune   tuning
	client bool
	born   time.Time
	heard  atomic.Int64 // of the peer, after born
	alive  *time.Timer

	in      []byte // what is left of the frame being read
	goodbye string // the peer's last word
	admit   Admit  // called before more than smallHello is read; may be nil

	mu      sync.Mutex
	frames  [][]byte
	queued  int           // bytes in frames and in the write under way
	room    chan struct{} // closed when queued has fallen; nil when nobody waits
	failure *CloseError   // why this end closes; set once
	late    *time.Timer   // breaks the connection when closing takes long
	writing bool          // there is a writer, or there was the last one
	done    chan struct{} // closed when the last writer has ended
}

func newConn(ws *websocket.Conn, line net.Conn, client bool, tune tuning) *Conn {
	if secured, ok := line.(*tls.Conn); ok {
		line = secured.NetConn()
	}
	c := &Conn{
		ws: ws, line: line, tune: tune, client: client, born: time.Now(),
		done: make(chan struct{}),
	}
	ws.SetReadLimit(MaxFrame)
	c.mu.Lock()
	c.alive = time.AfterFunc(tune.pingEvery, c.checkAlive)
	c.mu.Unlock()
	return c
}

func (c *Conn) touch() { c.heard.Store(int64(time.Since(c.born))) }

// checkAlive runs every pingEvery in a goroutine of the timer's.
func (c *Conn) checkAlive() {
	if time.Since(c.born)-time.Duration(c.heard.Load()) > c.tune.deadAfter {
		c.settle(&CloseError{Code: CloseSilent})
		_ = c.ws.CloseNow() // a close frame would not arrive
		c.wakeWriter()
		return
	}
	c.mu.Lock()
	if c.failure == nil {
		c.alive.Reset(c.tune.pingEvery)
	}
	c.mu.Unlock()
	if !c.client {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.tune.pingEvery)
	defer cancel()
	_ = c.ws.Ping(ctx) // its pong is what counts
}

// Send queues a message and returns at once. It fails when the connection is closed, when the
// message is larger than a frame (fault.TooLarge), and when so much is queued that the peer must
// be given up: then the connection is closed with CloseSlow.
func (c *Conn) Send(m Message) error {
	data, err := appendMessage(nil, m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.failure == nil && c.queued > 0 && c.queued+len(data) > c.tune.queueBytes {
		c.mu.Unlock()
		return c.fail(&CloseError{Code: CloseSlow})
	}
	defer c.mu.Unlock()
	return c.push(data)
}

// SendWait queues a message once little enough is queued before it: the way of senders who have much.
func (c *Conn) SendWait(ctx context.Context, m Message) error {
	data, err := appendMessage(nil, m)
	if err != nil {
		return err
	}
	for {
		c.mu.Lock()
		if c.queued <= c.tune.roomBytes || c.failure != nil {
			defer c.mu.Unlock()
			return c.push(data)
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// push appends an encoded message to the queue. The caller holds mu.
func (c *Conn) push(data []byte) error {
	if c.failure != nil {
		return c.failure
	}
	if last := len(c.frames) - 1; last >= 0 && len(c.frames[last])+len(data) <= c.tune.frameBytes {
		c.frames[last] = append(c.frames[last], data...)
	} else {
		c.frames = append(c.frames, data)
	}
	c.queued += len(data)
	c.startWriter()
	return nil
}

// wakeWriter has what is queued written, or the connection closed. The caller does not hold mu.
func (c *Conn) wakeWriter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startWriter()
}

// startWriter sees to it that there is a writer. An idle connection has none: of the memory that one takes, the stack of a
// second goroutine would be a large part. The caller holds mu.
func (c *Conn) startWriter() {
	if !c.writing {
		c.writing = true
		go c.write()
	}
}

// write is the one writer. It ends when nothing is left to write, and for the last time when the connection is closed.
func (c *Conn) write() {
	frame, closing := c.take()
	for ; frame != nil; frame, closing = c.take() {
		err := c.ws.Write(context.Background(), websocket.MessageBinary, frame)
		c.wrote(len(frame))
		if err != nil {
			c.lost(err)
			c.wrapUp()
			return
		}
	}
	if closing != nil {
		_ = c.ws.Close(websocket.StatusCode(closing.Code), cut(closing.Error(), 120))
		c.wrapUp()
	}
}

// wrapUp is the end of the last writer.
func (c *Conn) wrapUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != nil {
		c.late.Stop()
	}
	close(c.done)
}

// take gives the writer the next frame. Without one its work is over, unless the connection is to be closed: then it gives why.
func (c *Conn) take() (frame []byte, closing *CloseError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.frames) == 0 {
		c.frames = nil
		c.writing = c.failure != nil
		return nil, c.failure
	}
	frame = c.frames[0]
	c.frames[0] = nil
	c.frames = c.frames[1:]
	return frame, nil
}

func (c *Conn) wrote(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued -= n
	if c.room != nil && c.queued <= c.tune.roomBytes {
		close(c.room)
		c.room = nil
	}
}

func (c *Conn) failed() *CloseError {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// lost ends a connection that broke: there is nobody left to tell.
func (c *Conn) lost(err error) {
	c.settle(&CloseError{Code: CloseNormal, Reason: fmt.Sprintf("the connection broke: %v", err)})
	_ = c.ws.CloseNow()
}

// settle notes why the connection is closed, unless that is known. It tells whether it was the first.
func (c *Conn) settle(why *CloseError) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return false
	}
	c.failure = why
	c.alive.Stop()
	return true
}

// fail has the writer close the connection after what is queued, and breaks it when that takes long.
func (c *Conn) fail(why *CloseError) *CloseError {
	if !c.settle(why) {
		return c.failed()
	}
	c.mu.Lock()
	select {
	case <-c.done:
	default:
		// The library waits twice 5 s for a peer that does not answer, and nothing but this breaks that off.
		c.late = time.AfterFunc(c.tune.closeGrace, func() { _ = c.line.Close() })
	}
	c.mu.Unlock()
	c.wakeWriter()
	return why
}

// Close sends what is queued and then a close frame with the reason, which the peer's Receive
// returns as a CloseError. A reason longer than a close frame may carry goes ahead in a Goodbye.
// It returns when the connection is closed, within two seconds. Closing twice is harmless.
func (c *Conn) Close(code CloseCode, reason string) {
	if len(reason) > 120 {
		_ = c.Send(&Goodbye{Reason: reason})
	}
	c.fail(&CloseError{Code: code, Reason: reason})
	<-c.done
}

// Receive returns the next message. Unknown ones are passed over. The error is a *CloseError
// when either end closed the connection with a code; a canceled ctx breaks the connection.
func (c *Conn) Receive(ctx context.Context) (Message, error) {
	for {
		m, err := c.receive(ctx)
		if err != nil {
			return nil, c.ended(ctx, err)
		}
		if bye, ok := m.(*Goodbye); ok {
			c.goodbye = bye.Reason
		}
		if m != nil {
			return m, nil
		}
	}
}

// Admit waits until a large frame may be read. The frame is in memory until release is called.
type Admit func(ctx context.Context) (release func(), err error)

// ReceiveHello returns the first message of a peer. Until then a frame has at most MaxHello bytes, and admit is called
// before a large one is read. Afterwards frames may have MaxFrame bytes.
func (c *Conn) ReceiveHello(ctx context.Context, admit Admit) (Message, error) {
	c.admit = admit
	c.ws.SetReadLimit(MaxHello)
	m, err := c.Receive(ctx)
	c.admit = nil
	c.ws.SetReadLimit(MaxFrame)
	return m, err
}

func (c *Conn) receive(ctx context.Context) (m Message, err error) {
	if len(c.in) == 0 {
		if c.in, err = c.readFrame(ctx); err != nil {
			return nil, err
		}
	}
	m, c.in, err = nextMessage(c.in)
	if len(c.in) == 0 {
		c.in = nil
	}
	return m, err
}

// buffers hold frames while they are read. What is decoded out of a frame is copied by CBOR, but
// a frame of several messages stays until the last is taken, so it leaves the buffer as a copy.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (c *Conn) readFrame(ctx context.Context) ([]byte, error) {
	kind, reader, err := c.ws.Reader(ctx)
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageBinary {
		return nil, &CloseError{Code: CloseProtocol, Reason: "a frame is text, and all frames are binary"}
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= 1<<20 {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	c.touch()
	frame := touching{reader, c}
	if c.admit != nil {
		release, err := c.admitFrame(ctx, buf, frame)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if _, err := buf.ReadFrom(frame); err != nil {
		return nil, err
	}
	return bytes.Clone(buf.Bytes()), nil
}

// admitFrame reads the part of a frame that needs no permission, and waits for permission to read more.
func (c *Conn) admitFrame(ctx context.Context, buf *bytes.Buffer, frame io.Reader) (release func(), err error) {
	read, err := buf.ReadFrom(io.LimitReader(frame, smallHello))
	if err != nil || read < smallHello {
		return func() {}, err
	}
	return c.admit(ctx)
}

// touching notes every piece that arrives: a large frame on a slow line is a sign of life.
type touching struct {
	io.Reader
	c *Conn
}

func (t touching) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.c.touch()
	return n, err
}

// ended turns an error of reading into what the caller shall know, and closes this end.
func (c *Conn) ended(ctx context.Context, err error) error {
	if failure := c.failed(); failure != nil {
		return failure
	}
	var own *CloseError
	var theirs websocket.CloseError
	switch {
	case errors.As(err, &own):
		return c.fail(own)
	case errors.As(err, &theirs):
		closed := &CloseError{Code: CloseCode(theirs.Code), Reason: theirs.Reason}
		if c.goodbye != "" {
			closed.Reason = c.goodbye
		}
		c.settle(closed)
		c.wakeWriter()
		return closed
	case errors.Is(err, websocket.ErrMessageTooBig):
		return c.fail(&CloseError{Code: CloseTooBig})
	case ctx.Err() != nil:
		c.lost(context.Cause(ctx))
		c.wakeWriter()
		return ctx.Err()
	}
	c.lost(err)
	c.wakeWriter()
	return fmt.Errorf("connection lost: %w", err)
}

// cut shortens text to at most limit bytes without breaking a character.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
