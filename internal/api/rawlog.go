package api

import (
	"context"
	"errors"
	"io"
	"net/http"

	"legwork/internal/fault"
)

// RawLog writes the log of a Job to w as it was printed, as far as it is stored. A connection that breaks is an
// error: what was written then is not the whole. At most one LogQuery narrows it.
func (c *Client) RawLog(ctx context.Context, id string, w io.Writer, of ...LogQuery) error {
	resp, err := c.send(ctx, http.MethodGet, jobPath(id)+"/logs", values(of), http.Header{"Accept": {plainType}}, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	source := &sourceErr{r: resp.Body}
	if _, err = io.CopyBuffer(onlyWriter{w}, source, make([]byte, 256<<10)); err == nil {
		return nil
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case source.err == nil || errors.Is(source.err, io.EOF):
		return err // of w
	}
	return fault.New(fault.Unavailable, "server_unreachable", "the connection to the Server at %s broke before the whole log was there", c.base).
		WithHint("try again; the Server's own log tells more").WithCause(err)
}

// onlyWriter keeps io.Copy from reading in ways that hide where an error comes from.
type onlyWriter struct{ io.Writer }

// sourceErr remembers the error of a reader.
type sourceErr struct {
	r   io.Reader
	err error
}

// Read reads on.
func (s *sourceErr) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.err = err
	return n, err
}
