package resourcemetrics

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/metrics-server/pkg/api"
	"sigs.k8s.io/metrics-server/pkg/api/generated/openapi"
	"sigs.k8s.io/metrics-server/pkg/scraper"
	"sigs.k8s.io/metrics-server/pkg/storage"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
)

const (
	// resolution is how often nodes are asked. A rate needs two answers.
	resolution = 15 * time.Second
	// firstResolution is that of a server that has just started, which would
	// know nothing for long otherwise.
	firstResolution = 5 * time.Second
	// firstRounds is for how many rounds it holds.
	firstRounds = 12
	// timeout bounds how long one node is waited for.
	timeout = 10 * time.Second
)

// Options configures the metrics.
type Options struct {
	// Partition is that of the server, empty for home: nodes know the pods of its system
	// space by a qualified namespace.
	Partition string
	// Kubelet is the identity that kubelets accept, and who signs theirs.
	Kubelet rest.TLSClientConfig
}

// Metrics asks nodes for what they and their pods use, and serves it.
type Metrics struct {
	kubelets *kubelets
	store    storage.Storage
	// known is the cluster as the API server knows it, nil before it is made.
	known atomic.Pointer[cluster]
}

// cluster is what one API server knows; it may be made again.
type cluster struct {
	nodes  corelisters.NodeLister
	pods   corelisters.PodLister
	synced []func() bool
	scrape scraper.Scraper
}

// New makes metrics of nothing yet.
func New(o Options) (*Metrics, error) {
	m := &Metrics{store: storage.NewStorage(resolution)}
	var err error
	if m.kubelets, err = newKubelets(o, m.runsOn); err != nil {
		return nil, err
	}
	return m, nil
}

// Scheme has the types of the API.
func Scheme() *runtime.Scheme { return api.Scheme }

// Definitions are the OpenAPI models of the API.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := openapi.GetOpenAPIDefinitions(ref)
	own := map[string]common.OpenAPIDefinition{}
	for _, model := range []interface{ OpenAPIModelName() string }{
		v1beta1.ContainerMetrics{}, v1beta1.NodeMetrics{}, v1beta1.NodeMetricsList{}, v1beta1.PodMetrics{},
		v1beta1.PodMetricsList{},
	} {
		own[model.OpenAPIModelName()] = all[model.OpenAPIModelName()]
	}
	return own
}

// Install adds the API to a server that keeps what is in the informers.
func (m *Metrics) Install(server *genericapiserver.GenericAPIServer, f informers.SharedInformerFactory) error {
	core := f.Core().V1()
	c := &cluster{nodes: core.Nodes().Lister(), pods: core.Pods().Lister(),
		synced: []func() bool{core.Nodes().Informer().HasSynced, core.Pods().Informer().HasSynced}}
	c.scrape = scraper.NewScraper(c.nodes, m.kubelets, timeout, nil)
	info := api.Build(&podStorage{cluster: c, metrics: m.store}, &nodeStorage{cluster: c, metrics: m.store})
	if err := server.InstallAPIGroup(&info); err != nil {
		return fmt.Errorf("installing the metrics API: %w", err)
	}
	m.known.Store(c)
	return nil
}

// Component asks the nodes.
func (m *Metrics) Component() component.Component {
	return component.Component{Name: config.AddonMetricsServer, Run: func(ctx context.Context, ready func()) error {
		ready()
		for round := 0; ; round++ {
			if c := m.known.Load(); c != nil && c.hasSynced() {
				m.store.Store(c.scrape.Scrape(ctx))
			}
			pause := resolution
			if round < firstRounds {
				pause = firstResolution
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
		}
	}}
}

func (c *cluster) hasSynced() bool {
	for _, synced := range c.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// runsOn reports whether a pod is on a node.
func (m *Metrics) runsOn(namespace, name, node string) bool {
	c := m.known.Load()
	if c == nil {
		return false
	}
	pod, err := c.pods.Pods(namespace).Get(name)
	return err == nil && pod.Spec.NodeName == node && pod.Status.Phase == corev1.PodRunning
}
