package access

import (
	"os"
	"testing"

	"legwork/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
