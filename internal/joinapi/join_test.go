package joinapi

import (
	"encoding/json"
	"net/netip"
	"testing"
)

// Nodes of other releases read and write the same.
func TestClusterConfigAsJSON(t *testing.T) {
	const text = `{"clusterCIDR":"10.42.0.0/16","serviceCIDR":"10.43.0.0/16","clusterDNS":"10.43.0.10",` +
		`"clusterDomain":"cluster.local","flannelBackend":"vxlan","version":"v1","kubernetes":"v2"}`
	want := ClusterConfig{
		ClusterCIDR: netip.MustParsePrefix("10.42.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.43.0.0/16"),
		ClusterDNS: netip.MustParseAddr("10.43.0.10"), ClusterDomain: "cluster.local", FlannelBackend: "vxlan",
		Version: "v1", Kubernetes: "v2",
	}
	var got ClusterConfig
	if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if data, err := json.Marshal(want); err != nil || string(data) != text {
		t.Errorf("%s, %v", data, err)
	}
}
