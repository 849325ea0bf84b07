package harness_test

import (
	"testing"

	"legwork/internal/store/storetest"
)

func postgres(t *testing.T) string { return storetest.Postgres(t) }
