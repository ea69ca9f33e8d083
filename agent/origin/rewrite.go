package origin

import (
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/internal/space"
)

// filterServices leaves out every Service "kubernetes" in a tenant's namespace
// "default". If it had a cluster IP, the kubelet would prefer it to the real
// one for KUBERNETES_SERVICE_HOST.
type filterServices struct{}

func (filterServices) object(_ context.Context, obj runtime.Object) (bool, error) {
	list, ok := obj.(*corev1.ServiceList)
	if !ok {
		return false, nil
	}
	before := len(list.Items)
	list.Items = slices.DeleteFunc(list.Items, func(s corev1.Service) bool { return shadowsAPI(&s) })
	return len(list.Items) != before, nil
}

func (filterServices) event(_ context.Context, _ watch.EventType, obj runtime.Object) (changed, omit bool, err error) {
	s, ok := obj.(*corev1.Service)
	return false, ok && shadowsAPI(s), nil
}

func shadowsAPI(s *corev1.Service) bool {
	if s.Name != "kubernetes" {
		return false
	}
	tenant, native := space.SplitNamespace(s.Namespace)
	return !space.IsSystem(tenant) && native == metav1.NamespaceDefault
}

// Annotations of the kubelet's copy of a pod, which no object in the API has.
// Downward API volumes can show a field of the pod and nothing else, so what
// they are to show has to be in one.
const (
	// namespaceKey holds the native namespace.
	namespaceKey = "a4s.io/native-namespace"
	// annotationsKey holds the text that a volume shows for all annotations
	// of the pod: as it would be without these two.
	annotationsKey = "a4s.io/native-annotations"
)

const (
	fieldNamespace   = "metadata.namespace"
	fieldAnnotations = "metadata.annotations"
)

// podProjector shows pods in native names. The rest of what happens to
// pods is in pods.go.
type podProjector struct {
	options Options
	// hostSearch are the node's search domains.
	hostSearch []string
}

func (p podProjector) pod(pod *corev1.Pod) bool {
	if !shownNative(pod.Namespace) {
		return false
	}
	_, composite := space.UnqualifyNamespace(pod.Namespace)
	tenant, native := space.SplitNamespace(composite)
	partition := p.options.furtherPartition(pod.Namespace)
	api := apiEnv(partition)
	container := func(env *[]corev1.EnvVar, sc **corev1.SecurityContext) {
		setEnv(*env, native)
		if len(api) > 0 {
			*env = slices.Concat(api, *env)
		}
		if !space.IsSystem(tenant) {
			dropRaw(sc)
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		container(&c.Env, &c.SecurityContext)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		container(&c.Env, &c.SecurityContext)
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		container(&c.Env, &c.SecurityContext)
	}
	setVolumes(pod, native)
	p.setDNS(&pod.Spec, native, partition)
	return true
}

// shownNative reports whether pods of a namespace are to see another name of it: those
// of tenants, and those of the system space of another partition than home.
func shownNative(namespace string) bool {
	partition, composite := space.UnqualifyNamespace(namespace)
	tenant, _ := space.SplitNamespace(composite)
	return partition != "" || !space.IsSystem(tenant)
}

// rawSockets is the capability to send packets from any address.
const rawSockets = "NET_RAW"

// dropRaw takes raw sockets from a container that did not ask for them by
// name, as runtimes give them to all: what keeps tenants apart on the network
// goes by addresses. ping does without.
func dropRaw(sc **corev1.SecurityContext) {
	var c corev1.Capabilities
	if *sc != nil {
		if ptr := (*sc).Privileged; ptr != nil && *ptr {
			return
		}
		if (*sc).Capabilities != nil {
			c = *(*sc).Capabilities.DeepCopy()
		}
	}
	for _, name := range append(c.Add, c.Drop...) {
		if name == rawSockets || name == "ALL" {
			return
		}
	}
	out := (*sc).DeepCopy()
	if out == nil {
		out = &corev1.SecurityContext{}
	}
	c.Drop = append(c.Drop, rawSockets)
	out.Capabilities = &c
	*sc = out
}

// setEnv puts the namespace into the variables that show it. The kubelet
// expands references in a value, and a namespace has none.
func setEnv(env []corev1.EnvVar, native string) {
	for i := range env {
		from := env[i].ValueFrom
		if from != nil && from.FieldRef != nil && from.FieldRef.FieldPath == fieldNamespace {
			env[i].Value, env[i].ValueFrom = native, nil
		}
	}
}

// setVolumes turns the fields that volumes show into annotations.
func setVolumes(pod *corev1.Pod, native string) {
	all := formatAnnotations(pod.Annotations)
	set := func(key, value string) {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[key] = value
	}
	items := func(files []corev1.DownwardAPIVolumeFile) {
		for i := range files {
			ref := files[i].FieldRef
			if ref == nil {
				continue
			}
			switch ref.FieldPath {
			case fieldNamespace:
				ref.FieldPath = subscript(namespaceKey)
				set(namespaceKey, native)
			case fieldAnnotations:
				ref.FieldPath = subscript(annotationsKey)
				set(annotationsKey, all)
			}
		}
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.DownwardAPI != nil {
			items(volume.DownwardAPI.Items)
		}
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.DownwardAPI != nil {
				items(source.DownwardAPI.Items)
			}
		}
	}
}

func subscript(key string) string { return fieldAnnotations + "['" + key + "']" }

// formatAnnotations is how a volume shows annotations, with the one that the
// kubelet adds to every pod from the API. Its other one, the time when it
// first saw the pod, is different in every run and therefore missing.
func formatAnnotations(annotations map[string]string) string {
	const source, api = "kubernetes.io/config.source", "api"
	lines := []string{source + "=" + strconv.Quote(api)}
	for key, value := range annotations {
		if key != source {
			lines = append(lines, key+"="+strconv.Quote(value))
		}
	}
	slices.SortFunc(lines, func(a, b string) int {
		keyA, _, _ := strings.Cut(a, "=")
		keyB, _, _ := strings.Cut(b, "=")
		return strings.Compare(keyA, keyB)
	})
	return strings.Join(lines, "\n")
}
