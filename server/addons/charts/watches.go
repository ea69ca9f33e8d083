package charts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/server/addons/charts/reconcile"
)

// watches tell which HelmCharts to look at. They hold names and revisions, not objects: a HelmChart can have a whole
// chart in it. Except for the one of HelmCharts, each begins when something needs it.
type watches struct {
	ctx    context.Context
	client metadata.Interface
	queue  queue
	// mine reports whether a namespace is one whose HelmCharts are to be looked at.
	mine    func(namespace string) bool
	running sync.WaitGroup

	mu sync.Mutex
	// begun are the watches that there are, by kind and namespace.
	begun map[watched]begun
	// users are the HelmCharts that have values in a Secret, by namespace and Secret.
	users map[string]map[string]map[string]bool
}

// watched is what a watch is of.
type watched struct {
	of        schema.GroupVersionResource
	namespace string
}

// begun is a watch.
type begun struct {
	synced cache.InformerSynced
	found  cache.Store
	end    context.CancelFunc
}

func newWatches(ctx context.Context, client metadata.Interface, q queue, mine func(string) bool) *watches {
	return &watches{ctx: ctx, client: client, queue: q, mine: mine, begun: map[watched]begun{},
		users: map[string]map[string]map[string]bool{}}
}

// all is for watches of one space.
func all(string) bool { return true }

// wait returns when all have ended.
func (w *watches) wait() { w.running.Wait() }

// charts watches HelmCharts.
func (w *watches) charts() error {
	_, err := w.begin(reconcile.Charts(), metav1.NamespaceAll, true, w.anew)
	return err
}

// known are the HelmCharts that the watch has told of, and not of their end.
func (w *watches) known() cache.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun[watched{reconcile.Charts(), metav1.NamespaceAll}].found
}

// HasChart reports whether the watch of HelmCharts has told of one, and not of its end.
func (w *watches) HasChart(key types.NamespacedName) bool {
	_, ok, err := w.known().GetByKey(key.String())
	return ok && err == nil
}

// Behind reports whether a HelmChart that was read is older than what its watch has told.
func (w *watches) Behind(read metav1.Object) bool {
	return w.told(types.NamespacedName{Namespace: read.GetNamespace(), Name: read.GetName()}).NewerThan(read)
}

// told is what the watch has told of a HelmChart.
func (w *watches) told(key types.NamespacedName) reconcile.Told {
	obj, _, err := w.known().GetByKey(key.String())
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if err != nil || !ok {
		return reconcile.Told{}
	}
	by := m.Annotations[reconcile.ManagedByAnnotation]
	return reconcile.Told{UID: m.UID, Generation: m.Generation, Ends: m.DeletionTimestamp != nil,
		Others: by != "" && by != reconcile.ManagedBy}
}

// lookAtEnds has HelmCharts looked at, now and then, that wait for their end: whatever has kept one, nothing would
// tell of it any more.
func (w *watches) lookAtEnds() {
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
			w.addEnding()
		}
	}
}

// addEnding queues the HelmCharts that are being deleted and that we keep. Those that are tried again already stay in
// their turn.
func (w *watches) addEnding() {
	for _, obj := range w.known().List() {
		m, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok || m.DeletionTimestamp == nil || len(m.Finalizers) == 0 || !w.mine(m.Namespace) {
			continue
		}
		if key := (types.NamespacedName{Namespace: m.Namespace, Name: m.Name}); w.queue.NumRequeues(key) == 0 {
			w.queue.Add(key)
		}
	}
}

// Configs watches HelmChartConfigs. One has the name of its HelmChart. What is read after it returns is watched.
func (w *watches) Configs() error {
	synced, err := w.begin(reconcile.Configs(), metav1.NamespaceAll, false, w.anew)
	if err != nil {
		return err
	}
	return w.await("HelmChartConfigs", synced)
}

// Secrets watches those that a HelmChart has values in, which need not be there yet, and no longer those that it had.
// What is read after it returns is watched.
func (w *watches) Secrets(chart types.NamespacedName, names map[string]bool) error {
	w.forgetSecrets(chart, names)
	if len(names) == 0 {
		return nil
	}
	w.mu.Lock()
	in := w.users[chart.Namespace]
	if in == nil {
		in = map[string]map[string]bool{}
		w.users[chart.Namespace] = in
	}
	for name := range names {
		if in[name] == nil {
			in[name] = map[string]bool{}
		}
		in[name][chart.Name] = true
	}
	w.mu.Unlock()
	synced, err := w.begin(secretResource(), chart.Namespace, false, w.used)
	if err != nil {
		return err
	}
	return w.await("Secrets of namespace "+chart.Namespace, synced)
}

// forgetSecrets ends what is watched for a HelmChart but the Secrets of these names.
func (w *watches) forgetSecrets(chart types.NamespacedName, but map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in := w.users[chart.Namespace]
	for secret, users := range in {
		if !but[secret] {
			delete(users, chart.Name)
		}
		if len(users) == 0 {
			delete(in, secret)
		}
	}
	if len(in) > 0 || len(but) > 0 {
		return
	}
	delete(w.users, chart.Namespace)
	key := watched{secretResource(), chart.Namespace}
	if b, ok := w.begun[key]; ok {
		b.end()
		delete(w.begun, key)
	}
}

