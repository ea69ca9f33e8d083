package process

import "testing"

// TestProxyIsNotAskedForTheCluster: as with k3s, a proxy for images is no way to pods and Services.
func TestProxyIsNotAskedForTheCluster(t *testing.T) {
	inside := []string{"192.0.2.10", "10.42.0.0/16", ".svc"}
	for name, test := range map[string]struct {
		env     map[string]string
		want    string
		changed bool
	}{
		"no proxy": {env: map[string]string{"NO_PROXY": "a"}},
		"a proxy": {env: map[string]string{"HTTPS_PROXY": "http://p:1"},
			want: "192.0.2.10,10.42.0.0/16,.svc", changed: true},
		"what is there stays": {env: map[string]string{"http_proxy": "http://p:1", "no_proxy": "a.example.com, .svc"},
			want: "a.example.com,.svc,192.0.2.10,10.42.0.0/16", changed: true},
		"NO_PROXY is read first, as Go does": {env: map[string]string{"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a",
			"no_proxy": "b"}, want: "a,192.0.2.10,10.42.0.0/16,.svc", changed: true},
		"nothing goes by it": {env: map[string]string{"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, want: "*"},
	} {
		value, changed := noProxy(func(name string) string { return test.env[name] }, inside)
		if value != test.want || changed != test.changed {
			t.Errorf("%s: %q, %v", name, value, changed)
		}
	}
}
