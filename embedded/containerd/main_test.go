package containerd

import (
	"testing"

	"github.com/containerd/containerd/v2/pkg/timeout"
)

// A name that upstream does not know would change nothing.
func TestTimeoutsThatUpstreamKnows(t *testing.T) {
	known := timeout.All()
	for name, d := range patience {
		if known[name] == 0 || known[name] >= d {
			t.Errorf("upstream's %s is %s, want one that is less than %s", name, known[name], d)
		}
	}
}
