package tenantapi

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// LimitDevices is the limit of devices by their class, of which one is called as
// LimitOfDevices says.
const LimitDevices = "devices"

// LimitOfDevices is the name of the limit of the devices of a class.
func LimitOfDevices(class string) string { return LimitDevices + "." + class }

// parseDevices sets the limit of a class by its text in settings. ok is false for
// the name of another limit.
func (in *TenantLimits) parseDevices(name, text string) (ok bool, err error) {
	class, ok := strings.CutPrefix(name, LimitOfDevices(""))
	if !ok {
		return false, nil
	}
	return true, setNamed(&in.Devices, class, text, func(text string) (int64, error) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", text)
		}
		return n, nil
	})
}

// setNamed sets a limit that stands by its name in a map, by its text in settings.
func setNamed[V any](limits *map[string]V, name, text string, parse func(string) (V, error)) error {
	if text == NoLimit {
		delete(*limits, name)
		return nil
	}
	limit, err := parse(text)
	if err != nil {
		return err
	}
	if *limits == nil {
		*limits = map[string]V{}
	}
	(*limits)[name] = limit
	return nil
}

// namedOver are the limits by these names, and those of base for others.
func namedOver[V any](limits, base map[string]V) map[string]V {
	if len(base) == 0 {
		return limits
	}
	out := maps.Clone(base)
	maps.Copy(out, limits)
	return out
}

func validateDevices(devices map[string]int64, path *field.Path) (errs field.ErrorList) {
	for class, n := range devices {
		for _, problem := range validation.IsDNS1123Subdomain(class) {
			errs = append(errs, field.Invalid(path, class, "must be the name of a DeviceClass: "+problem))
		}
		if n < 0 {
			errs = append(errs, field.Invalid(path.Key(class), n,
				"must not be negative; without it the limit of all tenants applies"))
		}
	}
	return errs
}
