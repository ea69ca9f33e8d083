package agent

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/cluster/loadbalancer"
	"github.com/a4s-io/a4s/agent/ingress"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/agent/origin/route"
	"github.com/a4s-io/a4s/agent/runtime/mux"
	"github.com/a4s-io/a4s/agent/runtime/registries"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/pki"
)

// nodeHealth is what checks of the node know of it.
type nodeHealth struct {
	cfg    *config.Agent
	dir    string // <data-dir>/agent
	access *access
	// registries are followed where a4s runs containerd.
	registries *registries.Followed
	filter     netfilter.Mode
	filterWhy  string
	joined     atomic.Pointer[join.Result] // set with the pod network
	client     atomic.Pointer[kubernetes.Clientset]
	mux        atomic.Pointer[mux.Mux]
	router     atomic.Pointer[route.Router] // to the partitions of the cluster
	ingress    *ingress.Node
}

// watch lets a monitor watch over the node. With events, it writes Events as this
// node; the server of this machine does so otherwise.
func (h *nodeHealth) watch(m *health.Monitor, events bool) {
	uses := func() []pki.Use {
		files := pki.NodeFilesIn(filepath.Join(h.dir, "tls"))
		if _, err := os.Stat(files.Client.Cert); err != nil {
			return nil // it has not joined yet
		}
		return files.Uses()
	}
	if wanted := netfilter.Mode(h.cfg.ProxyMode); h.filter == netfilter.Iptables && wanted != netfilter.Iptables {
		m.Set(health.PacketFilterDegraded, "", h.filterWhy)
	}
	m.Add("runtimes", h.checkRuntimesReady)
	m.Add("registries", h.registries.Check)
	m.Add("node", h.checkNode)
	m.Add("DNS", h.checkDNS)
	m.Add("certificates of the node", health.Certificates(uses))
	m.Add("servers", h.checkServers)
	m.Add("limits of the kernel", health.KernelLimits("/proc"))
	m.AddMetrics(health.CertificateMetrics(uses), h.serverMetrics, h.ingress.Metrics)
	if events {
		m.Add("partitions", h.checkPartitions) // a server looks by itself
		var tell func(added, gone []health.Problem)
		m.OnChange(func(added, gone []health.Problem) {
			if client := h.nodeClient(); tell == nil && client != nil {
				tell = health.Events(client.CoreV1(), scheme.Scheme, health.AboutNode(h.cfg.NodeName), h.cfg.NodeName)
			}
			if tell != nil {
				tell(added, gone)
			}
		})
	}
}

// nodeClient is the client of the node, nil before it has joined.
func (h *nodeHealth) nodeClient() *kubernetes.Clientset {
	if client := h.client.Load(); client != nil {
		return client
	}
	if h.joined.Load() == nil {
		return nil
	}
	_, client, err := h.access.clients(health.Name)
	if err != nil {
		return nil
	}
	h.client.CompareAndSwap(nil, client)
	return h.client.Load()
}

func (h *nodeHealth) checkRuntimesReady(_ context.Context, r *health.Registry) {
	var names []string
	for _, s := range h.runtimeStates() {
		names = append(names, s.Name)
		r.Report(s.Ready != corev1.ConditionTrue, health.RuntimeNotReady, s.Name, s.Reason+": "+s.Message)
	}
	r.Keep(health.RuntimeNotReady, names)
}

func (h *nodeHealth) runtimeStates() []noderuntime.State {
	mux := h.mux.Load()
	if mux == nil {
		return nil
	}
	return mux.States()
}

// checkNode asks the server about the Node.
func (h *nodeHealth) checkNode(ctx context.Context, r *health.Registry) {
	client := h.nodeClient()
	if client == nil {
		return
	}
	node, err := client.CoreV1().Nodes().Get(ctx, h.cfg.NodeName, metav1.GetOptions{})
	r.Report(err != nil, health.ServerUnreachable, "", fmt.Sprint(err))
	if err != nil {
		return
	}
	holds, detail := true, "the kubelet has not said anything yet"
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			holds, detail = c.Status != corev1.ConditionTrue, c.Message
		}
	}
	r.Report(holds, health.NodeNotReady, h.cfg.NodeName, detail)
}

// checkDNS asks the DNS server of this node for the API's own name.
func (h *nodeHealth) checkDNS(ctx context.Context, r *health.Registry) {
	joined := h.joined.Load()
	if joined == nil {
		return
	}
	address := netip.AddrPortFrom(joined.Config.ClusterDNS, 53).String()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	_, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+joined.Config.ClusterDomain+".")
	r.Report(err != nil, health.DNSNotServing, address, fmt.Sprint(err))
}

// knownServers are those of the node's load balancer; a node that runs beside
// its server has none.
func (h *nodeHealth) knownServers() []loadbalancer.ServerState {
	if h.joined.Load() == nil || h.access.balancer == nil { // in this order: it is made before
		return nil
	}
	return h.access.balancer.Servers()
}

// checkServers looks at servers that others stand in for.
func (h *nodeHealth) checkServers(_ context.Context, r *health.Registry) {
	var names []string
	if all := h.knownServers(); len(all) > 1 {
		for _, s := range all {
			names = append(names, s.Address)
			r.Report(s.Health == loadbalancer.NotReady || s.Health == loadbalancer.Dead, health.OneServerAway,
				s.Address, s.LastError)
		}
	}
	r.Keep(health.OneServerAway, names)
}

// checkPartitions looks at the partitions that the node takes pods from.
func (h *nodeHealth) checkPartitions(ctx context.Context, r *health.Registry) {
	if router := h.router.Load(); router != nil {
		router.Check(ctx, r)
	}
}

func (h *nodeHealth) serverMetrics(add func(name, help string, value float64, labels map[string]string)) {
	for _, s := range h.knownServers() {
		labels := map[string]string{"server": s.Address}
		ready := 0.0
		if s.Health == loadbalancer.Ready {
			ready = 1
		}
		add("loadbalancer_server_ready", "Whether a server is ready, as far as this node knows.", ready, labels)
		add("loadbalancer_server_connections", "Connections of this node to a server.", float64(s.Connections), labels)
		add("loadbalancer_server_dial_failures", "Connections to a server that could not be made.",
			float64(s.DialFailures), labels)
	}
}
