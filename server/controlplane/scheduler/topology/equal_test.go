package topology

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	"github.com/a4s-io/a4s/internal/space"
)

// plugin is what both plugins have of the framework.
type plugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

// cluster is one that changes at random, with both upstream's plugins and ours on its snapshot.
type cluster struct {
	random   *rand.Rand
	cache    cache.Cache
	snapshot *cache.Snapshot
	pairs    map[string][2]plugin
	nodes    map[string]*corev1.Node
	pods     map[string]*corev1.Pod
	made     int
}

var (
	zones      = []string{"", "z1", "z2", "z3"}
	namespaces = []string{"default", "kube-system", "default.a", "web.a", "default.b", "web.b"}
	apps       = []string{"x", "y"}
)

func newCluster(t *testing.T, seed uint64, defaults bool) *cluster {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for _, name := range namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{corev1.LabelMetadataName: name}}}
		tenant, native := space.SplitNamespace(name)
		ns.Labels["kind"] = native
		if tenant != "" && tenant != space.System {
			ns.Labels[space.Label] = tenant
		}
		for _, app := range apps {
			set := &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: app, UID: types.UID(app)},
				Spec: appsv1.ReplicaSetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			}
			if err := factory.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(set); err != nil {
				t.Fatal(err)
			}
		}
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(ns); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{random: rand.New(rand.NewPCG(seed, 0)), cache: cache.New(t.Context(), nil, false, false),
		snapshot: cache.NewEmptySnapshot(), nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}}
	h, err := frameworkruntime.NewFramework(t.Context(), nil, nil,
		frameworkruntime.WithSnapshotSharedLister(c.snapshot), frameworkruntime.WithInformerFactory(factory))
	if err != nil {
		t.Fatal(err)
	}
	args := &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}
	if !defaults {
		args = &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting,
			DefaultConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone,
				WhenUnsatisfiable: corev1.ScheduleAnyway}}}
	}
	weight := &config.InterPodAffinityArgs{HardPodAffinityWeight: 1, IgnorePreferredTermsOfExistingPods: !defaults}
	features, nodes := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate), newIndex()
	must := func(p fwk.Plugin, err error) plugin {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p.(plugin)
	}
	c.pairs = map[string][2]plugin{
		SpreadName: {must(podtopologyspread.New(t.Context(), args, h, features)),
			must(newSpread(t.Context(), args, h, features, nodes))},
		AffinityName: {must(interpodaffinity.New(t.Context(), weight, h, features)),
			must(newAffinity(t.Context(), weight, h, features, nodes))},
	}
	return c
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// change adds and removes nodes and pods.
func (c *cluster) change(t *testing.T) {
	t.Helper()
	logger := klog.Background()
	for range 1 + c.random.IntN(8) {
		names := slices.Sorted(maps.Keys(c.nodes))
		pods := slices.Sorted(maps.Keys(c.pods))
		c.made++
		switch n := c.random.IntN(10); {
		case n == 0 || len(names) < 2:
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", c.made),
				Labels: map[string]string{}}}
			if c.random.IntN(8) > 0 {
				node.Labels[corev1.LabelHostname] = node.Name
			}
			if zone := pick(c.random, zones); zone != "" {
				node.Labels[corev1.LabelTopologyZone] = zone
			}
			if c.random.IntN(6) == 0 {
				node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
			}
			c.nodes[node.Name] = node
			c.cache.AddNode(logger, node)
		case n == 1:
			name := pick(c.random, names)
			if err := c.cache.RemoveNode(logger, c.nodes[name]); err != nil {
				t.Fatal(err)
			}
			delete(c.nodes, name)
		case n == 2:
			was := c.nodes[pick(c.random, names)]
			now := was.DeepCopy()
			now.Labels[corev1.LabelTopologyZone] = pick(c.random, zones[1:])
			c.nodes[now.Name] = now
			c.cache.UpdateNode(logger, was, now)
		case n == 3 && len(pods) > 0:
			name := pick(c.random, pods)
			if err := c.cache.RemovePod(logger, c.pods[name]); err != nil {
				t.Fatal(err)
			}
			delete(c.pods, name)
		default:
			pod := c.pod()
			pod.Spec.NodeName = pick(c.random, names)
			c.pods[pod.Name] = pod
			if err := c.cache.AddPod(logger, pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.cache.UpdateSnapshot(logger, c.snapshot); err != nil {
		t.Fatal(err)
	}
}

// pod is one at random, as the API server stores it: terms of a tenant's pod stay within its space.
func (c *cluster) pod() *corev1.Pod {
	c.made++
	r, name := c.random, fmt.Sprint("p", c.made)
	app := pick(r, apps)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Namespace: pick(r, namespaces),
		Labels: map[string]string{"app": app}}}
	if r.IntN(2) == 0 {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app,
			UID: types.UID(app), Controller: ptr.To(true)}}
	}
	if r.IntN(3) == 0 {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	for range r.IntN(3) {
		s := corev1.TopologySpreadConstraint{MaxSkew: int32(1 + r.IntN(2)), LabelSelector: selector(r),
			TopologyKey: pick(r, []string{corev1.LabelHostname, corev1.LabelTopologyZone}),
			WhenUnsatisfiable: pick(r, []corev1.UnsatisfiableConstraintAction{
				corev1.DoNotSchedule, corev1.ScheduleAnyway})}
		if s.WhenUnsatisfiable == corev1.DoNotSchedule && r.IntN(2) == 0 {
			s.MinDomains = ptr.To(int32(1 + r.IntN(4)))
		}
		if r.IntN(3) == 0 {
			s.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, s)
	}
	if r.IntN(2) == 0 {
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{},
			PodAntiAffinity: &corev1.PodAntiAffinity{}}
		for _, required := range []*[]corev1.PodAffinityTerm{
			&pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			&pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		} {
			for range r.IntN(6) / 4 {
				*required = append(*required, term(r, pod.Namespace))
			}
		}
		for _, preferred := range []*[]corev1.WeightedPodAffinityTerm{
			&pod.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			&pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
		} {
			for range r.IntN(6) / 4 {
				*preferred = append(*preferred, corev1.WeightedPodAffinityTerm{
					Weight: int32(1 + r.IntN(100)), PodAffinityTerm: term(r, pod.Namespace)})
			}
		}
	}
	return pod
}