// secretsOf are the Secrets that are watched for a HelmChart, none while their watch has told nothing yet.
func (w *watches) secretsOf(chart types.NamespacedName) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := map[string]bool{}
	if b, ok := w.begun[watched{secretResource(), chart.Namespace}]; !ok || !b.synced() {
		return names
	}
	for secret, users := range w.users[chart.Namespace] {
		if users[chart.Name] {
			names[secret] = true
		}
	}
	return names
}

// use is how much is watched for Secrets.
type use struct {
	// here is whether it is in a namespace already.
	here bool
	// namespaces are those of some kind in which it is, allNamespaces all.
	namespaces, allNamespaces int
	// secrets are those in namespaces of that kind, once for each HelmChart that has values in it.
	secrets int
}

// useBeside is what is watched beside what a HelmChart has.
func (w *watches) useBeside(chart types.NamespacedName, of func(namespace string) bool) use {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := use{here: w.users[chart.Namespace] != nil, allNamespaces: len(w.users)}
	for namespace, in := range w.users {
		if !of(namespace) {
			continue
		}
		out.namespaces++
		for _, users := range in {
			if out.secrets += len(users); namespace == chart.Namespace && users[chart.Name] {
				out.secrets--
			}
		}
	}
	return out
}

func secretResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

// patience is how long a watch is waited for: what the API refuses to list holds up no other HelmChart.
const patience = 15 * time.Second

// endsEvery is how often HelmCharts that are being deleted are looked at.
const endsEvery = time.Minute

// errNoWatch is a watch that has not begun.
var errNoWatch = errors.New("the API has not listed them yet")

// await waits until a watch has begun.
func (w *watches) await(of string, synced cache.InformerSynced) error {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if cache.WaitForCacheSync(ctx.Done(), synced) {
		return nil
	}
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	return fmt.Errorf("watching %s: %w", of, errNoWatch)
}

// anew has a HelmChart looked at as if nothing had failed yet.
func (w *watches) anew(key types.NamespacedName) {
	w.queue.Forget(key)
	w.queue.Add(key)
}

// used has those looked at that have values in a Secret.
func (w *watches) used(secret types.NamespacedName) {
	w.mu.Lock()
	users := maps.Clone(w.users[secret.Namespace][secret.Name])
	w.mu.Unlock()
	for chart := range users {
		w.anew(types.NamespacedName{Namespace: secret.Namespace, Name: chart})
	}
}

// begin watches objects of a kind, if that has not begun. Those that are there already are told with first alone:
// whoever reads them afterwards needs no second look, which would have a chart that fails tried again at once.
func (w *watches) begin(of schema.GroupVersionResource, namespace string, first bool,
	changed func(types.NamespacedName),
) (cache.InformerSynced, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := watched{of, namespace}
	if b, ok := w.begun[key]; ok {
		return b.synced, nil
	}
	informer := metadatainformer.NewFilteredMetadataInformer(w.client, of, namespace, 0, cache.Indexers{}, nil).
		Informer()
	if err := informer.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("watching %s: %w", of.Resource, err)
	}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if first || !isInInitialList {
				w.tell(obj, changed)
			}
		},
		UpdateFunc: func(before, after any) {
			if !same(before, after) {
				w.tell(after, changed)
			}
		},
		DeleteFunc: func(obj any) { w.tell(obj, changed) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", of.Resource, err)
	}
	ctx, end := context.WithCancel(w.ctx)
	w.begun[key] = begun{synced: handler.HasSynced, found: informer.GetStore(), end: end}
	w.running.Go(func() { informer.RunWithContext(ctx) })
	return handler.HasSynced, nil
}

func (w *watches) tell(obj any, changed func(types.NamespacedName)) {
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil && w.mine(name.Namespace) {
		changed(types.NamespacedName{Namespace: name.Namespace, Name: name.Name})
	}
}

// same reports whether nothing changed that counts. A status does not; a Secret has no generation.
func same(before, after any) bool {
	a, ok := before.(*metav1.PartialObjectMetadata)
	b, also := after.(*metav1.PartialObjectMetadata)
	if !ok || !also {
		return false
	}
	if a.Generation == 0 && b.Generation == 0 {
		return a.ResourceVersion == b.ResourceVersion
	}
	return a.UID == b.UID && a.Generation == b.Generation && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		maps.Equal(a.Annotations, b.Annotations)
}

// trim keeps what same compares. That a HelmChart is ours is as good as that it is nobody's, as then it is claimed:
// the claim would else have a chart that fails at once be tried again at once.
func trim(obj any) (any, error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	kept := map[string]string{}
	for _, name := range []string{reconcile.ManagedByAnnotation, reconcile.UnmanagedAnnotation} {
		value, ok := m.Annotations[name]
		if ok && (name != reconcile.ManagedByAnnotation || value != reconcile.ManagedBy) {
			kept[name] = value
		}
	}
	var ours []string
	if slices.Contains(m.Finalizers, reconcile.Finalizer) {
		ours = []string{reconcile.Finalizer}
	}
	var deleted *metav1.Time
	if m.DeletionTimestamp != nil {
		deleted = &metav1.Time{Time: m.DeletionTimestamp.Truncate(time.Second)}
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name,
		UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation, DeletionTimestamp: deleted,
		Annotations: kept, Finalizers: ours}}, nil
}
