package server

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/a4s-io/a4s/internal/config"
)

// addresses are those of this server, and the ranges of its cluster.
type addresses struct {
	url             string // of the API, for this machine
	join            string // "host:port" of it, for other machines
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
	a.pods, a.services = cfg.Network.Pods, cfg.Network.Services
	var err error
	a.sans, err = a.subjectNames(cfg)
	return a, err
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
	return append(sans, cfg.TLSSANs...), nil
}
