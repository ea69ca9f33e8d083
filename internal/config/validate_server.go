package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/renewal"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Validate checks every field. The error is one problem.Input, or several
// joined.
func (s *Server) Validate() error { return s.validate(flagSource) }

func (s *Server) validate(source func(string) string) error {
	c := &serverChecker{checker: checker{source: source}, server: s}
	c.common(&s.Agent.Common)
	c.listener()
	c.tokens("token", s.Token, "token-file", s.TokenFile)
	c.tokens("agent-token", s.AgentToken, "agent-token-file", s.AgentTokenFile)
	for _, url := range s.JoinURLs {
		c.serverURL(url)
	}
	c.withoutMember()
	c.partition()
	if s.ServiceGroupID != "" {
		if problems := validation.IsDNS1123Label(s.ServiceGroupID); len(problems) > 0 {
			c.fail("service-group-id", s.ServiceGroupID, errors.New(strings.Join(problems, "; ")), "an ID such as 1")
		}
	}
	if s.AutoGroups && s.ServiceGroupID == "" {
		c.fail("auto-groups", "true", errors.New("this server is of no service group"),
			"--service-group-id as well")
	}
	if s.DefaultTenant != "" {
		if err := space.ValidateTenant(s.DefaultTenant); err != nil {
			c.fail("default-tenant", s.DefaultTenant, err, "a name such as team-a, or nothing for the system space")
		}
	}
	for i, entry := range s.TenantGroups {
		if _, err := tenantapi.ParseGroups(s.TenantGroups[:i+1]); err != nil {
			c.fail("tenant-group", entry, err, "a group and its tenants such as oidc:platform=team-a,team-b")
			break // what follows would say the same again
		}
	}
	for _, limit := range s.TenantDefaultLimits {
		if _, err := tenantapi.ParseLimits([]string{limit}); err != nil {
			c.fail("tenant-default-limits", limit, err,
				"a limit and its value such as bytes=1Gi, or pods=none for no limit")
		}
	}
	c.network()
	c.absolute("write-kubeconfig", s.WriteKubeconfig)
	if mode, err := strconv.ParseUint(s.WriteKubeconfigMode, 8, 32); err != nil || mode > 0o777 {
		c.bad("write-kubeconfig-mode", s.WriteKubeconfigMode, "an octal file mode from 0 to 777")
	}
	if strings.ContainsAny(s.WriteKubeconfigGroup, " \t\r\n:") {
		c.bad("write-kubeconfig-group", s.WriteKubeconfigGroup, "the name or number of a group")
	}
	if life, err := time.ParseDuration(s.CertificateLifetime); err != nil ||
		life < renewal.MinLife || life > pki.CALife {
		c.bad("certificate-lifetime", s.CertificateLifetime,
			fmt.Sprintf("a duration from %s to %dh such as 8760h", renewal.MinLife, int(pki.CALife.Hours())))
	}
	if s.AuditLogPath != "-" {
		c.absolute("audit-log-path", s.AuditLogPath)
	}
	if s.AuditPolicyFile != "" && s.AuditLogPath == "" {
		c.fail("audit-policy-file", s.AuditPolicyFile, errors.New("there is no audit log"), "--audit-log-path as well")
	}
	c.file("audit-policy-file", s.AuditPolicyFile)
	c.datastore()
	c.snapshots()
	for _, name := range s.Disable {
		c.oneOf("disable", name, Addons())
	}
	c.absolute("default-local-storage-path", s.DefaultLocalStoragePath)
	for _, text := range s.ServiceLBReservedPorts {
		if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			c.bad("servicelb-reserved-ports", text, "a port from 1 to 65535")
		}
	}
	c.upstreamArgs("kube-apiserver-arg", s.KubeAPIServerArgs)
	c.upstreamArgs("kube-controller-manager-arg", s.KubeControllerManagerArgs)
	c.upstreamArgs("kube-scheduler-arg", s.KubeSchedulerArgs)
	c.upstreamArgs("etcd-arg", s.EtcdArgs)
	(&nodeChecker{checker: &c.checker, agent: &s.Agent}).node()
	return c.err()
}

