package nodes

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/work"
)

const (
	defaultInterval = 2 * time.Second
	defaultWait     = 10 * time.Minute // of a wait without any timeout
	askTimeout      = 10 * time.Second // of one question
)

// await asks until something answers as it should.
func (p *pair) await(ctx context.Context, w *catalog.WaitStep) outcome {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, defaultWait, errTimeout)
		defer cancel()
	}
	ask, err := p.question(w)
	if err != nil {
		return p.failed(err)
	}
	interval := time.Duration(w.Interval)
	if interval <= 0 {
		interval = defaultInterval
	}
	began := time.Now()
	for {
		why := ask(ctx)
		if why == "" {
			return outcome{status: work.NodeSucceeded}
		}
		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if context.Cause(ctx) != errTimeout { //nolint:errorlint // it is this very one
				return outcome{status: work.NodeCanceled, exit: -1}
			}
			return outcome{status: work.NodeFailed, exit: -1, failure: &work.Failure{
				Code: "wait_timeout", Message: fmt.Sprintf("timed out after %s: %s", time.Since(began).Round(time.Second), why),
				Hint: "raise the timeout of the step, or see why nothing answers",
			}}
		}
	}
}

// question gives what is asked: it returns "", or why the answer is not what is waited for.
func (p *pair) question(w *catalog.WaitStep) (func(context.Context) string, error) {
	switch {
	case w.Port != 0:
		address := net.JoinHostPort(p.host(), strconv.Itoa(w.Port))
		return func(ctx context.Context) string { return askPort(ctx, address) }, nil
	case w.URL != "":
		url, err := p.view().ExpandURL(w.URL)
		return func(ctx context.Context) string { return askURL(ctx, url, w.Status) }, err
	}
	c, err := p.command(w.Command)
	c.Stdout, c.Stderr = io.Discard, io.Discard
	return func(ctx context.Context) string { return p.askCommand(ctx, c) }, err
}

// host is whose port is asked: the Node's, or this host's.
func (p *pair) host() string {
	if p.node == once {
		return "localhost"
	}
	return p.round.file.Run.Nodes[p.node].Host()
}

func askPort(ctx context.Context, address string) string {
	dialer := net.Dialer{Timeout: askTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err.Error()
	}
	_ = conn.Close()
	return ""
}

// asker asks what a step names and nothing else: it goes through no proxy of the Runner's, and follows no redirect, which is an answer like any other.
var asker = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, TLSHandshakeTimeout: askTimeout, ResponseHeaderTimeout: askTimeout},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func askURL(ctx context.Context, url string, status int) string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "the URL cannot be asked"
	}
	answer, err := asker.Do(request)
	if err != nil {
		return err.Error()
	}
	_ = answer.Body.Close()
	if status == 0 && answer.StatusCode < 400 || answer.StatusCode == status {
		return ""
	}
	return "the answer is " + answer.Status
}

func (p *pair) askCommand(ctx context.Context, c Command) string {
	result, err := p.target().Run(ctx, c)
	switch {
	case err != nil:
		return p.failed(err).failure.Message
	case result.ExitCode != 0:
		return fmt.Sprintf("the command still exits with status %d", result.ExitCode)
	}
	return ""
}
