package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"legwork/internal/fault"
)

const (
	// DefaultTimeout is how long one call takes at most, from the look-up of the name to the end of the answer.
	DefaultTimeout = 10 * time.Second
	// DefaultAtOnce is how many calls are under way at most.
	DefaultAtOnce = 32

	answerMost = 64 << 10 // bytes of an answer that are read
	headerMost = 16 << 10
)

// Options are how a Sender calls. Zero fields take the defaults.
type Options struct {
	Timeout     time.Duration
	AtOnce      int
	DenyPrivate bool           // loopback and private networks are refused, too
	Roots       *x509.CertPool // nil: those of the host
	Agent       string         // of the header User-Agent; default legwork
}

// Sender makes calls. It is safe for concurrent use, and keeps no connection.
type Sender struct {
	client  *http.Client
	timeout time.Duration
	agent   string
	places  chan struct{}
}

// New makes a Sender. It goes through no proxy, for that would do the look-up of names in its place.
func New(o Options) *Sender {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.AtOnce <= 0 {
		o.AtOnce = DefaultAtOnce
	}
	if o.Agent == "" {
		o.Agent = "legwork"
	}
	transport := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: o.Timeout, ControlContext: refuse(o.DenyPrivate)}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
		DisableKeepAlives:      true, // calls are rare, and each has its address looked at
		DisableCompression:     true, // so that little can not become much
		MaxResponseHeaderBytes: headerMost,
	}
	return &Sender{
		timeout: o.Timeout, agent: o.Agent, places: make(chan struct{}, o.AtOnce),
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// Free is how many more calls may be made right now.
func (s *Sender) Free() int { return cap(s.places) - len(s.places) }

// Timeout is how long one call takes at most.
func (s *Sender) Timeout() time.Duration { return s.timeout }

// Call is one try of an event. Its URL may hold a secret and is in no error.
type Call struct {
	URL     string
	ID      string // the same for every try
	Body    []byte // JSON
	Secrets []string

	DenyPrivate bool // as in Options, for this call
}

// Send makes a call and gives the status of the answer, 0 when there was none. Any status but 2xx is an error: a fault.Failed, or
// fault.Unavailable when there was no answer. It waits for a place while too many others are under way.
func (s *Sender) Send(ctx context.Context, c Call) (status int, err error) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return 0, explain(ctx, ctx.Err())
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, publicOnly{}, c.DenyPrivate), s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(c.Body))
	if err != nil {
		return 0, fault.New(fault.Invalid, "webhook_url", "the URL of the webhook cannot be called") // without the cause, which repeats it
	}
	if req.Header, err = Sign(c.ID, time.Now(), c.Body, c.Secrets...); err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.agent)
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, explain(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode, refused(resp.StatusCode)
	}
	// The status is the answer; what follows is taken in so that the receiver can end in good order.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerMost))
	return resp.StatusCode, nil
}

// refused is the error of an answer that is no success.
func refused(status int) error {
	f := fault.New(fault.Failed, "webhook_refused", "the receiver answered %d %s", status, http.StatusText(status))
	if status/100 == 3 {
		f = f.WithHint("redirects are not followed: set the webhook to where it shall go")
	}
	return f
}

// explain says why there was no answer, without the URL.
func explain(ctx context.Context, err error) error {
	var known *fault.Fault
	if errors.As(err, &known) {
		return known
	}
	say := func(text string) error {
		return fault.New(fault.Unavailable, "webhook_unanswered", "%s", text).WithCause(err)
	}
	var lookup *net.DNSError
	var unknown x509.UnknownAuthorityError
	var other x509.HostnameError
	var invalid x509.CertificateInvalidError
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return say("the Server stopped before there was an answer")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return say("there was no answer in time")
	case errors.As(err, &lookup):
		return say("the name of the receiver's host cannot be looked up")
	case errors.Is(err, syscall.ECONNREFUSED):
		return say("nothing listens at the receiver's address")
	case errors.As(err, &unknown), errors.As(err, &other), errors.As(err, &invalid):
		return say("the receiver's certificate is not trusted, or is of another host")
	}
	return say("the receiver cannot be reached, or broke the connection")
}
