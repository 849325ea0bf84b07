package wire

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWordsBeforeTheAnswer sends messages in one piece with the request, of more bytes than an idle connection's buffer holds:
// what the HTTP server had read already is not lost.
func TestWordsBeforeTheAnswer(t *testing.T) {
	accepted := make(chan *Conn, 1)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := accept(w, r, defaultTuning())
		if err != nil {
			t.Errorf("accept: %v", err)
		}
		accepted <- c
	}))
	defer hub.Close()
	line, err := net.Dial("tcp", strings.TrimPrefix(hub.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	said := &Notice{Text: strings.Repeat("early ", lineBuffer/3)}
	body, err := appendMessage(nil, said)
	if err != nil {
		t.Fatal(err)
	}
	out := bytes.NewBufferString("GET /runnerhub HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	out.Write([]byte{0x82, 0x80 | 126, byte(len(body) >> 8), byte(len(body)), 0, 0, 0, 0}) // one binary frame, masked with zeros (RFC 6455, 5.2)
	out.Write(body)
	if _, err := line.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	c := <-accepted
	defer c.Close(CloseNormal, "")
	m, err := c.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := m.(*Notice); !ok || got.Text != said.Text {
		t.Fatalf("%T of other content", m)
	}
	line.Close()
}
