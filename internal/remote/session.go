package remote

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	outputGrace = time.Second      // for output of processes that outlive the command and hold its pipes
	outputMost  = 30 * time.Second // the same, when they print on and on
)

// session is one remote shell and what is known of the program that it reads.
type session struct {
	channel ssh.Channel
	out     *frames
	err     *frames
	ended   chan struct{} // closed when nothing further is to come
	spoke   chan struct{} // closed with the first report of the program
	moved   atomic.Int64  // time of the last output, in nanoseconds of Unix time
	writing atomic.Int32  // streams whose writer is at work

	mu     sync.Mutex
	pid    int
	begun  bool
	fault  string
	output strings.Builder
	exit   int // by the program's last report, -1 before it
	status *exitStatus
}

// exitStatus is what the SSH server said (RFC 4254, section 6.10).
type exitStatus struct {
	code   int
	signal string
}

// newSession starts commandLine in a session channel and reads its output; close frees the channel.
func newSession(channel ssh.Channel, requests <-chan *ssh.Request, nonce string, stdout, stderr io.Writer) *session {
	s := &session{channel: channel, ended: make(chan struct{}), spoke: make(chan struct{}), exit: -1}
	s.out = newFrames(nonce, stdout, s.report)
	s.out.single = true
	s.err = newFrames(nonce, stderr, s.report)
	s.moved.Store(time.Now().UnixNano())
	known, gone, drained := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go s.listen(requests, known, gone)
	go s.wait(known, gone, drained)
	var pumps sync.WaitGroup
	pumps.Go(func() { s.pump(channel, s.out) })
	pumps.Go(func() { s.pump(channel.Stderr(), s.err) })
	go func() { pumps.Wait(); close(drained) }()
	return s
}

func (s *session) pump(from io.Reader, to *frames) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			s.writing.Add(1)
			to.write(buffer[:n])
			s.moved.Store(time.Now().UnixNano())
			s.writing.Add(-1)
		}
		if err != nil {
			to.end()
			return
		}
	}
}

// listen hears how the shell ended.
func (s *session) listen(requests <-chan *ssh.Request, known, gone chan<- struct{}) {
	defer close(gone)
	for request := range requests {
		status := readStatus(request)
		if request.WantReply {
			_ = request.Reply(false, nil)
		}
		if status == nil {
			continue
		}
		s.mu.Lock()
		first := s.status == nil
		s.status = status
		s.mu.Unlock()
		if first {
			close(known)
		}
	}
}

func readStatus(request *ssh.Request) *exitStatus {
	switch request.Type {
	case "exit-status":
		var body struct{ Code uint32 }
		if ssh.Unmarshal(request.Payload, &body) == nil {
			return &exitStatus{code: int(body.Code & 0xff)}
		}
	case "exit-signal":
		var body struct {
			Name    string
			Core    bool
			Message string
			Lang    string
		}
		if ssh.Unmarshal(request.Payload, &body) == nil {
			return &exitStatus{code: 128 + signalNumbers[body.Name], signal: body.Name}
		}
	}
	return nil
}

// wait closes ended once the end is known and the output is there. Processes that were left behind may hold the pipes open:
// they are not waited for.
func (s *session) wait(known, gone, drained <-chan struct{}) {
	defer close(s.ended)
	select {
	case <-known:
	case <-gone:
	}
	last := time.After(outputMost)
	ticker := time.NewTicker(outputGrace / 4)
	defer ticker.Stop()
	from := time.Now()
	for {
		select {
		case <-drained:
			return
		case <-last:
			return
		case <-ticker.C:
			quiet := time.Since(time.Unix(0, max(s.moved.Load(), from.UnixNano())))
			if s.writing.Load() == 0 && quiet > outputGrace {
				return
			}
		}
	}
}

// report takes a report of the program.
func (s *session) report(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "begin":
	case "pid":
		s.pid, _ = strconv.Atoi(rest)
		s.begun = true
	case "fault":
		s.fault = rest
	case "out":
		s.output.WriteString(rest + "\n")
	case "exit":
		if code, err := strconv.Atoi(rest); err == nil {
			s.exit = code
		}
	}
	if kind == "begin" || s.pid == 0 {
		return
	}
	select {
	case <-s.spoke:
	default:
		close(s.spoke)
	}
}

// start executes a command line in the channel. Nothing has begun when it fails.
func (s *session) start(ctx context.Context, commandLine string) error {
	done := make(chan error, 1)
	go func() {
		ok, err := s.channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{commandLine}))
		if err == nil && !ok {
			err = errExecRefused
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errExecRefused = errors.New("the server executes no commands for this user")

// result gives how the command ended. known is false when nobody said so.
func (s *session) result() (r Result, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.RemotePid = s.pid
	switch {
	case s.exit >= 0:
		r.ExitCode, r.Signal = s.exit, signalName(s.exit)
	case s.status != nil:
		r.ExitCode, r.Signal = s.status.code, s.status.signal
		if r.Signal == "" {
			r.Signal = signalName(r.ExitCode)
		}
	default:
		return r, false
	}
	return r, true
}

// signalNumbers are the signals of RFC 4254 by the numbers that all systems share.
var signalNumbers = map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "SEGV": 11, "PIPE": 13, "ALRM": 14, "TERM": 15}

// signalName reads an exit code as shells write it: 128 + number.
func signalName(code int) string {
	for name, number := range signalNumbers {
		if code == 128+number {
			return name
		}
	}
	return ""
}
