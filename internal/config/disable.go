package config

import "slices"

// Names of what a server carries besides the control plane, for --disable.
// Those of components are here; the others are files in manifests.
const (
	AddonIngress       = "ingress"
	AddonLocalStorage  = "local-storage"
	AddonMetricsServer = "metrics-server"
	AddonServiceLB     = "servicelb"
)

// Addons are the values of --disable. The carried manifests are among them by
// the names of their files, which a test of server/addons/deploy keeps so.
func Addons() []string {
	return []string{
		"dns", "fairness", AddonIngress, AddonLocalStorage, AddonMetricsServer, "rbac", "runtimeclasses",
		AddonServiceLB,
	}
}

// Disabled reports whether --disable names what is carried under the name.
func (s *Server) Disabled(name string) bool { return slices.Contains(s.Disable, name) }
