package wire

import (
	"testing"

	"go.uber.org/goleak"
)

// The proxy of sockets_test.go leaves goroutines behind for good when an end
// closes that it still has bytes for.
const toxic = "github.com/Shopify/toxiproxy/v2"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(toxic+"/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction(toxic+".(*ToxicLink).read"),
		goleak.IgnoreAnyFunction(toxic+".(*ToxicLink).write"))
}
