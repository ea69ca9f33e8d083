package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	cadvisor "github.com/google/cadvisor/lib/container/containerd"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/kubelet/settings"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/route"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/workload"
)

// readyInterval is how often readiness is looked at.
const readyInterval = 200 * time.Millisecond

// Name is the name of the component.
const Name = "kubelet"

// Options say how to run the kubelet.
type Options struct {
	// DataDir is a4s' data directory.
	DataDir string
	// Kubeconfig is the node's credential.
	Kubeconfig string
	// NodeName is the name of the Node object.
	NodeName string
	// NodeIPs are the node's addresses, one per IP family.
	NodeIPs []string
	// NodeExternalIPs are further addresses in the status of the Node, one
	// per IP family.
	NodeExternalIPs []string
	// NodeLabels ("key=value") and NodeTaints ("key=value:Effect") are set
	// when the node registers.
	NodeLabels []string
	NodeTaints []string
	// RuntimeEndpoint is the CRI socket, "unix:///...".
	RuntimeEndpoint string
	// ContainerdSocket is the API of the containerd below RuntimeEndpoint, from which
	// cAdvisor knows the names of containers; "" if there is none.
	ContainerdSocket string
	// ClientCA holds the CA of the clients that the kubelet's API accepts.
	ClientCA string
	// ServingCert and ServingKey are the serving certificate.
	ServingCert string
	ServingKey  string
	// ClusterDNS and ClusterDomain go into the resolver file of pods.
	ClusterDNS    string
	ClusterDomain string
	// ResolvConf is what pods with the node's DNS policy inherit; empty
	// means nothing.
	ResolvConf string
	// Host is what the machine allows.
	Host host.Info
	// Args are the operator's arguments, each "name=value".
	Args []string
	// Connection is the way to the API of the partition that has the node.
	Connection *Connection
	// Router is the way to the partitions that have the pods.
	Router *route.Router
	// NotReadyReason says why a pod of a type of workload cannot start on this
	// node; nil leaves the types of pods alone.
	NotReadyReason func(t workload.Type, hostNetwork bool) string
	// Log is where progress goes; nil means the standard logger.
	Log *logrus.Entry
}

// Connection is a way to the server, which may exist before the server does.
type Connection struct {
	// Server is the URL of the API.
	Server string
	// Transport carries requests there, with the node's credential.
	Transport http.RoundTripper
}

func (o Options) node() settings.Node {
	return settings.Node{
		DataDir:         o.DataDir,
		IPs:             o.NodeIPs,
		Taints:          o.NodeTaints,
		ClientCAFile:    o.ClientCA,
		CertFile:        o.ServingCert,
		KeyFile:         o.ServingKey,
		ClusterDNS:      o.ClusterDNS,
		ClusterDomain:   o.ClusterDomain,
		RuntimeEndpoint: o.RuntimeEndpoint,
		ResolvConf:      o.ResolvConf,
		Host:            o.Host,
	}
}

// New returns the component that runs the kubelet. It is ready when the
// kubelet is healthy and its Node object exists. Pods survive its end.
func New(o Options) component.Component {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	return component.Component{Name: Name, Run: o.run}
}

// Ports are those that the kubelet will listen on. It finds mistakes in the
// operator's labels, taints and arguments on the way, so it is meant to be
// called before anything starts.
func (o Options) Ports() ([]preflight.Port, error) {
	dir, err := os.MkdirTemp("", "a4s-kubelet")
	if err != nil {
		return nil, fmt.Errorf("checking the kubelet's configuration: %w", err)
	}
	server, err := o.server(filepath.Join(dir, "kubelet.yaml"))
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return nil, err
	}
	return ports(server), nil
}

// fileWatches is how many inotify instances the kubelet makes at its start.
const fileWatches = 4

