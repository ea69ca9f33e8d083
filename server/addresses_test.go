package server

import (
	"net"
	"slices"
	"testing"

	"github.com/a4s-io/a4s/internal/config"
)

// TestExternalAddress: kubeconfigs for other machines have an address that works there, and that
// the certificate of the API is for.
func TestExternalAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		sans, args []string
		want, san  string
	}{
		"the node's": {nil, nil, "192.0.2.1:6443", "192.0.2.1"},
		"a name":     {[]string{"a4s.example.com", "192.0.2.9"}, nil, "a4s.example.com:6443", "a4s.example.com"},
		"what it says": {[]string{"x"}, []string{"v=2", "external-hostname=example.com"}, "example.com:6443",
			"example.com"},
		"another port":   {nil, []string{"external-hostname=example.com:443"}, "example.com:443", "example.com"},
		"underscores":    {nil, []string{"external_hostname=example.com"}, "example.com:6443", "example.com"},
		"said to be one": {[]string{"x"}, []string{"external-hostname="}, "192.0.2.1:6443", "x"},
	} {
		cfg, err := config.DefaultServer()
		if err != nil {
			t.Fatal(err)
		}
		cfg.TLSSANs, cfg.KubeAPIServerArgs = tc.sans, tc.args
		a, err := newAddresses(cfg, net.IPv4(192, 0, 2, 1))
		if err != nil {
			t.Fatal(err)
		}
		if a.external != tc.want || !slices.Contains(a.sans, tc.san) {
			t.Errorf("%s: %s, certificate for %q", name, a.external, a.sans)
		}
	}
}
