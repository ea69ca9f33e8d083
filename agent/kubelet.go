package agent

import (
	"net/netip"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/host/nodeaddr"
	"github.com/a4s-io/a4s/agent/kubelet"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
)

// kubeletSettings are what the kubelet of the node is configured by.
type kubeletSettings struct {
	cfg  *config.Agent
	addr nodeaddr.Choice
	host host.Info
}

// options are those for what the server said about the cluster.
func (k kubeletSettings) options(joined *join.Result, credential, resolvConf string) kubelet.Options {
	return kubelet.Options{
		DataDir:         k.cfg.DataDir,
		Kubeconfig:      credential,
		NodeName:        k.cfg.NodeName,
		NodeIPs:         k.addr.Strings(),
		NodeExternalIPs: k.cfg.NodeExternalIPs,
		NodeLabels:      k.cfg.NodeLabels,
		NodeTaints:      k.cfg.NodeTaints,
		RuntimeEndpoint: "unix://" + CRISocket(),
		ClientCA:        joined.ClientCA,
		ServingCert:     joined.ServingCert,
		ServingKey:      joined.ServingKey,
		ClusterDNS:      joined.Config.ClusterDNS.String(),
		ClusterDomain:   joined.Config.ClusterDomain,
		ResolvConf:      resolvConf,
		Host:            k.host,
		Args:            k.cfg.KubeletArgs,
		Log:             logrus.WithField("component", kubelet.Name),
	}
}

// unknownCluster stands in for what only the server knows.
func unknownCluster() *join.Result {
	return &join.Result{Config: joinapi.ClusterConfig{
		ClusterDNS:    netip.MustParseAddr("10.43.0.10"),
		ClusterDomain: "cluster.local",
		ClusterCIDR:   netip.MustParsePrefix("10.42.0.0/16"),
	}}
}
