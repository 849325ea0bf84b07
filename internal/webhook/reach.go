package webhook

import (
	"context"
	"net/netip"
	"syscall"

	"legwork/internal/fault"
)

// Networks that no call reaches: those in which machines of a cloud find their own credentials, and what is no address of a
// receiver at all. The single ones are the metadata services that lie outside of link-local networks.
var refusedAlways = networks(
	"169.254.0.0/16", "fe80::/10", // link-local
	"fd00:ec2::254/128", "fd20:ce::254/128", "100.100.100.200/32", "168.63.129.16/32",
	"224.0.0.0/4", "ff00::/8", "255.255.255.255/32", // to many
)

// Networks of hosts that the internet does not see.
var private = networks(
	"0.0.0.0/8", "::/128", // this host
	"127.0.0.0/8", "::1/128",
	"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10",
)

// Networks of version 6 whose addresses hold one of version 4, with the byte at which it begins.
var embedding = map[netip.Prefix]int{
	netip.MustParsePrefix("::/96"):          12, // compatible, of old
	netip.MustParsePrefix("64:ff9b::/96"):   12, // NAT64, RFC 6052
	netip.MustParsePrefix("64:ff9b:1::/48"): 12, // NAT64 of a site, RFC 8215, as it is mostly laid out
	netip.MustParsePrefix("2002::/16"):      2,  // 6to4, RFC 3056
}

func networks(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// publicOnly is the key of a call's context under which it says that private addresses are not for it.
type publicOnly struct{}

// refuse looks at the address that a connection is about to be made to, after the look-up of the name, so that no name leads where
// no address may.
func refuse(denyPrivate bool) func(ctx context.Context, network, address string, _ syscall.RawConn) error {
	return func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fault.New(fault.Invalid, "webhook_address", "the webhook's address is not one that can be called")
		}
		if err := check(to.Addr(), denyPrivate); err != nil {
			return err
		}
		if deny, _ := ctx.Value(publicOnly{}).(bool); deny && check(to.Addr(), true) != nil {
			return fault.New(fault.Forbidden, "webhook_address", "a webhook that a Runner registered must not call the private address %s", to.Addr()).
				WithHint("have an owner set another webhook, or clear this one and set it again, which allows it")
		}
		return nil
	}
}

// check refuses an address that must not be called.
func check(a netip.Addr, denyPrivate bool) error {
	for _, one := range meanings(a) {
		if within(one, refusedAlways) {
			return fault.New(fault.Forbidden, "webhook_address", "a webhook must not call the address %s, which is link-local or of a metadata service", one).
				WithHint("give a URL of a host with an address of its own")
		}
		if denyPrivate && within(one, private) {
			return fault.New(fault.Forbidden, "webhook_address", "a webhook must not call the private address %s: the Server's setting webhook_deny_private is on", one).
				WithHint("give a URL that the internet sees, or ask who runs the Server")
		}
	}
	return nil
}

// meanings gives an address, and that of version 4 that it stands for.
func meanings(a netip.Addr) []netip.Addr {
	a = a.Unmap().WithZone("")
	all := []netip.Addr{a}
	if !a.Is6() || a.IsLoopback() || a.IsUnspecified() {
		return all
	}
	bytes := a.As16()
	for network, at := range embedding {
		if network.Contains(a) {
			all = append(all, netip.AddrFrom4([4]byte(bytes[at:at+4])))
		}
	}
	return all
}

func within(a netip.Addr, networks []netip.Prefix) bool {
	for _, n := range networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// Refused tells whether nothing that a user declared may be called at an address: one that is link-local or of a metadata service, and with
// denyPrivate one that the internet does not see. Look at the address of each connection, behind the look-up of the name.
func Refused(a netip.Addr, denyPrivate bool) bool { return check(a, denyPrivate) != nil }
