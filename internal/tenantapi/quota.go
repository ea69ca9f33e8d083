package tenantapi

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// LimitQuota is the limit of what has a name in a ResourceQuota, of which one is called as
// LimitOfQuota says.
const LimitQuota = "quota"

// mostQuotas is how many names one list of limits has at most: each costs something with
// every object that it counts.
const mostQuotas = 64

// What names of a ResourceQuota begin and end with.
const (
	countPrefix    = "count/"
	requestsPrefix = "requests."
	classStorage   = ".storageclass.storage.k8s.io/requests.storage"
	classClaims    = ".storageclass.storage.k8s.io/persistentvolumeclaims"
	classDevices   = ".deviceclass.resource.k8s.io/devices"
	implicitDevice = "deviceclass.resource.kubernetes.io/"
)

// QuotaNames says in a few words which names count something.
const QuotaNames = "count/RESOURCE.GROUP (count/RESOURCE for the core group), pods, cpu, memory, ephemeral-storage, " +
	"requests.cpu, requests.memory, requests.ephemeral-storage, limits.cpu, limits.memory, " +
	"limits.ephemeral-storage, hugepages-SIZE, requests.DOMAIN/RESOURCE, services, services.nodeports, " +
	"services.loadbalancers, persistentvolumeclaims, requests.storage, " +
	"CLASS.storageclass.storage.k8s.io/requests.storage, " +
	"CLASS.storageclass.storage.k8s.io/persistentvolumeclaims, CLASS.deviceclass.resource.k8s.io/devices, " +
	"configmaps, secrets, replicationcontrollers, resourcequotas"

// LimitOfQuota is the name of the limit that bounds what a ResourceQuota calls name.
func LimitOfQuota(name string) string { return LimitQuota + "." + name }

// +k8s:deepcopy-gen=false

// Quota is what a name of a ResourceQuota counts.
type Quota struct {
	// Resource is that whose objects count.
	Resource schema.GroupResource
	// Objects are counted, whatever they hold. Otherwise it is something that they hold.
	Objects bool
	// Milli is counted in thousandths, as processors are.
	Milli bool
	// Counts says it in a few words.
	Counts string
}

var hugePages = regexp.MustCompile(`^(requests\.)?hugepages-[1-9][0-9]*[KMGTPE]i$`)

