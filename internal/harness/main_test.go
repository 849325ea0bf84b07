package harness_test

import (
	"os"
	"testing"

	"legwork/internal/harness"
	"legwork/internal/store/storetest"
)

func TestMain(m *testing.M) {
	harness.ServeFleet()
	status := storetest.Main(m)
	harness.Cleanup()
	os.Exit(status)
}
