package boot

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What fails is tried again, ever later, until it succeeds or nobody wants it any more.
func TestUntilDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		if !untilDone(t.Context(), func() error {
			if tries++; tries < 9 {
				return errors.New("no port is free")
			}
			return nil
		}) || tries != 9 {
			t.Fatalf("ended after %d tries", tries)
		}
		if took := time.Since(began); took != (1+2+4+8+16+32+60+60)*time.Second {
			t.Errorf("took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if untilDone(ctx, func() error { return errors.New("no port is free") }) {
			t.Error("it succeeded")
		}
	})
}
