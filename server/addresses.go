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
	node, advertise net.IP
	pods, services  netip.Prefix
	sans            []string // names and addresses of the API
}

func newAddresses(cfg *config.Server, nodeIP net.IP) (*addresses, error) {
	a := &addresses{node: nodeIP, advertise: nodeIP}
	if cfg.AdvertiseAddress != "" {
		a.advertise = net.ParseIP(cfg.AdvertiseAddress)
	}
	local := "127.0.0.1"
	if ip := net.ParseIP(cfg.BindAddress); ip != nil && !ip.IsUnspecified() {
		local = cfg.BindAddress
	}
	a.url = "https://" + net.JoinHostPort(local, strconv.Itoa(cfg.HTTPSListenPort))
	var err error
	if a.pods, err = netip.ParsePrefix(cfg.ClusterCIDR); err != nil {
		return nil, fmt.Errorf("--cluster-cidr: %w", err)
	}
	if a.services, err = netip.ParsePrefix(cfg.ServiceCIDR); err != nil {
		return nil, fmt.Errorf("--service-cidr: %w", err)
	}
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
		"localhost", "127.0.0.1", host, a.node.String(), a.advertise.String(), a.services.Masked().Addr().Next().String(),
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + cfg.ClusterDomain,
	}
	if cfg.Agent.NodeName != "" {
		sans = append(sans, cfg.Agent.NodeName)
	}
	if ip := net.ParseIP(cfg.BindAddress); ip != nil && !ip.IsUnspecified() {
		sans = append(sans, cfg.BindAddress)
	}
	sans = append(sans, cfg.Agent.NodeExternalIPs...)
	return append(sans, cfg.TLSSANs...), nil
}