// serverChecker checks what only servers have.
type serverChecker struct {
	checker
	server *Server
}

func (c *serverChecker) listener() {
	s := c.server
	if s.BindAddress != "" {
		s.Network.Bind, _ = c.addr("bind-address", s.BindAddress, false)
	}
	c.port("https-listen-port", s.HTTPSListenPort)
	if s.AdvertiseAddress != "" {
		s.Network.Advertise, _ = c.addr("advertise-address", s.AdvertiseAddress, true)
	}
	for _, name := range s.TLSSANs {
		c.certName("tls-san", name)
	}
}

// Lengths of prefixes. A node takes a /24 of the cluster range, and the
// controller that hands them out can tell 2^16 of them apart; the smallest
// service range still holds the tenth address.
const (
	minClusterBits, maxClusterBits = 8, 24
	minServiceBits, maxServiceBits = 12, 28
)

func (c *serverChecker) network() {
	s := c.server
	pods, podsOK := c.cidr("cluster-cidr", s.ClusterCIDR, "10.42.0.0/16", minClusterBits, maxClusterBits)
	services, servicesOK := c.cidr("service-cidr", s.ServiceCIDR, "10.43.0.0/16", minServiceBits, maxServiceBits)
	if podsOK && servicesOK && pods.Overlaps(services) {
		c.fail("service-cidr", s.ServiceCIDR, fmt.Errorf("it overlaps with the cluster range %s", pods),
			"two ranges that do not overlap")
	}
	s.Network.Pods, s.Network.Services = pods, services
	c.outside("cluster-cidr", pods, podsOK)
	c.outside("service-cidr", services, servicesOK)
	c.nodePorts()
	switch {
	case !servicesOK:
	case s.ClusterDNS == "":
		s.Network.DNS = nthAddress(services, 10)
	default:
		c.clusterDNS(services)
	}
	if len(validation.IsDNS1123Subdomain(s.ClusterDomain)) > 0 {
		c.bad("cluster-domain", s.ClusterDomain, "a DNS domain in lower case such as cluster.local")
	}
	c.oneOf("flannel-backend", s.FlannelBackend, FlannelBackends)
}

// outside checks that no address of the machine is in a range of the cluster:
// such a node could not be reached by pods.
func (c *serverChecker) outside(setting string, p netip.Prefix, ok bool) {
	s := c.server
	if !ok {
		return
	}
	check := func(addrSetting, addr string) {
		if a, err := netip.ParseAddr(addr); err == nil && p.Contains(a) {
			c.fail(addrSetting, addr, fmt.Errorf("it is in %s %s", c.source(setting), p),
				"an address outside of the cluster's ranges")
		}
	}
	for _, ip := range s.Agent.NodeIPs {
		check("node-ip", ip)
	}
	check("advertise-address", s.AdvertiseAddress)
}

func (c *serverChecker) nodePorts() {
	value := c.server.ServiceNodePortRange
	const want = "a range of ports such as 30000-32767"
	lo, hi, ok := strings.Cut(value, "-")
	first, err1 := strconv.Atoi(lo)
	last, err2 := strconv.Atoi(hi)
	if !ok || err1 != nil || err2 != nil || first < 1 || last > 65535 || first > last {
		c.bad("service-node-port-range", value, want)
	}
}

func (c *serverChecker) clusterDNS(services netip.Prefix) {
	value := c.server.ClusterDNS
	a, ok := c.addr("cluster-dns", value, false)
	if !ok {
		return
	}
	c.server.Network.DNS = a
	want := fmt.Sprintf("an address of the service range %s such as %s", services, nthAddress(services, 10))
	last := nthAddress(services, 1<<(32-services.Bits())-1)
	switch {
	case !services.Contains(a):
		c.bad("cluster-dns", value, want)
	case a == services.Addr() || a == nthAddress(services, 1) || a == last:
		c.fail("cluster-dns", value, errors.New("it is reserved"), want)
	}
}
