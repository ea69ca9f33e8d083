package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	applyadmission "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/discovery"
	k8sscheme "k8s.io/client-go/kubernetes/scheme"
	typedadmission "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	listers "k8s.io/client-go/listers/admissionregistration/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	"k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// typeChecks writes what is wrong with the types in ValidatingAdmissionPolicies, as upstream's controller does, but
// by the kinds of the space that a policy is in: upstream's knows those of one cluster.
type typeChecks struct {
	policies listers.ValidatingAdmissionPolicyLister
	client   typedadmission.ValidatingAdmissionPolicyInterface
	// kindsOf are the kinds that only a space has, builtin and mapper those of Kubernetes.
	kindsOf func(tenant string) (discovery.DiscoveryInterface, error)
	builtin *resolver.DefinitionsSchemaResolver
	mapper  meta.RESTMapper
	turns   *spaceTurns
	log     *logrus.Entry
}

// typeChecks makes them, if they are wanted.
func (m *manager) typeChecks(cc app.ControllerContext) ([]app.Controller, error) {
	const name = names.ValidatingAdmissionPolicyStatusController
	if !cc.IsControllerEnabled(app.NewControllerDescriptors()[name]) {
		return nil, nil
	}
	config, err := cc.ClientBuilder.Config(name)
	if err != nil {
		return nil, fmt.Errorf("configuring the client of the %s: %w", name, err)
	}
	client, err := cc.NewClient(name)
	if err != nil {
		return nil, fmt.Errorf("making the client of the %s: %w", name, err)
	}
	policies := cc.InformerFactory.Admissionregistration().V1().ValidatingAdmissionPolicies()
	c := &typeChecks{
		policies: policies.Lister(), client: client.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		kindsOf: func(tenant string) (discovery.DiscoveryInterface, error) { return kindsOf(config, tenant) },
		builtin: resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, k8sscheme.Scheme,
			apiextensionsscheme.Scheme),
		mapper: cc.RESTMapper, turns: newSpaceTurns(time.Second), log: m.log,
	}
	handler, err := policies.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.changed,
		UpdateFunc: func(_, policy any) { c.changed(policy) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching policies for the %s: %w", name, err)
	}
	workers := int(cc.ComponentConfig.ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs)
	return []app.Controller{loop{name, func(ctx context.Context) { c.run(ctx, workers, handler.HasSynced) }}}, nil
}

// kindsOf is the discovery of one space.
func kindsOf(config *restclient.Config, tenant string) (discovery.DiscoveryInterface, error) {
	return discovery.NewDiscoveryClientForConfig(tenantapi.InSpace(config, tenant))
}

func (c *typeChecks) changed(policy any) {
	if p, ok := policy.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok && !checked(p) {
		c.turns.add(p.Name)
	}
}

func checked(policy *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return policy.Generation <= policy.Status.ObservedGeneration
}

func (c *typeChecks) run(ctx context.Context, workers int, synced cache.InformerSynced) {
	var running sync.WaitGroup
	defer running.Wait()
	defer c.turns.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return
	}
	for range workers {
		running.Go(func() {
			for c.turns.next(func(name string, last bool) error { return c.sync(ctx, name, last) }) {
			}
		})
	}
	<-ctx.Done()
}

// sync checks a policy. At the last try, what could not be read is as if it was not there.
func (c *typeChecks) sync(ctx context.Context, name string, last bool) error {
	policy, err := c.policies.Get(name)
	if err != nil || checked(policy) {
		return nil //nolint:nilerr // it is gone
	}
	tenant, native := space.SplitClusterName(name)
	kinds := newKindsOfSpace(c.mapper, func() (discovery.DiscoveryInterface, error) { return c.kindsOf(tenant) })
	checker := &validating.TypeChecker{SchemaResolver: c.builtin.Combine(kinds), RestMapper: kinds}
	warnings := checker.Check(policy)
	if err := kinds.failed; err != nil {
		c.log.WithError(err).WithField("tenant", tenant).Warnf("Checking types in ValidatingAdmissionPolicy %s",
			native)
		if !last {
			return err
		}
	}
	checking := applyadmission.TypeChecking()
	for _, w := range warnings {
		checking.WithExpressionWarnings(applyadmission.ExpressionWarning().WithFieldRef(w.FieldRef).
			WithWarning(w.Warning))
	}
	status := applyadmission.ValidatingAdmissionPolicyStatus().WithObservedGeneration(policy.Generation).
		WithTypeChecking(checking)
	_, err = c.client.ApplyStatus(ctx, applyadmission.ValidatingAdmissionPolicy(name).WithStatus(status),
		metav1.ApplyOptions{FieldManager: validatingadmissionpolicystatus.ControllerName, Force: true})
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
		c.log.WithError(err).WithField("tenant", tenant).Warnf("Writing the status of ValidatingAdmissionPolicy %s",
			native)
		return err
	}
	return nil
}

