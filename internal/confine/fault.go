package confine

import "legwork/internal/fault"

func unsupported(why string) error {
	return fault.New(fault.Unsupported, "isolation_unavailable", "programs cannot be kept from the server's data: %s", why).
		WithHint("launch through a runner on another host, or set isolation: none in the server's settings where everybody who may change modules or runbooks may be an owner")
}
