package server

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/upstreamflags"
)

// addresses are those of this server, and the ranges of its cluster.
type addresses struct {
	url             string // of the API, for this machine
	join            string // "host:port" of it, for other machines
	external        string // the same in kubeconfigs, with the name that administrators gave the API
	node, advertise net.IP
	pods, services  netip.Prefix
	sans            []string // names and addresses of the API
}

func newAddresses(cfg *config.Server, nodeIP net.IP) (*addresses, error) {
	a := &addresses{node: nodeIP, advertise: nodeIP}
	if cfg.Network.Advertise.IsValid() {
		a.advertise = cfg.Network.Advertise.AsSlice()
	}
	a.url = "https://" + net.JoinHostPort(cfg.Network.Local(), strconv.Itoa(cfg.HTTPSListenPort))
	a.join = net.JoinHostPort(a.advertise.String(), strconv.Itoa(cfg.HTTPSListenPort))
	a.external = externalAddress(cfg, a.join)
	a.pods, a.services = cfg.Network.Pods, cfg.Network.Services
	var err error
	a.sans, err = a.subjectNames(cfg)
	return a, err
}

// externalHost is upstream's name for the address of the API that clients get.
const externalHost = "external-hostname"

// externalAddress is "host:port" of the API for clients: what the API server is told that it is,
// a name that its certificate has because somebody said so, or the address that nodes have.
func externalAddress(cfg *config.Server, join string) string {
	host := ""
	if len(cfg.TLSSANs) > 0 {
		host = cfg.TLSSANs[0]
	}
	for _, arg := range cfg.KubeAPIServerArgs {
		if _, value, _ := strings.Cut(arg, "="); upstreamflags.Name(arg) == externalHost {
			host = value
		}
	}
	if host == "" {
		return join
	}
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(cfg.HTTPSListenPort))
}

// ranges are the addresses of pods and Services.
func (a *addresses) ranges() []netip.Prefix { return []netip.Prefix{a.pods, a.services} }

// subjectNames are the names and addresses in the certificate of the API.
func (a *addresses) subjectNames(cfg *config.Server) ([]string, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host name: %w", err)
	}
	sans := []string{
		"localhost", "127.0.0.1", host, a.node.String(), a.advertise.String(),
		a.services.Masked().Addr().Next().String(),
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + cfg.ClusterDomain,
	}
	if cfg.Agent.NodeName != "" {
		sans = append(sans, cfg.Agent.NodeName)
	}
	if bind := cfg.Network.Bind; bind.IsValid() && !bind.IsUnspecified() {
		sans = append(sans, bind.String())
	}
	sans = append(sans, cfg.Agent.NodeExternalIPs...)
	sans = append(sans, cfg.TLSSANs...)
	if external, _, err := net.SplitHostPort(a.external); err == nil && !slices.Contains(sans, external) {
		sans = append(sans, external)
	}
	return sans, nil
}
