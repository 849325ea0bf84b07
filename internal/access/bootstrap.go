package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/store"
)

// A bootstrap token lets one process of a hosted Runner, which a launcher starts, register itself once, as the one Instance that it was
// launched as: "lwb_<id of the launch>_<mac>". Nothing of it is stored: any Server makes it again out of the id and the key that signs
// tokens. Who knows the database but not that key cannot.
const bootstrapPrefix = "lwb_"

const macLength = 32 // bytes

// BootstrapToken gives the bootstrap token of a launch, by its id.
func (a *Access) BootstrapToken(launchID string) string {
	return bootstrapPrefix + strings.ReplaceAll(launchID, "-", "") + "_" + hex.EncodeToString(a.bootstrapMAC(launchID))
}

func (a *Access) bootstrapMAC(launchID string) []byte {
	mac := hmac.New(sha256.New, a.signing)
	_, _ = mac.Write([]byte("bootstrap\x00" + launchID)) // never fails
	return mac.Sum(nil)[:macLength]
}

// bootstrapped tells which launch a bootstrap token is for. Whether it was used or is late is told by who registers the process: a request
// that was answered once may be made again.
func (a *Access) bootstrapped(ctx context.Context, token string) (by catalog.Registrar, err error) {
	digits, sum, ok := strings.Cut(strings.TrimPrefix(token, bootstrapPrefix), "_")
	id, err := uuid.Parse(digits)
	given, macErr := hex.DecodeString(sum)
	if !ok || err != nil || macErr != nil || len(digits) != 32 || subtle.ConstantTimeCompare(given, a.bootstrapMAC(id.String())) != 1 {
		return by, catalog.RegistrationRefused()
	}
	var l store.Launch
	err = a.store.View(ctx, func(tx *store.Tx) (err error) {
		l, err = tx.Launch("", id.String())
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return by, fault.New(fault.Unauthenticated, "bootstrap_token_unknown", "the launch that this bootstrap token is for is not known any more").
			WithHint("its Runner was deleted, or it is long over: end this process")
	}
	if err != nil {
		return by, err
	}
	return catalog.Registrar{OrganizationID: l.OrganizationID, ID: "launch:" + l.ID, Name: "of the launch " + l.Name, Stored: true, Launch: l.ID}, nil
}
