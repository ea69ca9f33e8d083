package allowances

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// The allowances, by the annotations of a Tenant that were the first way to say them; Field is
// the present one. Each list has commas between its items, and "*" stands for everything. What a
// pod, a claim or a volume does not say is judged as well: beside each stands what holds for it.
const (
	// PodSecurity is the level of the Pod Security Standards that the pods meet:
	// privileged, baseline (if nobody says one) or restricted.
	PodSecurity = "a4s.io/pod-security"
	// LoadBalancers are the ports of nodes that Services of type LoadBalancer may
	// have (80,8000-8999), true for all that are free (as if nobody says any)
	// or false for none.
	LoadBalancers = "a4s.io/load-balancers"
	// HostPorts are ports of nodes that pods may take: 8080,9000-9010.
	HostPorts = "a4s.io/host-ports"
	// VolumeTypes are further sources of volumes, in pods and in persistent
	// volumes, by their names in the API: nfs, iscsi, ...
	VolumeTypes = "a4s.io/volume-types"
	// CSIDrivers are the drivers of persistent volumes that the tenant writes, and
	// of volumes that stand in a pod.
	CSIDrivers = "a4s.io/csi-drivers"
	// NodeNames, "true", lets pods say their node.
	NodeNames = "a4s.io/node-names"
	// Tolerations are keys of taints of nodes, which are not for everybody.
	Tolerations = "a4s.io/tolerations"
	// PriorityClasses are those that may be used. A pod without one has what all
	// pods get.
	PriorityClasses = "a4s.io/priority-classes"
	// RuntimeClasses are those that may be used; if nobody says any, all that are not for
	// tenants which list them. A pod without one gets the first.
	RuntimeClasses = "a4s.io/runtime-classes"
	// StorageClasses are those that may be used, and classes of the attributes of
	// volumes; all if nobody says any. A claim without one gets the cluster's
	// default, and is refused if that is not one of them.
	StorageClasses = "a4s.io/storage-classes"
	// DeviceClasses are those of whose devices claims may be made, by pods and
	// templates as well; all if nobody says any.
	DeviceClasses = "a4s.io/device-classes"
	// DeviceAdminAccess, "true", lets claims have administrator's access to
	// devices that others use.
	DeviceAdminAccess = "a4s.io/device-admin-access"
)

// All are all allowances.
func All() []string {
	return append(lists(), PodSecurity, LoadBalancers, HostPorts, NodeNames, DeviceAdminAccess)
}

func lists() []string {
	return []string{VolumeTypes, CSIDrivers, Tolerations, PriorityClasses, RuntimeClasses, StorageClasses,
		DeviceClasses}
}

// List is a list of what is allowed.
type List struct {
	// Said reports whether anybody says one.
	Said  bool
	Items []string
}

// ParseList reads a list; "" is none, and "none" is one with nothing in it.
func ParseList(value string) List {
	if value == "" {
		return List{}
	}
	l := List{Said: true}
	if value == tenantapi.None {
		return l
	}
	for item := range strings.SplitSeq(value, ",") {
		l.Items = append(l.Items, strings.TrimSpace(item))
	}
	return l
}

// Has reports whether an item is in the list.
func (l List) Has(item string) bool {
	return slices.Contains(l.Items, item) || slices.Contains(l.Items, "*")
}

// Narrows reports whether the list leaves anything out.
func (l List) Narrows() bool { return l.Said && !slices.Contains(l.Items, "*") }

// String is the list as it is written.
func (l List) String() string { return cmp.Or(strings.Join(l.Items, ", "), tenantapi.None) }

// Ports are ports of nodes.
type Ports struct {
	// All stands for every port.
	All    bool
	ranges []utilnet.PortRange
}

// Has reports whether a port is one of them.
func (p Ports) Has(port int32) bool {
	return p.All || slices.ContainsFunc(p.ranges, func(r utilnet.PortRange) bool { return r.Contains(int(port)) })
}

// ParsePorts reads ports and ranges of them: 80,8000-8999, true or *, false or none.
func ParsePorts(value string) (Ports, error) {
	switch value {
	case "false", tenantapi.None, "":
		return Ports{}, nil
	case "true", tenantapi.Everything:
		return Ports{All: true}, nil
	}
	var out Ports
	for item := range strings.SplitSeq(value, ",") {
		r, err := utilnet.ParsePortRange(strings.TrimSpace(item))
		if err != nil || r.Size == 0 {
			return Ports{}, fmt.Errorf("%q is neither a port nor a range of ports such as 9000-9010", item)
		}
		out.ranges = append(out.ranges, *r)
	}
	return out, nil
}

// ParseFlag reads what is true or false, which "" is.
func ParseFlag(value string) (bool, error) {
	if value == "" {
		return false, nil
	}
	return strconv.ParseBool(value)
}

// Sources are all sources of volumes by their names in the API.
func Sources() []string {
	var out []string
	for _, t := range []reflect.Type{reflect.TypeFor[corev1.VolumeSource](),
		reflect.TypeFor[corev1.PersistentVolumeSource]()} {
		for i := range t.NumField() {
			if name := sourceName(t.Field(i)); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func sourceName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// SourcesOf are the names of the sources that are set in a corev1.VolumeSource or
// a corev1.PersistentVolumeSource: one in what is valid.
func SourcesOf(source any) []string {
	var out []string
	v := reflect.ValueOf(source)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			out = append(out, sourceName(v.Type().Field(i)))
		}
	}
	return out
}

// Validate refuses annotations of a Tenant that cannot be read: whoever writes
// them should hear of it, not the users of the tenant.
func Validate(annotations map[string]string) error {
	var errs []error
	for _, key := range lists() {
		value, ok := annotations[key]
		if items := ParseList(value).Items; ok && (value == "" || slices.Contains(items, "")) {
			errs = append(errs, fmt.Errorf("%s: %q is not a list of names with commas between them", key, value))
		}
	}
	for _, name := range ParseList(annotations[VolumeTypes]).Items {
		if name != "" && name != tenantapi.Everything && !slices.Contains(Sources(), name) {
			errs = append(errs, fmt.Errorf("%s: %w", VolumeTypes, noSource(name)))
		}
	}
	for _, key := range []string{HostPorts, LoadBalancers} {
		if _, err := ParsePorts(annotations[key]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	for _, key := range []string{NodeNames, DeviceAdminAccess} {
		if value := annotations[key]; value != "" && value != "true" && value != "false" {
			errs = append(errs, fmt.Errorf("%s: %q is neither true nor false", key, value))
		}
	}
	if value := annotations[PodSecurity]; value != "" && !slices.Contains(levels(), value) {
		errs = append(errs, fmt.Errorf("%s: %q is none of %s", PodSecurity, value, strings.Join(levels(), ", ")))
	}
	return errors.Join(errs...)
}

// levels are those of the Pod Security Standards.
func levels() []string { return []string{"privileged", "baseline", "restricted"} }

func noSource(name string) error {
	return fmt.Errorf("there are no volumes of the type %q, only %s", name, strings.Join(Sources(), ", "))
}
