package supportbundle

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// shownFields are the fields whose text is taken, by their name in JSON, or as Type.name where that
// name stands for something else elsewhere. Of every other text the length is taken. Numbers, truth
// values, quantities and times are always taken, and so is a text that has a type of its own: the
// API allows few values for it.
func shownFields() map[string]bool {
	shown := map[string]bool{}
	for names := range strings.FieldsSeq(`
		apiVersion kind name namespace generateName resourceVersion finalizers labels
		apiGroup apiGroups apiVersions resources resource scope subresource
		reason type message action component host reportingComponent reportingInstance fieldPath
		matchLabels nodeSelector selector nodeName topologyKey values key
		Taint.value Toleration.value TopologySelectorLabelRequirement.values
		address addresses ip hostIP podIP clusterIP clusterIPs loadBalancerIP externalIPs externalName cidr except
		hostname subdomain hosts zone podCIDR podCIDRs providerID
		bootID kernelVersion osImage containerRuntimeVersion kubeletVersion kubeProxyVersion operatingSystem
		architecture
		image imageID containerID volumeName mountPath devicePath claimName secretName
		serviceAccountName schedulerName priorityClassName runtimeClassName handler
		nominatedNodeName storageClassName volumeAttributesClassName driver provisioner attacher fsType server
		HostPathVolumeSource.path LocalVolumeSource.path HTTPIngressPath.path NFSVolumeSource.path
		ingressClassName controller serviceName appProtocol schedule timeZone currentRevision updateRevision
		holderIdentity preferredHolder managedBy counts
		identity serviceCIDR clusterCIDR nodePortRange clusterDNS restored partition
		rangeStart rangeEnd serviceGroupId tenants TenantSpec.template TenantSpec.images
	`) {
		shown[names] = true
	}
	return shown
}

// hiddenFields are those that shownFields has under a name that is harmless elsewhere: what a
// container wrote before it ended.
func hiddenFields() map[string]bool { return map[string]bool{"ContainerStateTerminated.message": true} }

// outputOf tells the events whose message has what a container wrote: of its probes and hooks.
func outputOf(reason string) bool {
	switch reason {
	case "Unhealthy", "ProbeWarning", "FailedPostStartHook", "FailedPreStopHook":
		return true
	}
	return false
}

// reducer takes from objects what is not shown.
type reducer struct {
	shown, hidden map[string]bool
	scrub         *scrubber
	// configMaps says that the data of ConfigMaps is taken.
	configMaps bool
}

func newReducer(configMaps bool, s *scrubber) *reducer {
	return &reducer{shown: shownFields(), hidden: hiddenFields(), scrub: s, configMaps: configMaps}
}

// reduce changes an object of the API. Secrets are not reduced, but not taken: see ofSpace.
func (r *reducer) reduce(obj runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Event:
		if outputOf(o.Reason) {
			o.Message = lengthOf(o.Message)
		}
	case *corev1.Node:
		o.Status.Images = nil // they can be hundreds
	case *corev1.ConfigMap:
		if r.configMaps {
			data := o.Data
			o.Data = nil
			defer func() { o.Data = data }()
		}
	}
	r.value(reflect.ValueOf(obj).Elem(), "", "")
}

// plain are the types that hold no text of anybody.
func plain(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](),
		reflect.TypeFor[resource.Quantity]():
		return true
	}
	return false
}

// value changes what stands in a field of a type.
func (r *reducer) value(v reflect.Value, of, name string) {
	switch t := v.Type(); {
	case plain(t):
		return
	case t == reflect.TypeFor[metav1.ObjectMeta]():
		v.FieldByName("ManagedFields").SetZero()
	case t == reflect.TypeFor[intstr.IntOrString]():
		return // a number, or the name of a port
	case t == reflect.TypeFor[runtime.RawExtension](), t == reflect.TypeFor[metav1.FieldsV1]():
		v.SetZero()
		return
	}
	switch v.Kind() {
	case reflect.String:
		switch {
		case v.Type() != reflect.TypeFor[string](), v.String() == "":
		case !r.shows(of, name):
			v.SetString(lengthOf(v.String()))
		case name == "message": // of runtimes and controllers, as in a log
			v.SetString(r.scrub.log(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			r.value(v.Elem(), of, name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			r.value(v.Field(i), v.Type().Name(), tag)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetZero()
			return
		}
		for i := range v.Len() {
			r.value(v.Index(i), of, name)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			entry := reflect.New(v.Type().Elem()).Elem()
			entry.Set(v.MapIndex(key))
			r.value(entry, of, name)
			v.SetMapIndex(key, entry)
		}
	case reflect.Interface:
		v.SetZero()
	}
}

// shows reports whether the text of a field is taken.
func (r *reducer) shows(of, name string) bool {
	at := of + "." + name
	return !r.hidden[at] && (r.shown[name] || r.shown[at])
}
