package nodeapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
)

const (
	maxNodeIPs = 8
	// Bounds of the node password; agents send 32 hexadecimal digits.
	minNodePassword = 16
	maxNodePassword = 256
)

// nodes gives nodes their certificates and keeps their names.
type nodes struct {
	serverCA, clientCA *pki.CA
	secrets            Secrets
	localNode          string
	reservedSANs       []string
	serverSANs         func() []string // nil without other servers
	serviceCIDR        netip.Prefix
	partition          string // "" for home
	lives              Lives  // nil to keep nothing
	registered         func(ctx context.Context, node string) ([]string, bool, error)
	elsewhere          func(ctx context.Context, node string) (partition string) // nil for never
	log                *logrus.Entry
}

// node signs the certificates of a node that proves to be the machine that
// the node name belongs to.
func (n *nodes) node(w http.ResponseWriter, r *http.Request, who identity) error {
	var req joinapi.NodeRequest
	if err := readBody(w, r, &req); err != nil {
		return err
	}
	ips, err := n.validate(&req)
	if err != nil {
		return err
	}
	further, err := n.further(&req)
	if err != nil {
		return err
	}
	if who.node != "" && who.node != req.NodeName {
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden,
			fmt.Sprintf("the certificate of node %q is not good for node %q", who.node, req.NodeName))
	}
	// The node of this process may have names of the API server in its
	// certificate, so less than the server token does not make it.
	if req.NodeName == n.localNode && who.node == "" && !who.serverToken {
		return refusal(http.StatusForbidden, joinapi.ReasonNodeNameTaken,
			fmt.Sprintf("node name %q belongs to the server itself", req.NodeName))
	}
	clientKey, err := pki.CSRPublicKey(req.ClientCSR)
	if err != nil {
		return invalid("clientCSR", "clientCSR: "+err.Error())
	}
	servingKey, err := pki.CSRPublicKey(req.ServingCSR)
	if err != nil {
		return invalid("servingCSR", "servingCSR: "+err.Error())
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if n.elsewhere != nil {
		if partition := n.elsewhere(ctx, req.NodeName); partition != "" {
			return refusal(http.StatusForbidden, joinapi.ReasonNodeNameTaken, fmt.Sprintf(
				"node name %q is that of a node of partition %s: names are unique in the cluster; choose another one "+
					"(--node-name), or delete that node first", req.NodeName, partition))
		}
	}
	// A server that lost its disk comes back with another password; its token
	// proves more than that. Other machines have that token, too.
	replace := req.NodeName == n.localNode && who.serverToken && n.fromHere(r)
	before, err := n.bind(ctx, req.NodeName, req.NodePassword, replace)
	if err != nil {
		return err
	}
	life, err := n.live(ctx, &req, who, ips, further, before)
	if err != nil {
		return err
	}
	resp := joinapi.NodeResponse{ClientCA: n.clientCA.CertPEM(), ServerCA: n.serverCA.CertPEM()}
	if resp.ClientCert, err = n.clientCA.SignNodeClient(clientKey, req.NodeName, n.partition, life); err != nil {
		return err
	}
	if resp.ServingCert, err = n.serverCA.SignNodeServing(servingKey, req.NodeName, ips); err != nil {
		return err
	}
	n.log.WithField("node", req.NodeName).WithField("remote", r.RemoteAddr).WithField("by", who.name).
		Info("signed the certificates of a node")
	return reply(w, resp)
}

func (n *nodes) validate(req *joinapi.NodeRequest) ([]net.IP, error) {
	name := req.NodeName
	// The name becomes the value of label kubernetes.io/hostname.
	if len(name) > validation.LabelValueMaxLength || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, invalid(joinapi.FieldNodeName, fmt.Sprintf(
			"node name %q is not valid: want at most %d lower-case letters, digits, '-' and '.', "+
				"beginning and ending with a letter or digit",
			name, validation.LabelValueMaxLength))
	}
	// Every client in the cluster trusts the CA of the serving certificate:
	// a node that gets one for the API server could pose as it.
	if net.ParseIP(name) != nil || apiServerName(name) || (name != n.localNode && n.reserved(name)) {
		return nil, invalid(joinapi.FieldNodeName, fmt.Sprintf("node name %q is reserved for the API server", name))
	}
	if n := len(req.NodePassword); n < minNodePassword || n > maxNodePassword {
		return nil, invalid("nodePassword",
			fmt.Sprintf("the node password has %d characters, want %d to %d", n, minNodePassword, maxNodePassword))
	}
	if n := len(req.NodeIPs); n == 0 || n > maxNodeIPs {
		return nil, invalid(joinapi.FieldNodeIPs,
			fmt.Sprintf("the node has %d addresses, want 1 to %d", n, maxNodeIPs))
	}
	ips := make([]net.IP, 0, len(req.NodeIPs))
	for _, text := range req.NodeIPs {
		ip := net.ParseIP(text)
		switch {
		case ip == nil:
			return nil, invalid(joinapi.FieldNodeIPs, fmt.Sprintf("node address %q is not an IP address", text))
		case !ip.IsGlobalUnicast():
			return nil, invalid(joinapi.FieldNodeIPs,
				fmt.Sprintf("node address %s is not a unicast address that other machines can reach", ip))
		case contains(n.serviceCIDR, ip):
			return nil, invalid(joinapi.FieldNodeIPs,
				fmt.Sprintf("node address %s is in the service range %s", ip, n.serviceCIDR))
		case name != n.localNode && n.reserved(ip.String()):
			return nil, invalid(joinapi.FieldNodeIPs,
				fmt.Sprintf("node address %s is the address of the API server", ip))
		}
		ips = append(ips, ip)
	}
	return ips, nil
}

// contains reports whether an address is in a range, which may be unset.
func contains(r netip.Prefix, ip net.IP) bool {
	addr, ok := netip.AddrFromSlice(ip)
	return ok && r.Contains(addr.Unmap())
}

// fromHere reports whether the client is on this machine.
func (n *nodes) fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	if err != nil || ip == nil {
		return false
	}
	return ip.IsLoopback() || slices.ContainsFunc(n.reservedSANs, func(san string) bool {
		return ip.Equal(net.ParseIP(san))
	})
}

func (n *nodes) reserved(san string) bool {
	all := n.reservedSANs
	if n.serverSANs != nil {
		all = slices.Concat(all, n.serverSANs())
	}
	return slices.ContainsFunc(all, func(r string) bool {
		if ip := net.ParseIP(r); ip != nil {
			return ip.Equal(net.ParseIP(san))
		}
		return strings.EqualFold(r, san)
	})
}

// apiServerName reports whether name is one that clients know the API server
// by in every cluster.
func apiServerName(name string) bool {
	switch name {
	case "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc":
		return true
	}
	return strings.HasPrefix(name, "kubernetes.default.svc.")
}
