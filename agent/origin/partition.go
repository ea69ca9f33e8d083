package origin

import (
	"net"
	"net/http"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Partition is a tenant partition as this node reaches it.
type Partition struct {
	// Name is unique among the partitions of the cluster.
	Name string
	// Identity tells it from another partition that has had the name, or will have it. It is
	// empty for home, which stays, and where it is not known.
	Identity string
	// Home says that it is the partition that founded the cluster. One is.
	Home bool
	// Node says that it is the partition that has this node.
	Node bool
	// Transport sends requests to the partition's servers, wherever their URL
	// points. It stays the same while the partition does.
	Transport http.RoundTripper
	// Service is the address of the Service of the partition's API, for its pods;
	// invalid where that is not known. The home partition needs none.
	Service netip.Addr
	// ClusterDNS are the addresses of the partition's name server, for its pods.
	// Empty means those of the node.
	ClusterDNS []string
	// NodePorts are those that its Services may have; empty where that is not known.
	NodePorts utilnet.PortRange
}

// Same reports whether two partitions of a name are one.
func (p Partition) Same(o Partition) bool {
	return p.Identity == o.Identity || p.Identity == "" || o.Identity == ""
}

// servicePort is the port of the Service "kubernetes".
const servicePort = "443"

// furtherPartition is the partition of a namespace, unless that is home: the kubelet
// itself gives pods of the home partition what they need.
func (o Options) furtherPartition(namespace string) Partition {
	if o.Partition == nil {
		return Partition{}
	}
	p, ok := o.Partition(namespace)
	if !ok || p.Home {
		return Partition{}
	}
	return p
}

// apiEnv are the variables by which a container finds the API of its partition. The
// kubelet would set those of the home partition. A container's own ones come later and
// count.
func apiEnv(p Partition) []corev1.EnvVar {
	if !p.Service.IsValid() {
		return nil
	}
	ip := p.Service.String()
	url := "tcp://" + net.JoinHostPort(ip, servicePort)
	return []corev1.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: ip},
		{Name: "KUBERNETES_SERVICE_PORT", Value: servicePort},
		{Name: "KUBERNETES_SERVICE_PORT_HTTPS", Value: servicePort},
		{Name: "KUBERNETES_PORT", Value: url},
		{Name: "KUBERNETES_PORT_443_TCP", Value: url},
		{Name: "KUBERNETES_PORT_443_TCP_PROTO", Value: "tcp"},
		{Name: "KUBERNETES_PORT_443_TCP_PORT", Value: servicePort},
		{Name: "KUBERNETES_PORT_443_TCP_ADDR", Value: ip},
	}
}

// Partitions are the tenant partitions of the cluster.
type Partitions interface {
	// Current returns all of them, and a channel that is closed when there are
	// others. A partition that is missing has left the cluster, and its pods
	// end; so what is not known is never left out. No partition at all means
	// that they are not known yet.
	Current() (all []Partition, changed <-chan struct{})
}
