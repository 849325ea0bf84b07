package api_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"legwork/internal/leaktest"
	"legwork/internal/store/storetest"
)

func TestMain(m *testing.M) {
	os.Exit(leaktest.Check(storetest.Main(m), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop")))
}
