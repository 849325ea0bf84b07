package webhook

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"legwork/internal/fault"
)

func TestAddresses(t *testing.T) {
	const never, public, private = "never", "public", "private"
	for text, want := range map[string]string{
		"169.254.169.254": never, "169.254.0.1": never, "fe80::1": never, "fe80::1%eth0": never, "::ffff:169.254.169.254": never,
		"64:ff9b::a9fe:a9fe": never, "2002:a9fe:a9fe::1": never, "::169.254.169.254": never, "fd00:ec2::254": never, "100.100.100.200": never,
		"224.0.0.1": never, "ff02::1": never, "255.255.255.255": never, "168.63.129.16": never,
		"127.0.0.1": private, "::1": private, "::ffff:127.0.0.1": private, "0.0.0.0": private, "::": private, "10.1.2.3": private,
		"172.31.0.1": private, "192.168.1.1": private, "100.64.0.1": private, "fd12::1": private, "64:ff9b::0a00:0001": private, "2002:7f00:1::": private,
		"93.184.216.34": public, "2606:4700::1111": public, "172.32.0.1": public, "64:ff9b::5db8:d822": public,
	} {
		a := netip.MustParseAddr(text)
		if got := check(a, false) == nil; got != (want != never) {
			t.Errorf("%s is let through: %v", text, got)
		}
		if got := check(a, true) == nil; got != (want == public) {
			t.Errorf("%s is let through where private ones are not: %v", text, got)
		}
	}
}

func TestRefusedBeforeTheFirstByte(t *testing.T) {
	called := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer s.Close()
	for url, o := range map[string]Options{s.URL: {DenyPrivate: true}, "http://169.254.169.254/latest/meta-data": {}, "http://[fe80::1]/": {}} {
		_, err := New(o).Send(context.Background(), Call{URL: url, ID: "m1", Secrets: []string{NewSecret()}})
		if !fault.Is(err, fault.Forbidden) || fault.Of(err).Code != "webhook_address" {
			t.Errorf("%s: %v", url, err)
		}
	}
	if called {
		t.Error("the receiver was called")
	}
	if _, err := New(Options{}).Send(context.Background(), Call{URL: s.URL, ID: "m1", Secrets: []string{NewSecret()}}); err != nil || !called {
		t.Errorf("loopback, allowed: %v", err)
	}
}
