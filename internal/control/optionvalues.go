package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/runbook"
	"legwork/internal/store"
	"legwork/internal/webhook"
)

// Limits of an answer that the values of an Option come from.
const (
	offerTimeout  = 5 * time.Second
	offerBytes    = 1 << 20
	offerAtOnce   = 16 // questions of this Server
	offerMost     = catalog.MaxOptionValues
	offerTextMost = 8 << 10 // bytes of one value
)

// asking holds a place for each question that is under way: what is slow elsewhere does not fill this Server.
var asking = make(chan struct{}, offerAtOnce)

// OfferedValue is a value that an Option offers.
type OfferedValue struct {
	Name  string `json:"name"` // that people are shown
	Value string `json:"value"`
}

// OptionValues gives the values that an Option of a Runbook, by id or path, offers: those that are declared, or those of its URL, which
// this Server asks now. given are the values of earlier Options, as they stand on a command line or in JSON; those that are left out have
// their defaults. A URL that gives no list is a fault.Failed "option_values".
func (c *Control) OptionValues(ctx context.Context, actor catalog.Actor, idOrPath, option string, given map[string]any) ([]OfferedValue, error) {
	if err := actor.Need(catalog.Operate); err != nil {
		return nil, err
	}
	b, err := c.Runbook(ctx, actor, idOrPath)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(b.Options, func(o catalog.Option) bool { return o.Name == option })
	if at < 0 {
		return nil, fault.New(fault.NotFound, "option_not_found", "the runbook %s has no option %q", b.Path(), option).WithHint("see: legwork runbook show %s", b.Path())
	}
	if b.Options[at].ValuesFrom == nil {
		values := make([]OfferedValue, len(b.Options[at].Values))
		for i, v := range b.Options[at].Values {
			values[i] = OfferedValue{v, v}
		}
		return values, nil
	}
	return c.offered(ctx, b.Options[:at], b.Options[at], given)
}

// offeredFor asks for the values that the Options of a Runbook offer now, where no other is taken: by the name of the Option. It is done before the
// transaction that needs them.
func (c *Control) offeredFor(ctx context.Context, actor catalog.Actor, r RunRequest) (map[string][]string, error) {
	if r.Inline != nil && len(r.Inline.Options) == 0 {
		return nil, nil
	}
	var options []catalog.Option
	given := r.Options
	err := c.store.View(ctx, func(tx *store.Tx) (err error) {
		if r.RetryOf != "" {
			j, s, err := c.earlier(tx, actor, r.RetryOf)
			if err != nil {
				return err
			}
			r = again(r, j, s)
			given = r.Options
		}
		of, err := c.subjectOf(tx, actor, r)
		options = of.spec.Options
		return err
	})
	if err != nil {
		return nil, err
	}
	offered := map[string][]string{}
	for i, o := range options {
		if o.ValuesFrom == nil || !o.ValuesFrom.Strict || given[o.Name] == nil && o.Default == nil {
			continue
		}
		values, err := c.offered(ctx, options[:i], o, given)
		if err != nil {
			return nil, err
		}
		offered[o.Name] = make([]string, len(values))
		for j, v := range values {
			offered[o.Name][j] = v.Value
		}
	}
	return offered, nil
}

// offering gives Options with the values that were asked for them.
func offering(options []catalog.Option, offered map[string][]string) []catalog.Option {
	if len(offered) == 0 {
		return options
	}
	filled := slices.Clone(options)
	for i, o := range filled {
		if values, ok := offered[o.Name]; ok {
			filled[i].Values = values
		}
	}
	return filled
}

// offered asks the URL of an Option.
func (c *Control) offered(ctx context.Context, earlier []catalog.Option, o catalog.Option, given map[string]any) ([]OfferedValue, error) {
	known, err := knownOf(earlier, given)
	if err != nil {
		return nil, err
	}
	at, err := runbook.ValuesURL(o, known)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	select {
	case asking <- struct{}{}:
		defer func() { <-asking }()
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "option_values", "too many options are asked for their values at this moment").WithHint("try again")
	}
	text, err := c.askOffer(ctx, o.Name, at)
	if err != nil {
		return nil, err
	}
	return readOffer(o.Name, text)
}

