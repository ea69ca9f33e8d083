package topology

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// The names of the plugins, which stand in the profiles in the place of upstream's. They differ from those because a
// registry has each name once.
const (
	SpreadName   = "Narrow" + podtopologyspread.Name
	AffinityName = "Narrow" + interpodaffinity.Name
)

// Plugins makes the plugins of one scheduler. Its profiles share the snapshot, and so the index.
func Plugins() frameworkruntime.Registry {
	nodes := newIndex()
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	return frameworkruntime.Registry{
		SpreadName: func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			return newSpread(ctx, args, h, features, nodes)
		},
		AffinityName: func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			return newAffinity(ctx, args, h, features, nodes)
		},
	}
}

// Replace puts the plugins in the place of upstream's in a profile, with their weights and arguments.
func Replace(profile *config.KubeSchedulerProfile) {
	narrow := map[string]string{podtopologyspread.Name: SpreadName, interpodaffinity.Name: AffinityName}
	rename := func(name *string) {
		if to, ok := narrow[*name]; ok {
			*name = to
		}
	}
	profile.PluginConfig = slices.Clone(profile.PluginConfig)
	for i := range profile.PluginConfig {
		rename(&profile.PluginConfig[i].Name)
	}
	if profile.Plugins == nil {
		return
	}
	p := profile.Plugins
	for _, set := range []*config.PluginSet{&p.MultiPoint, &p.PreFilter, &p.Filter, &p.PreScore, &p.Score} {
		for _, plugins := range []*[]config.Plugin{&set.Enabled, &set.Disabled} {
			*plugins = slices.Clone(*plugins)
			for i := range *plugins {
				rename(&(*plugins)[i].Name)
			}
		}
	}
}

// made is a plugin of upstream by the type that has its methods.
func made[P fwk.Plugin](p fwk.Plugin, err error) (P, error) {
	upstream, ok := p.(P)
	if err == nil && !ok {
		err = fmt.Errorf("the plugin %s is a %T", p.Name(), p)
	}
	return upstream, err
}

// spread is upstream's plugin, with shorter lists of nodes.
type spread struct {
	*podtopologyspread.PodTopologySpread
	lists *lists
}

func newSpread(
	ctx context.Context, args runtime.Object, h fwk.Handle, features feature.Features, nodes *index,
) (fwk.Plugin, error) {
	l := &lists{SharedLister: h.SnapshotSharedLister(), index: nodes}
	upstream, err := made[*podtopologyspread.PodTopologySpread](
		podtopologyspread.New(ctx, args, handle{h, l}, features))
	return &spread{upstream, l}, err
}

// Name implements fwk.Plugin.
func (*spread) Name() string { return SpreadName }

// PreScore implements fwk.PreScorePlugin.
func (s *spread) PreScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) *fwk.Status {
	if state.IsPodGroupSchedulingCycle() { // pods of the group are in the snapshot, and generations do not tell
		return s.PodTopologySpread.PreScore(ctx, state, pod, nodes)
	}
	s.lists.list = func(all []fwk.NodeInfo) []fwk.NodeInfo {
		s.lists.index.read(state, all)
		if found := s.lists.index.nodesIn(s.lists.index.namespaces[pod.Namespace]); len(found) > 0 {
			return found
		}
		// Of no node at all upstream says that there is nothing to score. One without such pods adds none.
		return all[:min(len(all), 1)]
	}
	defer s.lists.whole()
	return s.PodTopologySpread.PreScore(ctx, state, pod, nodes)
}

// affinity is upstream's plugin, with shorter lists of nodes.
type affinity struct {
	*interpodaffinity.InterPodAffinity
	lists *lists
	// byHostname is set if upstream's plugin compares two lists of nodes with each other.
	byHostname bool
}

func newAffinity(
	ctx context.Context, args runtime.Object, h fwk.Handle, features feature.Features, nodes *index,
) (fwk.Plugin, error) {
	l := &lists{SharedLister: h.SnapshotSharedLister(), index: nodes}
	upstream, err := made[*interpodaffinity.InterPodAffinity](
		interpodaffinity.New(ctx, args, handle{h, l}, features))
	return &affinity{upstream, l, features.EnableInterPodAffinityHostnameFastPath}, err
}

// Name implements fwk.Plugin.
func (*affinity) Name() string { return AffinityName }

// PreFilter implements fwk.PreFilterPlugin.
func (a *affinity) PreFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if a.byHostname || state.IsPodGroupSchedulingCycle() {
		return a.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
	}
	a.lists.index.read(state, nodes)
	nodes = a.lists.index.meant(pod, requiredTerms(pod), nodes)
	a.lists.affine = a.affineTo(state, pod)
	defer a.lists.whole()
	return a.InterPodAffinity.PreFilter(ctx, state, pod, nodes)
}

// PreScore implements fwk.PreScorePlugin.
func (a *affinity) PreScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) *fwk.Status {
	if state.IsPodGroupSchedulingCycle() {
		return a.InterPodAffinity.PreScore(ctx, state, pod, nodes)
	}
	a.lists.affine = a.affineTo(state, pod)
	a.lists.list = func(all []fwk.NodeInfo) []fwk.NodeInfo {
		a.lists.index.read(state, all)
		// Besides the pods that it means, those that mean it.
		return a.lists.index.meant(pod, preferredTerms(pod), all, a.lists.index.affineTo(pod)...)
	}
	defer a.lists.whole()
	return a.InterPodAffinity.PreScore(ctx, state, pod, nodes)
}

// affineTo returns what gives the nodes with pods that can have terms which mean a pod.
func (a *affinity) affineTo(state fwk.CycleState, pod *corev1.Pod) func() ([]fwk.NodeInfo, error) {
	return func() ([]fwk.NodeInfo, error) {
		all, err := a.lists.SharedLister.NodeInfos().List()
		if err != nil {
			return nil, err
		}
		a.lists.index.read(state, all)
		return a.lists.index.nodesIn(a.lists.index.affineTo(pod)...), nil
	}
}

func requiredTerms(pod *corev1.Pod) (terms []corev1.PodAffinityTerm) {
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		}
		if a.PodAntiAffinity != nil {
			terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		}
	}
	return terms
}

func preferredTerms(pod *corev1.Pod) (terms []corev1.PodAffinityTerm) {
	var weighted []corev1.WeightedPodAffinityTerm
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			weighted = append(weighted, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
		}
		if a.PodAntiAffinity != nil {
			weighted = append(weighted, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
		}
	}
	for _, w := range weighted {
		terms = append(terms, w.PodAffinityTerm)
	}
	return terms
}
