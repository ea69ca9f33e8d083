package allowances

import "testing"

func TestAnnotationsThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		key, value string
		refused    bool
	}{
		{VolumeTypes, "nfs, iscsi", false},
		{VolumeTypes, "*", false},
		{VolumeTypes, "nsf", true},
		{VolumeTypes, "", true},
		{CSIDrivers, "a,,b", true},
		{CSIDrivers, "csi.example.com", false},
		{HostPorts, "8080,9000-9010", false},
		{HostPorts, "9010-9000", true},
		{HostPorts, "70000", true},
		{HostPorts, "http", true},
		{LoadBalancers, "false", false},
		{LoadBalancers, "true", false},
		{LoadBalancers, "80,443", false},
		{LoadBalancers, "no", true},
		{NodeNames, "true", false},
		{NodeNames, "yes", true},
		{DeviceAdminAccess, "true", false},
		{DeviceAdminAccess, "1", true},
		{DeviceClasses, "gpu.example.com,nic.example.com", false},
		{DeviceClasses, " ", true},
		{PodSecurity, "restricted", false},
		{PodSecurity, "strict", true},
		{"example.com/x", "", false},
	} {
		if err := Validate(map[string]string{c.key: c.value}); (err != nil) != c.refused {
			t.Errorf("%s: %q: %v", c.key, c.value, err)
		}
	}
}

func TestPorts(t *testing.T) {
	for _, c := range []struct {
		value string
		port  int32
		has   bool
	}{
		{"80,8000-8999", 80, true}, {"80,8000-8999", 8999, true}, {"80,8000-8999", 81, false},
		{"true", 1, true}, {"false", 1, false}, {"", 1, false},
	} {
		ports, err := ParsePorts(c.value)
		if err != nil || ports.Has(c.port) != c.has {
			t.Errorf("%d in %q: %v, %v", c.port, c.value, ports.Has(c.port), err)
		}
	}
}
