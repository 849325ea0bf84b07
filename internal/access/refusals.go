package access

import (
	"sync/atomic"

	"legwork/internal/fault"
)

// refusals count log ins that were refused since the start of the server, by what was presented.
type refusals struct {
	password, token, clientCredentials, registrationToken atomic.Int64
}

// count counts a refusal if err is one. Failures of the server itself do not count.
func count(n *atomic.Int64, err error) {
	if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.RateLimited) {
		n.Add(1)
	}
}

// RefusedLogins returns how many log ins this server refused since its start, by what was presented: "password", "token",
// "client_credentials" or "registration_token".
func (a *Access) RefusedLogins() map[string]int64 {
	return map[string]int64{
		"password": a.refused.password.Load(), "token": a.refused.token.Load(),
		"client_credentials": a.refused.clientCredentials.Load(), "registration_token": a.refused.registrationToken.Load(),
	}
}
