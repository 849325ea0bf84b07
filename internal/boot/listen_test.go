package boot

import (
	"net"
	"strings"
	"testing"

	"legwork/internal/fault"
)

// TestListenSaysWhy: an address in use and one of another host are told apart.
func TestListenSaysWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		taken.Addr().String(): "listens there already",
		"192.0.2.1:8440":      "no address of this host", // TEST-NET-1
	} {
		s := server{settings: ServerSettings{Listen: address}}
		if _, _, err := s.listen(); fault.Code(err) != "listen" || !strings.Contains(fault.Of(err).Hint, want) {
			t.Errorf("%s: %v: %s", address, err, fault.Of(err).Hint)
		}
	}
}
