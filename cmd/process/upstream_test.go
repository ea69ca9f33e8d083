package process

import "testing"

// Tenants choose the hosts of webhooks, and are not to make series of metrics.
func TestHostsOfClientsAreBounded(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1:6443": "127.0.0.1:6443", "localhost": "localhost", "[::1]:6443": "[::1]:6443",
		"hook.default.t1.svc:443": others, "192.0.2.7:443": others, "": others,
	} {
		if got := bounded(host); got != want {
			t.Errorf("the host of %q is %q, want %q", host, got, want)
		}
	}
}