func (o Options) run(ctx context.Context, ready func()) error {
	for _, dir := range []string{settings.RootDir(o.DataDir), settings.ManifestDir(o.DataDir)} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("making a directory for the kubelet: %w", err)
		}
	}
	server, err := o.server(settings.ConfigFile(o.DataDir))
	if err != nil {
		return err
	}
	if err := o.setAsideStates(server); err != nil {
		return err
	}
	// The kubelet exits the whole process when it cannot listen, or cannot
	// watch cgroups.
	if err := errors.Join(preflight.Ports(ports(server)...), preflight.FileWatches(fileWatches)); err != nil {
		return err
	}
	if o.ContainerdSocket != "" {
		// A flag of upstream's process, which has no other way.
		*cadvisor.ArgContainerdEndpoint = o.ContainerdSocket
	}
	gates := utilfeature.DefaultMutableFeatureGate
	if err := gates.SetFromMap(server.FeatureGates); err != nil {
		return fmt.Errorf("setting the kubelet's feature gates: %w", err)
	}
	gates.AddMetrics()
	deps, err := app.UnsecuredDependencies(ctx, server, gates)
	if err != nil {
		return fmt.Errorf("assembling the kubelet: %w", err)
	}
	between, err := o.origin(ctx, server)
	if err != nil {
		return err
	}
	c, err := newClients(server, o.Connection, func(http.RoundTripper) http.RoundTripper {
		return origin.New(o.Router, between)
	}, func(rt http.RoundTripper) http.RoundTripper {
		// Heartbeats wait for nothing but the servers of the node.
		return origin.New(origin.Direct(rt), origin.Options{NodeName: o.NodeName, ExternalIPs: o.NodeExternalIPs})
	})
	if err != nil {
		return fmt.Errorf("assembling the kubelet's clients: %w", err)
	}
	// Upstream keeps them only if all three are set.
	deps.KubeClient, deps.HeartbeatClient, deps.EventClient = c.kube, c.heartbeat, c.events
	deps.OnHeartbeatFailure = c.closeIdle

	go o.announce(ctx, server, c, ready)
	err = component.Contain(Name, func() error { return app.Run(ctx, server, deps, gates) })
	if ctx.Err() != nil {
		return err
	}
	if err == nil {
		err = component.ErrExited
	}
	if ofRuntime(err) {
		return err // before it has begun
	}
	// Its metrics are registered, and a second start in this process would only say
	// that they are.
	return component.Final(err)
}

// ofRuntime reports whether the kubelet ended because the runtime did not answer: it asks
// that before anything else, and no more once it has begun.
func ofRuntime(err error) bool {
	_, ok := status.FromError(err)
	return ok && err != nil
}

// origin are the options of the transport between the kubelet and the API. The
// kubelet's settings of name resolution are among them.
func (o Options) origin(ctx context.Context, server *options.KubeletServer) (origin.Options, error) {
	workloads, err := o.workloads(ctx)
	return origin.Options{
		ClusterDNS: server.ClusterDNS, ClusterDomain: server.ClusterDomain, ResolvConf: server.ResolverConfig,
		Workloads: workloads, NodeName: o.NodeName, ExternalIPs: o.NodeExternalIPs, Partition: o.Router.Partition,
	}, err
}

// workloads are what decides on the types of pods, nil if nothing does.
func (o Options) workloads(ctx context.Context) (*origin.Workloads, error) {
	if o.NotReadyReason == nil {
		return nil, nil
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: o.Connection.Server,
		Transport: origin.New(o.Router, origin.Options{})})
	if err != nil {
		return nil, fmt.Errorf("making the client of the types of pods: %w", err)
	}
	return origin.NewWorkloads(ctx,
			origin.WorkloadOptions{Client: client, NodeName: o.NodeName,
				NotReadyReason: o.NotReadyReason, Log: o.Log}),
		nil
}

// announce calls ready once the kubelet is healthy and registered.
func (o Options) announce(ctx context.Context, server *options.KubeletServer, c *clients, ready func()) {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	last := ""
	for {
		err := errors.Join(checkHealth(ctx, server), checkNode(ctx, c, o.NodeName))
		if err == nil {
			ready()
			return
		}
		if err.Error() != last {
			last = err.Error()
			o.Log.WithError(err).Debug("not ready yet")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func checkHealth(ctx context.Context, server *options.KubeletServer) error {
	if server.HealthzPort == 0 {
		return nil // turned off by the operator
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	url := "http://" + net.JoinHostPort(server.HealthzBindAddress, strconv.Itoa(int(server.HealthzPort))) + "/healthz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking for the kubelet's health: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking for the kubelet's health: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the kubelet's health is %s", resp.Status)
	}
	return nil
}

func checkNode(ctx context.Context, c *clients, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := c.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("looking for the Node object: %w", err)
	}
	return nil
}

// ports are those that the operator has not turned off.
func ports(server *options.KubeletServer) []preflight.Port {
	all := []preflight.Port{
		{Address: server.Address, Port: int(server.Port), What: "kubelet", Flag: "--kubelet-arg port=PORT"},
		{Address: server.HealthzBindAddress, Port: int(server.HealthzPort), What: "kubelet health",
			Flag: "--kubelet-arg healthz-port=PORT"},
		{Address: server.Address, Port: int(server.ReadOnlyPort), What: "kubelet without authentication",
			Flag: "--kubelet-arg read-only-port=PORT"},
	}
	return slices.DeleteFunc(all, func(p preflight.Port) bool { return p.Port == 0 })
}
