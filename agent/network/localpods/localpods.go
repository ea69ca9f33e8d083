package localpods

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
)

// Name is the name of the component.
const Name = "local-pods"

// DefaultResults is where the CNI library records what it attached.
const DefaultResults = "/var/lib/cni/results"

// lookEvery is how often the records are looked at; it costs one stat.
const lookEvery = 100 * time.Millisecond

// Pod is what is known about the pod behind an address.
type Pod struct {
	// Tenant is the space it runs in.
	Tenant string
	// Shared says that the system space lends it to tenants.
	Shared bool
}

// Owner names the pod behind an address.
type Owner struct {
	Namespace, Name string
	// UID is the one that the kubelet knows the pod by; empty where the
	// container network did not record it.
	UID string
}

// Options configure Pods.
type Options struct {
	// Client may list and watch the pods of the node.
	Client kubernetes.Interface
	// NodeName is the name of the Node object.
	NodeName string
	// Results is the directory of the CNI library's records; empty means
	// DefaultResults.
	Results string
	// Log may be nil.
	Log *logrus.Entry
}

// Pods are the pods of this node by address. All methods may be called at any
// time, also while the component does not run.
type Pods struct {
	opts Options

	mu      sync.RWMutex
	results results
	fromAPI []*corev1.Pod
	byAddr  map[netip.Addr]Pod
	owners  map[netip.Addr]Owner
	changed []func()
}

// New returns Pods that know what is attached at this moment.
func New(o Options) *Pods {
	if o.Results == "" {
		o.Results = DefaultResults
	}
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	p := &Pods{opts: o, results: results{dir: o.Results, log: o.Log}}
	p.look()
	return p
}

// Tenant returns the tenant whose pod has addr.
func (p *Pods) Tenant(addr netip.Addr) (string, bool) {
	pod, ok := p.get(addr)
	if !ok {
		p.look() // it may have been attached just now
		pod, ok = p.get(addr)
	}
	return pod.Tenant, ok
}

func (p *Pods) get(addr netip.Addr) (Pod, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	pod, ok := p.byAddr[addr]
	return pod, ok
}

// All returns every pod that has an address.
func (p *Pods) All() map[netip.Addr]Pod {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return maps.Clone(p.byAddr)
}

// Owners returns the name of every pod that has an address.
func (p *Pods) Owners() map[netip.Addr]Owner {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return maps.Clone(p.owners)
}

// OnChange has f called after every change. f must return soon.
func (p *Pods) OnChange(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = append(p.changed, f)
}

// Component returns what keeps p up to date. It is ready when the API has told
// the node's pods.
func (p *Pods) Component() component.Component {
	return component.Component{Name: Name, Run: p.run}
}

func (p *Pods) run(ctx context.Context, ready func()) error {
	factory := informers.NewSharedInformerFactoryWithOptions(p.opts.Client, 0, informers.WithTransform(trim),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", p.opts.NodeName).String()
		}))
	defer factory.Shutdown()
	informer := factory.Core().V1().Pods().Informer()
	dirty := make(chan struct{}, 1)
	mark := func(any) {
		select {
		case dirty <- struct{}{}:
		default: // marked already
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: mark, UpdateFunc: func(_, obj any) { mark(obj) }, DeleteFunc: mark,
	}); err != nil {
		return fmt.Errorf("watching the node's pods: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before Shutdown, which waits
	factory.StartWithContext(ctx)

	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	synced := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-dirty:
		case <-tick.C:
			p.look()
			if synced || !informer.HasSynced() {
				continue
			}
		}
		if !informer.HasSynced() {
			continue // half a list is not the state of anything
		}
		p.replace(informer.GetStore().List())
		if !synced {
			synced = true
			ready()
		}
	}
}

// replace takes over what the API says.
func (p *Pods) replace(objs []any) {
	pods := make([]*corev1.Pod, 0, len(objs))
	for _, o := range objs {
		if pod, ok := o.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	p.mu.Lock()
	p.fromAPI = pods
	p.merge()
}

// look takes over what was attached since the last look.
func (p *Pods) look() {
	p.mu.Lock()
	if !p.results.refresh() {
		p.mu.Unlock()
		return
	}
	p.merge()
}

// merge computes the state anew, unlocks, and says of a change.
func (p *Pods) merge() {
	merged := map[netip.Addr]Pod{}
	owners := map[netip.Addr]Owner{}
	shared := map[string]bool{}
	for _, pod := range p.fromAPI {
		tenant, _ := space.SplitNamespace(pod.Namespace)
		shared[pod.Namespace+"/"+pod.Name] = IsShared(pod)
		for _, addr := range Addresses(pod) {
			merged[addr] = Pod{Tenant: tenant, Shared: IsShared(pod)}
			owners[addr] = Owner{Namespace: pod.Namespace, Name: pod.Name}
		}
	}
	for addr, r := range p.results.byAddr {
		tenant, _ := space.SplitNamespace(r.namespace)
		merged[addr] = Pod{Tenant: tenant, Shared: shared[r.namespace+"/"+r.name]}
		owners[addr] = Owner{Namespace: r.namespace, Name: r.name, UID: r.uid}
	}
	same := maps.Equal(merged, p.byAddr) && maps.Equal(owners, p.owners)
	p.byAddr, p.owners = merged, owners
	changed := p.changed
	p.mu.Unlock()
	if !same {
		for _, f := range changed {
			f()
		}
	}
}

// IsShared reports whether the system space lends pod to tenants. A label does
// as well as an annotation.
func IsShared(pod *corev1.Pod) bool {
	tenant, _ := space.SplitNamespace(pod.Namespace)
	return space.IsSystem(tenant) && (pod.Annotations[space.Shared] == "true" || pod.Labels[space.Shared] == "true")
}

// Addresses are those that pod has for itself at this moment.
func Addresses(pod *corev1.Pod) []netip.Addr {
	if pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var out []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// trim keeps what is read here.
func trim(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion},
		Spec:   corev1.PodSpec{HostNetwork: pod.Spec.HostNetwork},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs},
	}
	if IsShared(pod) {
		kept.Annotations = map[string]string{space.Shared: "true"}
	}
	return kept, nil
}
