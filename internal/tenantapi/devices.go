package tenantapi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/coreapi"
)

// LimitDevices is the limit of devices by their class, of which one is called as
// LimitOfDevices says.
const LimitDevices = "devices"

// devicesField is its number in protobuf.
const devicesField = 20

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

// appendDevices encodes a map as protobuf does, always in the same order.
func appendDevices(b []byte, devices map[string]int64) []byte {
	for _, class := range slices.Sorted(maps.Keys(devices)) {
		n := devices[class]
		entry := coreapi.AppendNumber(coreapi.AppendText(nil, 1, class), 2, &n)
		b = protowire.AppendBytes(protowire.AppendTag(b, devicesField, protowire.BytesType), entry)
	}
	return b
}

// deviceEntry is one entry of the encoded map.
type deviceEntry struct {
	class string
	n     int64
}

// Unmarshal reads an entry.
func (in *deviceEntry) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) (err error) {
		switch f.Num {
		case 1:
			in.class, err = f.Text()
		case 2:
			in.n, err = f.Number()
		}
		return err
	})
}

func (in *TenantLimits) readDevices(f coreapi.Value) error {
	var entry deviceEntry
	if err := f.Message(&entry); err != nil {
		return err
	}
	if in.Devices == nil {
		in.Devices = map[string]int64{}
	}
	in.Devices[entry.class] = entry.n
	return nil
}
