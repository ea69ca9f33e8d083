package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/config"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/a4s-io/a4s/server/controlplane/controllers/gate"
	"github.com/a4s-io/a4s/server/controlplane/noderanges"
	"github.com/a4s-io/a4s/server/controlplane/owners"
)

// kindsPeriod is how often the controllers forget which kinds there are, and so
// learn of new ones; upstream's.
const kindsPeriod = 30 * time.Second

// manager runs upstream's controllers as app.Run does without a port and
// without an election, with informers of our own making.
type manager struct {
	config *config.CompletedConfig
	// name is that of the informers; no two managers of a process have the same.
	name string
	// root has the rights of the controller manager itself.
	root gate.Builder
	// transform is what all informers do with what they keep.
	transform cache.TransformFunc
	// built is called when all controllers are made and begin to run.
	built func()
	// await is Options.Await.
	await func(context.Context) (context.Context, context.CancelFunc, error)
	// copies is Options.Copies, and podGC Options.PodGC.
	copies string
	podGC  func(context.Context) bool
	// owners is what the garbage collector sees of the spaces.
	owners *owners.View
	// ranges are those that nodes can have.
	ranges []noderanges.Range
	log    *logrus.Entry
}

// byUpstream says that the settings want what only app.Run has.
func byUpstream(c *config.CompletedConfig) bool {
	return c.SecureServing != nil || c.ComponentConfig.Generic.LeaderElection.LeaderElect
}

func (m *manager) run(ctx context.Context) (err error) {
	m.root = clientbuilder.SimpleControllerClientBuilder{ClientConfig: m.config.Kubeconfig}
	m.config.EventBroadcaster.StartStructuredLogging(0)
	m.config.EventBroadcaster.StartRecordingToSink(&v1core.EventSinkImpl{
		Interface: m.config.Client.CoreV1().Events(""),
	})
	defer m.config.EventBroadcaster.Shutdown()

	cc, err := m.context(ctx)
	if err != nil {
		return err
	}
	defer cc.InformerFactory.Shutdown()
	controllers, err := m.controllers(ctx, cc)
	if err != nil {
		return err
	}
	m.built()
	if m.await != nil {
		// They are made before, because that has to happen before a kubelet of
		// this process starts; see running.
		led, cancel, err := m.await(ctx)
		if err != nil {
			return nil // ctx ended
		}
		defer cancel()
		defer func(outer context.Context) {
			if err == nil && outer.Err() == nil {
				err = context.Cause(led)
			}
		}(ctx)
		ctx = led
	}
	cc.InformerFactory.Start(ctx.Done())
	cc.ObjectOrMetadataInformerFactory.Start(ctx.Done())
	close(cc.InformersStarted)
	if !app.RunControllers(ctx, cc, controllers, app.ControllerStartJitter, m.config.ControllerShutdownTimeout) {
		return errors.New("some controllers did not end in time")
	}
	return nil
}

// clients makes the clients of the controllers.
func (m *manager) clients() gate.Builder {
	if !m.config.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials {
		return m.root
	}
	return clientbuilder.NewDynamicClientBuilder(restclient.AnonymousClientConfig(m.config.Kubeconfig),
		m.config.Client.CoreV1(), metav1.NamespaceSystem)
}

// context is what upstream makes controllers with, and our informers in it.
// Upstream's own maker of it waits until the API server is healthy, so for hooks
// that the controllers do not need.
func (m *manager) context(ctx context.Context) (app.ControllerContext, error) {
	cc := app.ControllerContext{
		ClientBuilder:            m.clients(),
		ComponentConfig:          m.config.ComponentConfig,
		InformersStarted:         make(chan struct{}),
		ResyncPeriod:             app.ResyncPeriod(m.config),
		ControllerManagerMetrics: controllersmetrics.NewControllerManagerMetrics(Name),
	}
	controllersmetrics.Register()
	discovery, err := m.root.DiscoveryClient("controller-discovery")
	if err != nil {
		return cc, fmt.Errorf("making the discovery client of the controllers: %w", err)
	}
	cc.RESTMapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
	go wait.UntilWithContext(ctx, func(context.Context) { cc.RESTMapper.Reset() }, kindsPeriod)
	m.owners = owners.New(cc.RESTMapper)
	informerName, err := cache.NewInformerName(m.name)
	if err != nil {
		return cc, fmt.Errorf("naming the informers of the controllers: %w", err)
	}
	client, err := m.root.Client(informerClient)
	if err != nil {
		return cc, fmt.Errorf("making the client of the controllers' informers: %w", err)
	}
	metadataConfig, err := m.root.Config("metadata-informers")
	if err != nil {
		return cc, fmt.Errorf("configuring the client of the controllers' informers: %w", err)
	}
	partial, err := metadata.NewForConfig(metadataConfig)
	if err != nil {
		return cc, fmt.Errorf("making the client of the controllers' informers: %w", err)
	}
	cc.InformerFactory = m.informers(client, cc, informerName)
	cc.ObjectOrMetadataInformerFactory = &endingInformers{
		typed: cc.InformerFactory, transform: m.transform, goneAfter: goneAfter,
		metadata: func(r schema.GroupVersionResource) informers.GenericInformer {
			return metadatainformer.NewFilteredMetadataInformer(partial, r, metav1.NamespaceAll, cc.ResyncPeriod(),
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
		},
		of: map[schema.GroupVersionResource]*endingInformer{},
	}
	if gc := cc.ComponentConfig.GarbageCollectorController; gc.EnableGarbageCollector &&
		cc.IsControllerEnabled(app.NewControllerDescriptors()[names.GarbageCollectorController]) {
		ignored := map[schema.GroupResource]struct{}{}
		for _, r := range gc.GCIgnoredResources {
			ignored[schema.GroupResource{Group: r.Group, Resource: r.Resource}] = struct{}{}
		}
		cc.GraphBuilder = garbagecollector.NewDependencyGraphBuilder(ctx, partial, cc.RESTMapper, ignored,
			m.owners.Informers(cc.ObjectOrMetadataInformerFactory), cc.InformersStarted)
	}
	return cc, nil
}

// informers are those of the controllers.
func (m *manager) informers(
	client kubernetes.Interface, cc app.ControllerContext, name *cache.InformerName,
) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, cc.ResyncPeriod(),
		informers.WithTransform(m.transform), informers.WithInformerName(name))
}