func selector(r *rand.Rand) *metav1.LabelSelector {
	if r.IntN(4) == 0 {
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(r, apps)}}
}

func term(r *rand.Rand, namespace string) corev1.PodAffinityTerm {
	out := corev1.PodAffinityTerm{LabelSelector: selector(r),
		TopologyKey: pick(r, []string{corev1.LabelHostname, corev1.LabelTopologyZone})}
	tenant := space.OfNamespace(namespace)
	for _, n := range namespaces {
		if r.IntN(4) == 0 && (space.IsSystem(tenant) || space.OfNamespace(n) == tenant) {
			out.Namespaces = append(out.Namespaces, n)
		}
	}
	if r.IntN(3) > 0 {
		return out
	}
	out.NamespaceSelector = &metav1.LabelSelector{}
	if r.IntN(2) == 0 {
		out.NamespaceSelector.MatchLabels = map[string]string{"kind": pick(r, []string{"default", "web"})}
	}
	if !space.IsSystem(tenant) {
		metav1.AddLabelToSelector(out.NamespaceSelector, space.Label, tenant)
	}
	return out
}

// TestSameAsUpstream: for pods and clusters at random, with nodes and pods that come and go, the plugins refuse and
// score each node as upstream's do. A4S_TEST_CLUSTERS says how many clusters there are.
func TestSameAsUpstream(t *testing.T) {
	clusters := 100
	if n, err := strconv.Atoi(os.Getenv("A4S_TEST_CLUSTERS")); err == nil {
		clusters = n
	}
	refused, scored := 0, 0
	metrics.Register() // the plugins of upstream count by them
	for seed := range clusters {
		c := newCluster(t, uint64(seed), seed%2 == 0)
		for range 10 {
			c.change(t)
			for range 10 {
				pod := c.pod()
				for name, pair := range c.pairs {
					want := c.run(t, pair[0], pod)
					got := c.run(t, pair[1], pod)
					if !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, %s: pod %+v: %+v, want %+v", seed, name, pod, got, want)
					}
					refused, scored = refused+want.refused, scored+len(want.scores)
				}
			}
		}
	}
	if refused < clusters || scored < clusters {
		t.Errorf("%d refusals and %d scores in %d clusters say little", refused, scored, clusters)
	}
}

// outcome is what a plugin says of a pod.
type outcome struct {
	preFilter, preScore string
	filter              map[string]string
	scores              map[string]int64
	refused             int
}

func (c *cluster) run(t *testing.T, p plugin, pod *corev1.Pod) outcome {
	t.Helper()
	ctx, state := t.Context(), framework.NewCycleState()
	all, err := c.snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{filter: map[string]string{}, scores: map[string]int64{}}
	_, status := p.PreFilter(ctx, state, pod, all)
	o.preFilter = text(status)
	fit := all
	if status.IsSuccess() {
		fit = nil
		for _, node := range all {
			status := p.Filter(ctx, state, pod, node)
			if o.filter[node.Node().Name] = text(status); status.IsSuccess() {
				fit = append(fit, node)
			} else {
				o.refused++
			}
		}
	}
	if status = p.PreScore(ctx, state, pod, fit); status.IsSuccess() {
		var scores fwk.NodeScoreList
		for _, node := range fit {
			n, status := p.Score(ctx, state, pod, node)
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			scores = append(scores, fwk.NodeScore{Name: node.Node().Name, Score: n})
		}
		if status := p.ScoreExtensions().NormalizeScore(ctx, state, pod, scores); !status.IsSuccess() {
			t.Fatal(status)
		}
		for _, s := range scores {
			o.scores[s.Name] = s.Score
		}
	}
	o.preScore = text(status)
	return o
}

func text(s *fwk.Status) string { return fmt.Sprint(s.Code(), s.Message()) }
