package addons

import (
	"slices"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/server/addons/charts"
)

type alone struct{}

func (alone) Self() string                   { return "home" }
func (alone) NodePorts() []utilnet.PortRange { return nil }

// TestHelmControllerCanBeLeftOut: with --disable-helm-controller there is none, else one server of several runs it.
func TestHelmControllerCanBeLeftOut(t *testing.T) {
	for _, off := range []bool{false, true} {
		access := Access{Internal: &rest.Config{Host: "https://127.0.0.1:1"},
			Admin: &rest.Config{Host: "https://127.0.0.1:1"}}
		a, err := New(&config.Server{DisableHelmController: off, ServiceNodePortRange: "30000-32767"}, access, nil,
			alone{})
		if err != nil {
			t.Fatal(err)
		}
		var led []string
		a.Components(func(c component.Component) component.Component {
			led = append(led, c.Name)
			return c
		})
		if got := slices.Contains(led, charts.Name); got == off {
			t.Errorf("left out is %v, and one server runs %q", off, led)
		}
	}
}
