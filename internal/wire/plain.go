package wire

import (
	"net/netip"
	"net/url"
	"strings"
)

// ExposesPlainHTTP reports whether a URL leads by http, without TLS, to another host than this one: whoever is on the way
// reads and changes what is sent.
func ExposesPlainHTTP(rawURL string) bool {
	u, err := url.Parse(rawURL)
	return err == nil && strings.EqualFold(u.Scheme, "http") && !LoopbackHost(u.Hostname())
}

// LoopbackHost reports whether a host name or address is that of this host itself.
func LoopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