// QuotaOf finds what a name of a ResourceQuota counts. The error says what would be right.
func QuotaOf(name string) (Quota, error) {
	core := func(resource string, objects bool, counts string) Quota {
		return Quota{Resource: schema.GroupResource{Resource: resource}, Objects: objects, Counts: counts}
	}
	const pods, claims, services = "pods", "persistentvolumeclaims", "services"
	switch name {
	case "configmaps", "secrets", "replicationcontrollers", "resourcequotas", claims, services:
		return core(name, true, name), nil
	case pods:
		return core(pods, false, "pods that have not ended"), nil
	case "cpu", "requests.cpu", "limits.cpu":
		q := core(pods, false, podsCount(name))
		q.Milli = true
		return q, nil
	case "memory", "requests.memory", "limits.memory",
		"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage":
		return core(pods, false, podsCount(name)), nil
	case "services.nodeports":
		return core(services, false, "ports of services of the types NodePort and LoadBalancer"), nil
	case "services.loadbalancers":
		return core(services, false, "services of type LoadBalancer"), nil
	case "requests.storage":
		return core(claims, false, "what claims of volumes request"), nil
	}
	if hugePages.MatchString(name) {
		return core(pods, false, podsCount(name)), nil
	}
	if of, ok := strings.CutPrefix(name, countPrefix); ok {
		r := schema.ParseGroupResource(of)
		if problems := append(validation.IsDNS1123Label(r.Resource), problemsOfGroup(r.Group)...); len(problems) > 0 {
			return Quota{}, fmt.Errorf("must be count/ with the plural name and the group of a resource, such as "+
				"count/jobs.batch or count/secrets: %s", strings.Join(problems, ", "))
		}
		return Quota{Resource: r, Objects: true, Counts: "objects of " + r.String() + ", whatever their state"}, nil
	}
	for suffix, q := range map[string]Quota{
		classStorage: {Resource: schema.GroupResource{Resource: claims},
			Counts: "what claims of volumes of this class request"},
		classClaims: {Resource: schema.GroupResource{Resource: claims}, Counts: "claims of volumes of this class"},
		classDevices: {Resource: schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"},
			Counts: "devices of this class that claims of the space can be given"},
	} {
		if class, ok := strings.CutSuffix(name, suffix); ok {
			if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
				return Quota{}, fmt.Errorf("must begin with the name of a class, and %q is none: %s", class,
					strings.Join(problems, ", "))
			}
			return q, nil
		}
	}
	if of, ok := strings.CutPrefix(name, requestsPrefix); ok && strings.Contains(of, "/") {
		if class, ok := strings.CutPrefix(of, implicitDevice); ok {
			return Quota{}, fmt.Errorf("say %s%s, which counts what pods request of the class, too", class,
				classDevices)
		}
		if problems := validation.IsQualifiedName(of); len(problems) > 0 || strings.Contains(of, "kubernetes.io/") {
			return Quota{}, fmt.Errorf("must be requests. with a resource of nodes that has a domain, but not "+
				"kubernetes.io, such as requests.example.com/gpu%s",
				strings.Join(append([]string{""}, problems...), ": "))
		}
		return core(pods, false, podsCount(name)), nil
	}
	if len(validation.IsQualifiedName(name)) == 0 && strings.Contains(name, "/") {
		return Quota{}, fmt.Errorf("nothing counts it; pods count by requests.%s, other names are %s", name,
			QuotaNames)
	}
	return Quota{}, fmt.Errorf("nothing counts it; names are %s", QuotaNames)
}

// podsCount says what a name of a resource counts of pods.
func podsCount(name string) string {
	if of, ok := strings.CutPrefix(name, "limits."); ok {
		return "what pods that have not ended are limited to of " + of
	}
	return "what pods that have not ended request of " + strings.TrimPrefix(name, requestsPrefix)
}

func problemsOfGroup(group string) []string {
	if group == "" {
		return nil
	}
	return validation.IsDNS1123Subdomain(group)
}

// parseQuota sets the limit of a name by its text in settings. ok is false for the name of
// another limit.
func (in *TenantLimits) parseQuota(name, text string) (ok bool, err error) {
	of, ok := strings.CutPrefix(name, LimitOfQuota(""))
	if !ok {
		return false, nil
	}
	return true, setNamed(&in.Quota, of, text, func(text string) (resource.Quantity, error) {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return q, fmt.Errorf("%q is not a quantity such as 500m, 4 or 256Mi", text)
		}
		return q, nil
	})
}

func validateQuota(quota map[string]resource.Quantity, path *field.Path) (errs field.ErrorList) {
	if len(quota) > mostQuotas {
		errs = append(errs, field.TooMany(path, len(quota), mostQuotas))
	}
	most := resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)
	for _, name := range slices.Sorted(maps.Keys(quota)) {
		at, n := path.Key(name), quota[name]
		of, err := QuotaOf(name)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path, name, err.Error()))
		case n.Sign() < 0:
			errs = append(errs, field.Invalid(at, n.String(),
				"must not be negative; without it the limit of all tenants applies"))
		case n.Cmp(*most) > 0:
			errs = append(errs, field.Invalid(at, n.String(), "must be at most "+most.String()))
		case !of.Milli && n.Cmp(*resource.NewQuantity(n.Value(), resource.DecimalSI)) != 0:
			errs = append(errs, field.Invalid(at, n.String(), "must be a whole number"))
		}
	}
	return errs
}
