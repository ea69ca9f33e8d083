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
	class, ok := strings.CutPrefix(name, LimitDevices+".")
	if !ok {
		return false, nil
	}
	if text == NoLimit {
		delete(in.Devices, class)
		return true, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return true, fmt.Errorf("%q is not a whole number", text)
	}
	if in.Devices == nil {
		in.Devices = map[string]int64{}
	}
	in.Devices[class] = n
	return true, nil
}

// devicesOver are the limits of these classes, and those of base for others.
func devicesOver(devices, base map[string]int64) map[string]int64 {
	if len(base) == 0 {
		return devices
	}
	out := maps.Clone(base)
	maps.Copy(out, devices)
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
