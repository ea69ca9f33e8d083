package podcheck

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/workload"
)

var podKind = schema.GroupKind{Kind: "Pod"}

// Checker makes pods of one node.
type Checker struct {
	node   string
	scheme *runtime.Scheme
}

// New returns a Checker for the node of that name.
func New(node string) (*Checker, error) {
	// The same as the kubelet says; whoever asks first decides for the process.
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	c := &Checker{node: node, scheme: runtime.NewScheme()}
	if err := corev1defaults.AddToScheme(c.scheme); err != nil {
		return nil, fmt.Errorf("the types of pods: %w", err)
	}
	return c, nil
}

// Decode reads a pod in JSON or YAML. A field that pods do not have, or one
// that is there twice, is an error.
func (c *Checker) Decode(body []byte, isYAML bool) (*corev1.Pod, error) {
	codec := json.NewSerializerWithOptions(json.DefaultMetaFactory, c.scheme, c.scheme,
		json.SerializerOptions{Yaml: isYAML, Strict: true})
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	obj, got, err := codec.Decode(body, &gvk, nil)
	switch {
	case runtime.IsNotRegisteredError(err) && got != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %s of %q, not a Pod of \"v1\"", got.Kind,
			got.GroupVersion().String()))
	case err != nil:
		return nil, apierrors.NewBadRequest("the body is no pod: " + err.Error())
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %s, not a Pod", got.Kind))
	}
	return pod, nil
}

// Complete returns the pod as it will run, with a UID of its own.
func (c *Checker) Complete(in *corev1.Pod, now time.Time) (*corev1.Pod, error) {
	pod := in.DeepCopy()
	errs := c.refuse(pod)
	given := pod.Name

	pod.ObjectMeta = metav1.ObjectMeta{
		Name: bootstrapapi.PodName(given, c.node), Namespace: pod.Namespace,
		Labels: pod.Labels, Annotations: pod.Annotations,
		UID: uuid.NewUUID(), CreationTimestamp: metav1.NewTime(now.Truncate(time.Second)), Generation: 1,
	}
	if given == "" {
		pod.Name = "" // upstream says that it is missing
	}
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[bootstrapapi.SourceAnnotation] = bootstrapapi.Source
	pod.Spec.NodeName = c.node
	if pod.Spec.AutomountServiceAccountToken == nil {
		pod.Spec.AutomountServiceAccountToken = new(bool)
	}
	// "default" is what none means; anything else was refused.
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "", ""
	if p, ok := builtInPriorities[pod.Spec.PriorityClassName]; ok && pod.Spec.Priority == nil {
		pod.Spec.Priority = &p
	}
	corev1defaults.SetObjectDefaults_Pod(pod)

	internal := &core.Pod{}
	if err := corev1defaults.Convert_v1_Pod_To_core_Pod(pod, internal, nil); err != nil {
		return nil, apierrors.NewBadRequest("the body is no pod: " + err.Error())
	}
	podutil.DropDisabledPodFields(internal, nil)
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	opts.ResourceIsPod = true
	errs = append(errs, validation.ValidatePodCreate(internal, opts)...)
	if refers, what, err := podutil.HasAPIObjectReference(internal); err != nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), err.Error()))
	} else if refers {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "refers to "+what+", which only an API server has"))
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(podKind, given, errs)
	}
	out := &corev1.Pod{}
	if err := corev1defaults.Convert_core_Pod_To_v1_Pod(internal, out, nil); err != nil {
		return nil, fmt.Errorf("completing a pod: %w", err)
	}
	corev1defaults.SetObjectDefaults_Pod(out)
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	out.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qos.GetPodQOS(out)}
	return out, nil
}

// builtInPriorities are those of the classes that every API server has.
var builtInPriorities = map[string]int32{
	"system-cluster-critical": 2000000000,
	"system-node-critical":    2000001000,
}

// errNeedsServer says why a field is refused.
var errNeedsServer = errors.New("needs an API server, which bootstrap pods do without")

// refuse finds what a pod without an API server cannot have.
func (c *Checker) refuse(pod *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	meta, spec := field.NewPath("metadata"), field.NewPath("spec")
	forbid := func(path *field.Path, why string) { errs = append(errs, field.Forbidden(path, why)) }
	server := func(is bool, path *field.Path) {
		if is {
			forbid(path, errNeedsServer.Error())
		}
	}
	if strings.Contains(pod.Namespace, ".") {
		errs = append(errs, field.Invalid(meta.Child("namespace"), pod.Namespace,
			"bootstrap pods are of the system space, not of a tenant"))
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != c.node {
		errs = append(errs, field.Invalid(spec.Child("nodeName"), pod.Spec.NodeName,
			fmt.Sprintf("the pod runs on this node, %q", c.node)))
	}
	server(pod.GenerateName != "", meta.Child("generateName"))
	server(len(pod.OwnerReferences) > 0, meta.Child("ownerReferences"))
	server(len(pod.Finalizers) > 0, meta.Child("finalizers"))
	server(pod.DeletionTimestamp != nil, meta.Child("deletionTimestamp"))
	if pod.ResourceVersion != "" {
		forbid(meta.Child("resourceVersion"), "must not be set on what is created")
	}
	for _, key := range []string{corev1.MirrorPodAnnotationKey, bootstrapapi.UIDAnnotation,
		bootstrapapi.PersistedAnnotation, bootstrapapi.MessageAnnotation} {
		if _, ok := pod.Annotations[key]; ok {
			forbid(meta.Child("annotations").Key(key), "is not for bootstrap pods to set")
		}
	}
	if source, ok := pod.Annotations[bootstrapapi.SourceAnnotation]; ok && source != bootstrapapi.Source {
		errs = append(errs, field.Invalid(meta.Child("annotations").Key(bootstrapapi.SourceAnnotation), source,
			"is set by the node"))
	}
	if value, ok := pod.Annotations[workload.Annotation]; ok {
		if _, err := workload.Parse(value); err != nil {
			errs = append(errs, field.Invalid(meta.Child("annotations").Key(workload.Annotation), value, err.Error()))
		}
	}
	if name := cmp.Or(pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount); name != "" &&
		name != "default" {
		errs = append(errs, field.Invalid(spec.Child("serviceAccountName"), name, errNeedsServer.Error()))
	}
	if auto := pod.Spec.AutomountServiceAccountToken; auto != nil && *auto {
		errs = append(errs,
			field.Invalid(spec.Child("automountServiceAccountToken"), true, "a token "+errNeedsServer.Error()))
	}
	if _, ok := builtInPriorities[pod.Spec.PriorityClassName]; pod.Spec.PriorityClassName != "" && !ok {
		errs = append(errs, field.Invalid(spec.Child("priorityClassName"), pod.Spec.PriorityClassName,
			errNeedsServer.Error()))
	}
	// Any server forbids it, so it would be offered in vain.
	if p := pod.Spec.Priority; p != nil && *p != builtInPriorities[pod.Spec.PriorityClassName] {
		errs = append(errs, field.Invalid(spec.Child("priority"), *p, "is that of the priority class"))
	}
	server(len(pod.Spec.Overhead) > 0, spec.Child("overhead"))
	server(pod.Spec.RuntimeClassName != nil, spec.Child("runtimeClassName"))
	server(len(pod.Spec.SchedulingGates) > 0, spec.Child("schedulingGates"))
	return errs
}
