package network

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// Names that other parts of the node and killall rely on.
const (
	// CNIName is the name of the CNI network.
	CNIName = "a4s"
	// BridgeName is the bridge that pods of this node are attached to.
	BridgeName = "cni-a4s0"
	// VXLANName is flannel's device for the traffic between nodes.
	VXLANName = "flannel.1"
)

const (
	vxlanVNI  = 1
	vxlanPort = 8472
)

// Backends.
const (
	backendVXLAN  = "vxlan"
	backendHostGW = "host-gw"
	backendNone   = "none"
)

// Paths of what this package writes, below the data directory.

// NetConfPath is flannel's configuration.
func NetConfPath(dataDir string) string {
	return filepath.Join(dataDir, "agent", "etc", "flannel", "net-conf.json")
}

// CNIConfDir is the directory that containerd reads the CNI configuration from.
func CNIConfDir(dataDir string) string {
	return filepath.Join(dataDir, "agent", "etc", "cni", "net.d")
}

// IPAMDir holds the addresses that are in use on this node.
func IPAMDir(dataDir string) string {
	return filepath.Join(dataDir, "agent", "cni-ipam")
}

func conflistPath(dataDir string) string {
	return filepath.Join(CNIConfDir(dataDir), "10-a4s.conflist")
}

type netConf struct {
	Network        string
	EnableIPv4     bool
	EnableIPv6     bool
	EnableNFTables bool
	Backend        backendConf
}

type backendConf struct {
	Type string
	VNI  int `json:",omitempty"`
	Port int `json:",omitempty"`
}

// renderNetConf returns flannel's configuration.
func renderNetConf(clusterCIDR, backend string, mode netfilter.Mode) ([]byte, error) {
	prefix, err := netip.ParsePrefix(clusterCIDR)
	if err != nil || !prefix.Addr().Is4() {
		return nil, &problem.Input{Source: "--cluster-cidr", Value: clusterCIDR, Err: err,
			Want: "an IPv4 range such as 10.42.0.0/16"}
	}
	c := netConf{
		Network: prefix.Masked().String(), EnableIPv4: true,
		EnableNFTables: mode == netfilter.Nftables,
		Backend:        backendConf{Type: backend},
	}
	switch backend {
	case backendVXLAN:
		c.Backend.VNI, c.Backend.Port = vxlanVNI, vxlanPort
	case backendHostGW:
	default:
		return nil, &problem.Input{Source: "--flannel-backend", Value: backend, Want: `"vxlan", "host-gw" or "none"`}
	}
	return marshal(c)
}

type conflist struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Plugins    []any  `json:"plugins"`
}

type bridgePlugin struct {
	Type             string   `json:"type"`
	Bridge           string   `json:"bridge"`
	IsGateway        bool     `json:"isGateway"`
	IsDefaultGateway bool     `json:"isDefaultGateway"`
	ForceAddress     bool     `json:"forceAddress"`
	HairpinMode      bool     `json:"hairpinMode"`
	IPMasq           bool     `json:"ipMasq"`
	MTU              int      `json:"mtu"`
	IPAM             ipamConf `json:"ipam"`
}

type ipamConf struct {
	Type    string      `json:"type"`
	DataDir string      `json:"dataDir"`
	Ranges  [][]ipRange `json:"ranges"`
}

type ipRange struct {
	Subnet string `json:"subnet"`
}

type portmapPlugin struct {
	Type         string          `json:"type"`
	Capabilities map[string]bool `json:"capabilities"`
	Backend      string          `json:"backend"`
}

// renderConflist returns the CNI configuration of this node.
func renderConflist(dataDir, podCIDR string, mtu int, mode netfilter.Mode) ([]byte, error) {
	return marshal(conflist{
		CNIVersion: "1.0.0",
		Name:       CNIName,
		Plugins: []any{
			bridgePlugin{
				Type: "bridge", Bridge: BridgeName,
				IsGateway: true, IsDefaultGateway: true, HairpinMode: true,
				// The bridge outlives the node's pod range; without this the
				// plugin refuses to give it the gateway of a new range.
				ForceAddress: true,
				IPMasq:       false, // flannel's rules do it for the whole cluster
				MTU:          mtu,
				IPAM: ipamConf{
					Type: "host-local", DataDir: IPAMDir(dataDir),
					Ranges: [][]ipRange{{{Subnet: podCIDR}}},
				},
			},
			portmapPlugin{
				Type:         "portmap",
				Capabilities: map[string]bool{"portMappings": true},
				Backend:      string(mode),
			},
		},
	})
}

func marshal(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// write replaces a file that other programs read while we write it. The
// temporary file does not end in a suffix that the CNI library reads.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the directory of %s: %w", path, err)
	}
	return atomicfile.Write(path, data, 0o644)
}