// spaceTurns have policies worked on, those of a space one after the other, and one space after the other: what one
// tenant has keeps one worker.
type spaceTurns struct {
	// queue has the spaces with policies that wait.
	queue workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex
	waiting map[string]map[string]bool
}

// tries is how often in a row something is tried in a space.
const tries = 5

func newSpaceTurns(rest time.Duration) *spaceTurns {
	return &spaceTurns{waiting: map[string]map[string]bool{}, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](rest, time.Minute))}
}

// add has a policy worked on.
func (t *spaceTurns) add(name string) {
	tenant, _ := space.SplitClusterName(name)
	t.put(tenant, name)
	t.queue.Add(tenant)
}

func (t *spaceTurns) put(tenant, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting[tenant] == nil {
		t.waiting[tenant] = map[string]bool{}
	}
	t.waiting[tenant][name] = true
}

// take is one of those that wait.
func (t *spaceTurns) take(tenant string) (name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name = range t.waiting[tenant] {
		break
	}
	if delete(t.waiting[tenant], name); len(t.waiting[tenant]) == 0 {
		delete(t.waiting, tenant)
	}
	return name
}

// next waits for a policy, and works on it. It returns false when there will be no more.
func (t *spaceTurns) next(work func(name string, last bool) error) bool {
	tenant, ended := t.queue.Get()
	if ended {
		return false
	}
	defer t.queue.Done(tenant)
	name := t.take(tenant)
	if name == "" {
		return true
	}
	if err := work(name, t.queue.NumRequeues(tenant)+1 >= tries); err != nil {
		t.put(tenant, name)
		t.queue.AddRateLimited(tenant)
		return true
	}
	t.queue.Forget(tenant)
	t.mu.Lock()
	more := len(t.waiting[tenant]) > 0
	t.mu.Unlock()
	if more {
		t.queue.Add(tenant)
	}
	return true
}

// kindsOfSpace are the kinds of Kubernetes, and those of a space, which are asked for when they are first needed.
// Upstream's checker takes what cannot be asked for as what is not there, so that is kept.
type kindsOfSpace struct {
	meta.RESTMapper // of the kinds of Kubernetes
	discovery       func() (discovery.DiscoveryInterface, error)
	found           func() (meta.RESTMapper, error)
	failed          error
}

func newKindsOfSpace(builtin meta.RESTMapper, of func() (discovery.DiscoveryInterface, error)) *kindsOfSpace {
	k := &kindsOfSpace{RESTMapper: builtin, discovery: sync.OnceValues(of)}
	k.found = sync.OnceValues(func() (meta.RESTMapper, error) {
		d, err := k.discovery()
		if err != nil {
			return nil, err
		}
		groups, err := restmapper.GetAPIGroupResources(d)
		if err != nil {
			return nil, err
		}
		return restmapper.NewDiscoveryRESTMapper(groups), nil
	})
	return k
}

// KindsFor implements meta.RESTMapper.
func (k *kindsOfSpace) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	if k8sscheme.Scheme.IsGroupRegistered(resource.Group) {
		return k.RESTMapper.KindsFor(resource)
	}
	mapper, err := k.found()
	if err != nil {
		k.failed = fmt.Errorf("reading the kinds of the space: %w", err)
		return nil, k.failed
	}
	return mapper.KindsFor(resource)
}

// ResolveSchema implements resolver.SchemaResolver.
func (k *kindsOfSpace) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	d, err := k.discovery()
	if err != nil {
		k.failed = fmt.Errorf("reading the schema of %s: %w", kind, err)
		return nil, k.failed
	}
	found, err := (&resolver.ClientDiscoveryResolver{Discovery: d}).ResolveSchema(kind)
	if err != nil && !errors.Is(err, resolver.ErrSchemaNotFound) {
		k.failed = fmt.Errorf("reading the schema of %s: %w", kind, err)
	}
	return found, err
}