// controllers makes all that are wanted. That of the tokens in secrets comes
// first, as it does upstream.
func (m *manager) controllers(ctx context.Context, cc app.ControllerContext) ([]app.Controller, error) {
	first, err := m.tokens(ctx, cc)
	if err != nil {
		return nil, err
	}
	collecting, err := m.collector(ctx, cc)
	if err != nil {
		return nil, err
	}
	checks, err := m.typeChecks(cc)
	if err != nil {
		return nil, err
	}
	first = append(append(first, collecting...), checks...)
	descriptors := app.NewControllerDescriptors()
	for _, made := range []string{names.ServiceAccountTokenController, names.GarbageCollectorController,
		names.ValidatingAdmissionPolicyStatusController} {
		delete(descriptors, made)
	}
	own, wanted := cc, []string{names.NodeIpamController}
	if m.copies != "" {
		own, wanted = withoutCopies(cc, m.copies), ofNodes()
	}
	descriptors, nodes := split(descriptors, wanted)
	kept, err := app.BuildControllers(ctx, withFitRanges(own, m.ranges, m.log), nodes, nil, noHealth{})
	if err != nil {
		return nil, fmt.Errorf("building the controllers of nodes: %w", err)
	}
	first = append(first, kept...)
	held, descriptors, err := m.gated(ctx, cc, descriptors)
	if err != nil {
		return nil, err
	}
	all, err := app.BuildControllers(ctx, cc, descriptors, nil, noHealth{})
	if err != nil {
		return nil, fmt.Errorf("building the controllers: %w", err)
	}
	first = append(first, held...)
	for i, c := range all {
		if m.podGC != nil && c.Name() == names.PodGarbageCollectorController {
			all[i] = loop{c.Name(), func(ctx context.Context) {
				if m.podGC(ctx) {
					c.Run(ctx)
				}
			}}
		}
	}
	return append(first, all...), nil
}

// tokens is the controller of service accounts' tokens in secrets. Upstream
// does not export its descriptor.
func (m *manager) tokens(ctx context.Context, cc app.ControllerContext) ([]app.Controller, error) {
	o := cc.ComponentConfig.SAController
	if o.ServiceAccountKeyFile == "" {
		return nil, nil
	}
	key, err := keyutil.PrivateKeyFromFile(o.ServiceAccountKeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the key of service accounts: %w", err)
	}
	ca := m.config.Kubeconfig.CAData
	if o.RootCAFile != "" {
		if ca, err = os.ReadFile(o.RootCAFile); err != nil {
			return nil, fmt.Errorf("reading the CA of service accounts: %w", err)
		}
	}
	client, err := m.root.Client("tokens-controller")
	if err != nil {
		return nil, fmt.Errorf("making the client of the %s: %w", names.ServiceAccountTokenController, err)
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
	if err != nil {
		return nil, fmt.Errorf("making the issuer of tokens: %w", err)
	}
	c, err := serviceaccount.NewTokensController(klog.FromContext(ctx),
		cc.InformerFactory.Core().V1().ServiceAccounts(), cc.InformerFactory.Core().V1().Secrets(), client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: ca})
	if err != nil {
		return nil, fmt.Errorf("making the %s: %w", names.ServiceAccountTokenController, err)
	}
	workers := int(o.ConcurrentSATokenSyncs)
	return []app.Controller{
		loop{names.ServiceAccountTokenController, func(ctx context.Context) { c.Run(ctx, workers) }},
	}, nil
}

// loop is a controller of upstream's kind.
type loop struct {
	name string
	run  func(context.Context)
}

// Name implements app.Controller.
func (l loop) Name() string { return l.name }

// Run implements app.Controller.
func (l loop) Run(ctx context.Context) { l.run(ctx) }

// noHealth drops the health checks of controllers: there is no port to ask at.
type noHealth struct{}

// AddHealthChecker implements app.HealthCheckAdder.
func (noHealth) AddHealthChecker(...healthz.HealthChecker) {}
