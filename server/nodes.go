package server

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/version"
	"github.com/a4s-io/a4s/server/addons"
	"github.com/a4s-io/a4s/server/addons/ingress"
	"github.com/a4s-io/a4s/server/addons/networkpolicy"
	"github.com/a4s-io/a4s/server/cluster/cas"
	"github.com/a4s-io/a4s/server/nodeapi"
)

// nodes is what nodes are told as it changes.
type nodes struct {
	addresses *nodeapi.Addresses
	policies  *networkpolicy.Controller // nil if network policies are disabled
	ingress   *ingress.Controller       // nil if Ingresses are left to others
}

// forNodes makes it from the tenants of all groups.
func (s *Server) forNodes(
	client func() (kubernetes.Interface, error), writer kubernetes.Interface, objects dynamic.Interface,
) (n nodes, err error) {
	own, err := client()
	if err != nil {
		return n, err
	}
	n.addresses = nodeapi.NewAddresses(own)
	if !s.cfg.Disabled(config.AddonIngress) {
		if n.ingress, err = s.ingress(n.addresses, client, writer, objects); err != nil {
			return n, err
		}
	}
	if s.cfg.DisableNetworkPolicy {
		return n, nil
	}
	if own, err = client(); err != nil {
		return n, err
	}
	n.policies = networkpolicy.New(own, s.pool, logrus.WithField("component", networkpolicy.Name))
	return n, nil
}

// ingress makes the controller of Ingresses.
func (s *Server) ingress(
	addresses *nodeapi.Addresses, client func() (kubernetes.Interface, error), writer kubernetes.Interface,
	objects dynamic.Interface,
) (*ingress.Controller, error) {
	own, err := client()
	if err != nil {
		return nil, err
	}
	return ingress.New(ingress.Options{Client: own, Writer: writer, Objects: objects, Pool: s.pool,
		Tenants: s.spaces, Partition: s.parts.Self(), Owner: addresses.Tenant, Owned: addresses.Known,
		Log: logrus.WithField("component", ingress.Name)}), nil
}

func (n nodes) start(ctx context.Context, group *component.Group) {
	group.Start(ctx, component.Running("pod-addresses", n.addresses.Run))
	if n.policies != nil {
		group.Start(ctx, component.Running(networkpolicy.Name, n.policies.Run))
	}
	if n.ingress != nil {
		// The node of the same process has a component of the name alone.
		group.Start(ctx, component.Running(ingress.Name+"-controller", n.ingress.Run))
	}
}

// writer is what one server does about Ingresses. client sees the tenants of all groups.
func (n nodes) writer(
	client func() (kubernetes.Interface, error), objects dynamic.Interface,
) (component.Component, error) {
	if n.ingress != nil {
		return n.ingress.Leader(), nil
	}
	own, err := client()
	return ingress.Removal(ingress.Options{Client: own, Objects: objects}), err
}

// nodeAPI serves what nodes and joining servers call, on the port of the API
// server.
func (s *Server) nodeAPI(
	client kubernetes.Interface, n nodes, extra *addons.Addons, keys *secretsEncryption, controller *cas.Controller,
	group *component.Group,
) (*nodeapi.Supervisor, error) {
	serverCA, err := pki.LoadCA(s.files.pki.ServerCA)
	if err != nil {
		return nil, err
	}
	clientCA, err := pki.LoadCA(s.files.pki.ClientCA)
	if err != nil {
		return nil, err
	}
	register, err := s.partition.Register()
	if err != nil {
		return nil, err
	}
	return nodeapi.New(nodeapi.Options{
		ServerCA: serverCA.WithLife(s.renewal.life()),
		ClientCA: clientCA.WithLife(s.renewal.life()),
		Renew:    s.renewal.renewAll,
		CAs: func(ctx context.Context, req joinapi.CAsRequest) (*joinapi.CAsResponse, error) {
			if err := s.onlyMembers("certificate authorities"); err != nil {
				return nil, err
			}
			if err := s.parts.CheckOwnCAs(); err != nil {
				return nil, err
			}
			return replaceCAs(ctx, controller, s.tokens, req)
		},
		Bundle:     s.bundle,
		Partition:  s.partition.Name(),
		Nodes:      s.ofNodes.Guard,
		Lives:      s.lives,
		Registered: addressesIn(client),
		Partitions: register,
		PartitionBundle: func() (*joinapi.PartitionBundle, error) {
			return s.partition.BundleFor(s.tokens)
		},
		KnownPartitions: s.parts.Told,
		PartitionStates: s.ofNodes.Overview.States,
		ServerSANs:      s.serverSANs, Members: s.store.listMembers, RemoveMember: s.store.removeMember,
		Tokens:     s.tokens,
		Secrets:    nodeapi.NewSecrets(client.CoreV1()),
		Config:     clusterConfig(s.cfg),
		Addresses:  n.addresses,
		Policies:   n.policies,
		Ingress:    n.ingress,
		Encryption: keys,
		Volumes:    volumesOf(extra),
		Status:     func() joinapi.ServerStatus { return s.status(group) },
		TenantUse:  s.spaces.Use,
		// With --disable-agent, too: the server may run in a pod of that node.
		LocalNode:    s.cfg.Agent.NodeName,
		ReservedSANs: s.addresses.sans,
	}), nil
}

// addressesIn finds the addresses of Nodes, among them those that flannel told, which may be of
// another interface.
func addressesIn(client kubernetes.Interface) func(ctx context.Context, node string) ([]string, bool, error) {
	return func(ctx context.Context, node string) ([]string, bool, error) {
		n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		var out []string
		for _, a := range n.Status.Addresses {
			out = append(out, a.Address)
		}
		return append(out, n.Annotations["flannel.alpha.coreos.com/public-ip"]), true, nil
	}
}

// clusterConfig is what nodes must agree on with this server.
func clusterConfig(cfg *config.Server) joinapi.ClusterConfig {
	n := cfg.Network
	return joinapi.ClusterConfig{
		ClusterCIDR: n.Pods, ServiceCIDR: n.Services, ClusterDNS: n.DNS, ClusterDomain: cfg.ClusterDomain,
		FlannelBackend: cfg.FlannelBackend, DisableNetworkPolicy: cfg.DisableNetworkPolicy,
		ServiceGroup: cfg.ServiceGroupID,
		Version:      version.Version, Kubernetes: version.Kubernetes,
	}
}

// status is what the node API tells administrators about this server.
func (s *Server) status(group *component.Group) joinapi.ServerStatus {
	st := joinapi.ServerStatus{Version: version.Version, Kubernetes: version.Kubernetes,
		Datastore: s.store.endpoint.String(), ServiceGroup: s.cfg.ServiceGroupID,
		Partition: s.partition.Self(), Roles: s.partition.Request().Roles}
	if s.spaces != nil {
		p, _ := s.spaces.Progress()
		st.ServiceGroupRevision = p.Revision
	}
	states := group.States()
	if s.others != nil {
		states = append(states, s.others()...)
	}
	for _, c := range states {
		st.Components = append(st.Components, joinapi.ComponentStatus{
			Name: c.Name, Ready: c.Ready, Restarts: c.Restarts, LastError: c.LastError,
			Since: c.Since.UTC().Format(time.RFC3339),
		})
	}
	st.Problems = s.health.problems()
	return st
}

// volumesOf are the local volumes of nodes, nil if they are left out.
func volumesOf(a *addons.Addons) nodeapi.Volumes {
	if v := a.Storage(); v != nil {
		return v
	}
	return nil
}
