package api

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"legwork/internal/fault"
)

const (
	maxRepeats  = 3
	repeatDelay = 300 * time.Millisecond // before the first repetition; each later one waits twice as long

	keysFull = "idempotency_keys_full" // code of a refusal: the sender cannot use more idempotency keys for now
)

// repeatLost calls once, and again while its answer was lost on the way. once has to send the same idempotency key each
// time: the server runs the request once, and sends the same answer again.
func repeatLost(ctx context.Context, once func() error) error {
	delay := repeatDelay
	for range maxRepeats {
		err := once()
		if !isLost(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(delay):
		}
		delay *= 2
	}
	return once()
}

// isLost reports whether a request may have reached the server although its answer did not come back, or is still being
// answered there.
func isLost(err error) bool {
	if fault.Code(err) == "idempotency_key_running" {
		return true
	}
	var dialing *net.OpError
	if errors.As(err, &dialing) && dialing.Op == "dial" {
		return false // nothing was sent
	}
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}