// knownOf gives the values that Options have so far, but for secrets: a URL is no place for these.
func knownOf(options []catalog.Option, given map[string]any) (map[string]any, error) {
	var plain []catalog.Option
	of := map[string]any{}
	for _, o := range options {
		if o.Type == catalog.SecretOption || o.Type == catalog.FileOption {
			continue
		}
		o.Required = false // what the URL does not name may come later
		if o.ValuesFrom != nil {
			o.ValuesFrom = &catalog.ValuesFrom{URL: o.ValuesFrom.URL}
		}
		plain = append(plain, o)
		if value, ok := given[o.Name]; ok {
			of[o.Name] = value
		}
	}
	v, err := runbook.Resolve(plain, of)
	return v.Plain, err
}

// askOffer gets what stands at a URL. It follows no redirect, goes through no proxy, and no name leads it to a link-local address.
func (c *Control) askOffer(ctx context.Context, option, at string) ([]byte, error) {
	denyPrivate := c.hooks.DenyPrivate()
	dialer := &net.Dialer{Timeout: offerTimeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || webhook.Refused(to.Addr(), denyPrivate) {
			return errOfferAddress
		}
		return nil
	}}
	client := &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, noOffer(option, at, "it makes no URL")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "legwork")
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, errOfferAddress):
		return nil, noOffer(option, at, "its host has an address that the Server does not call")
	case ctx.Err() != nil:
		return nil, noOffer(option, at, "it did not answer within "+offerTimeout.String())
	case err != nil:
		return nil, noOffer(option, at, "it cannot be reached").WithCause(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return nil, noOffer(option, at, "it answers with a redirect, which is not followed")
	}
	if resp.StatusCode != http.StatusOK {
		return nil, noOffer(option, at, "it answers "+http.StatusText(resp.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, offerBytes+1))
	switch {
	case err != nil:
		return nil, noOffer(option, at, "its answer broke off").WithCause(err)
	case len(text) > offerBytes:
		return nil, noOffer(option, at, "its answer has more than 1 MiB")
	}
	return text, nil
}

var errOfferAddress = errors.New("an address that is not called")

// noOffer says why there are no values. Of the URL it names the host alone: the rest may hold what is not for everybody.
func noOffer(option, at, why string) *fault.Fault {
	host := "the URL"
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		host = u.Host
	}
	return fault.New(fault.Failed, "option_values", "the values of the option %s cannot be had from %s: %s", option, host, why).
		WithHint("the URL of values_from has to give a JSON list of texts, or of {\"name\": ..., \"value\": ...}")
}

// readOffer reads a JSON list of texts, or of names with values.
func readOffer(option string, text []byte) ([]OfferedValue, error) {
	wrong := func(why string) error {
		return fault.New(fault.Failed, "option_values", "what the values of the option %s come from gives no list of values: %s", option, why).
			WithHint("it has to be a JSON list of texts, or of {\"name\": ..., \"value\": ...}")
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, wrong("it is no JSON list")
	}
	if len(list) > offerMost {
		return nil, wrong("it has too many of them")
	}
	values := make([]OfferedValue, len(list))
	for i, element := range list {
		v := &values[i]
		if bytes.HasPrefix(bytes.TrimSpace(element), []byte("{")) {
			if err := json.Unmarshal(element, v); err != nil {
				return nil, wrong("one of them has no text as its value")
			}
			v.Name = cmp.Or(v.Name, v.Value)
		} else if err := json.Unmarshal(element, &v.Value); err != nil || string(element) == "null" {
			return nil, wrong("one of them is no text")
		} else {
			v.Name = v.Value
		}
		if len(v.Value) > offerTextMost || len(v.Name) > offerTextMost {
			return nil, wrong("one of them is too long")
		}
	}
	return values, nil
}
