package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

// sources returns the settings that err complains about.
func sources(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	all := []error{err}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		all = joined.Unwrap()
	}
	var out []string
	for _, e := range all {
		var in *problem.Input
		if !errors.As(e, &in) {
			t.Fatalf("%v is no problem.Input", e)
		}
		if in.Want == "" {
			t.Errorf("%v does not say what would be valid", e)
		}
		out = append(out, in.Source)
	}
	return strings.Join(out, " ")
}

func TestServerValidate(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		set  func(*Server)
		want string
	}{
		{"defaults", func(*Server) {}, ""},
		{"no data directory", func(s *Server) { s.Agent.DataDir = "" }, "--data-dir"},
		{"relative data directory", func(s *Server) { s.Agent.DataDir = "x" }, "--data-dir"},
		{"verbosity", func(s *Server) { s.Agent.Verbosity = 11 }, "-v"},
		{"vmodule", func(s *Server) { s.Agent.VModule = "a=1,b" }, "--vmodule"},
		{"good vmodule", func(s *Server) { s.Agent.VModule = "a=1,b*=2" }, ""},
		{"a partition", func(s *Server) {
			s.TenantPartition, s.ClusterURLs = "tp2", []string{"https://192.0.2.1:6443"}
		}, ""},
		{"a partition with both roles", func(s *Server) {
			s.TenantPartition, s.ResourcePartition, s.ClusterURLs = "tp2", "tp2", []string{"https://192.0.2.1:6443"}
		}, ""},
		{"a partition of a server to join", func(s *Server) {
			s.TenantPartition, s.JoinURLs = "tp2", []string{"https://192.0.2.1:6443"}
		}, ""},
		{"a partition of no cluster", func(s *Server) { s.TenantPartition = "tp2" }, "--tenant-partition"},
		{"nodes of no cluster", func(s *Server) { s.ResourcePartition = "rp2" }, "--resource-partition"},
		{"a cluster without a partition", func(s *Server) { s.ClusterURLs = []string{"https://192.0.2.1:6443"} },
			"--cluster"},
		{"two partitions", func(s *Server) {
			s.TenantPartition, s.ResourcePartition, s.ClusterURLs = "tp2", "rp2", []string{"https://192.0.2.1:6443"}
		}, "--resource-partition"},
		{"the home partition by flag", func(s *Server) {
			s.TenantPartition, s.ClusterURLs = "main", []string{"https://192.0.2.1:6443"}
		}, "--tenant-partition"},
		{"a partition of the system's name", func(s *Server) {
			s.TenantPartition, s.ClusterURLs = "system", []string{"https://192.0.2.1:6443"}
		}, "--tenant-partition"},
		{"a name with a dot", func(s *Server) {
			s.TenantPartition, s.ClusterURLs = "tp.2", []string{"https://192.0.2.1:6443"}
		}, "--tenant-partition"},
		{"a cluster without a scheme", func(s *Server) {
			s.TenantPartition, s.ClusterURLs = "tp2", []string{"192.0.2.1:6443"}
		}, "--cluster"},
		{"any address", func(s *Server) { s.BindAddress = "0.0.0.0" }, ""},
		{"bind name", func(s *Server) { s.BindAddress = "localhost" }, "--bind-address"},
		{"bind IPv6", func(s *Server) { s.BindAddress = "::" }, "--bind-address"},
		{"port 0", func(s *Server) { s.HTTPSListenPort = 0 }, "--https-listen-port"},
		{"port 65536", func(s *Server) { s.HTTPSListenPort = 65536 }, "--https-listen-port"},
		{"advertise loopback", func(s *Server) { s.AdvertiseAddress = "127.0.0.1" }, "--advertise-address"},
		{"SANs", func(s *Server) { s.TLSSANs = []string{"a.example", "*.example.com", "192.0.2.1", "Upper.example"} },
			""},
		{"bad SAN", func(s *Server) { s.TLSSANs = []string{"a b"} }, "--tls-san"},
		{"IPv6 SAN", func(s *Server) { s.TLSSANs = []string{"fd00::1"} }, "--tls-san"},
		{"token with space", func(s *Server) { s.Token = "a b" }, "--token"},
		{"cut token", func(s *Server) { s.Token = "K10abc::server:x" }, "--token"},
		{"two tokens", func(s *Server) { s.Token, s.TokenFile = "a", policy }, "--token-file"},
		{"two agent tokens", func(s *Server) { s.AgentToken, s.AgentTokenFile = "a", policy }, "--agent-token-file"},
		{"disabled addons", func(s *Server) { s.Disable = Addons() }, ""},
		{"unknown addon", func(s *Server) { s.Disable = []string{"traefik"} }, "--disable"},
		{"default tenant", func(s *Server) { s.DefaultTenant = "team-a" }, ""},
		{"default tenant with a dot", func(s *Server) { s.DefaultTenant = "a.b" }, "--default-tenant"},
		{"default tenant of the cluster", func(s *Server) { s.DefaultTenant = "system" }, "--default-tenant"},
		{"group without tenants", func(s *Server) { s.TenantGroups = []string{"a=t1", "oidc:b"} },
			"--tenant-group"},
		{"group of the system", func(s *Server) { s.TenantGroups = []string{"oidc:b=t1,system"} }, "--tenant-group"},
		{"group of Kubernetes", func(s *Server) { s.TenantGroups = []string{"system:masters=t1"} }, "--tenant-group"},
		{"group twice", func(s *Server) { s.TenantGroups = []string{"a=t1", "a=t2"} }, "--tenant-group"},
		{"default tenant too long", func(s *Server) { s.DefaultTenant = strings.Repeat("a", 25) }, "--default-tenant"},
		{"no CIDR", func(s *Server) { s.ClusterCIDR = "10.0.0.1" }, "--cluster-cidr"},
		{"host bits", func(s *Server) { s.ClusterCIDR = "10.42.0.1/16" }, "--cluster-cidr"},
		{"IPv6 pods", func(s *Server) { s.ClusterCIDR = "fd00::/56" }, "--cluster-cidr"},
		{"dual stack", func(s *Server) { s.ServiceCIDR = "10.43.0.0/16,fd00::/112" }, "--service-cidr"},
		{"small cluster range", func(s *Server) { s.ClusterCIDR = "10.42.0.0/25" }, "--cluster-cidr"},
		{"smallest ranges", func(s *Server) { s.ClusterCIDR, s.ServiceCIDR = "10.42.0.0/24", "10.43.0.0/28" }, ""},
		{"small service range", func(s *Server) { s.ServiceCIDR = "10.43.0.0/29" }, "--service-cidr"},
		{"overlap", func(s *Server) { s.ServiceCIDR = "10.42.1.0/24" }, "--service-cidr"},
		{"node in pods", func(s *Server) { s.Agent.NodeIPs = []string{"10.42.0.1"} }, "--node-ip"},
		{"advertised in services", func(s *Server) { s.AdvertiseAddress = "10.43.0.1" }, "--advertise-address"},
		{"node ports", func(s *Server) { s.ServiceNodePortRange = "2-1" }, "--service-node-port-range"},
		{"node port", func(s *Server) { s.ServiceNodePortRange = "30000" }, "--service-node-port-range"},
		{"DNS outside", func(s *Server) { s.ClusterDNS = "10.44.0.10" }, "--cluster-dns"},
		{"DNS on the API's address", func(s *Server) { s.ClusterDNS = "10.43.0.1" }, "--cluster-dns"},
		{"DNS on broadcast", func(s *Server) { s.ClusterDNS = "10.43.255.255" }, "--cluster-dns"},
		{"DNS elsewhere inside", func(s *Server) { s.ClusterDNS = "10.43.0.53" }, ""},
		{"domain", func(s *Server) { s.ClusterDomain = "Cluster.local." }, "--cluster-domain"},
		{"backend", func(s *Server) { s.FlannelBackend = "wireguard" }, "--flannel-backend"},
		{"kubeconfig", func(s *Server) { s.WriteKubeconfig = "k" }, "--write-kubeconfig"},
		{"mode 648", func(s *Server) { s.WriteKubeconfigMode = "648" }, "--write-kubeconfig-mode"},
		{"mode 1777", func(s *Server) { s.WriteKubeconfigMode = "1777" }, "--write-kubeconfig-mode"},
		{"group", func(s *Server) { s.WriteKubeconfigGroup = "a b" }, "--write-kubeconfig-group"},
		{"audit to stdout", func(s *Server) { s.AuditLogPath, s.AuditPolicyFile = "-", policy }, ""},
		{"policy without log", func(s *Server) { s.AuditPolicyFile = policy }, "--audit-policy-file"},
		{"policy missing", func(s *Server) { s.AuditLogPath, s.AuditPolicyFile = "/a", filepath.Join(dir, "no") },
			"--audit-policy-file"},
		{"argument with dashes", func(s *Server) { s.KubeAPIServerArgs = []string{"--v=2"} }, "--kube-apiserver-arg"},
		{"argument without value", func(s *Server) { s.EtcdArgs = []string{"x"} }, "--etcd-arg"},
		{"empty value is one", func(s *Server) { s.KubeSchedulerArgs = []string{"x="} }, ""},
		{"all mistakes at once", func(s *Server) { s.ClusterDomain, s.Agent.Snapshotter = "", "zfs" },
			"--cluster-domain --snapshotter"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := DefaultServer()
			if err != nil {
				t.Fatal(err)
			}
			tc.set(s)
			if got := sources(t, s.Validate()); got != tc.want {
				t.Errorf("complaints about %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAgentValidate(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name string
		set  func(*Agent)
		want string
	}{
		{"minimum", func(*Agent) {}, ""},
		{"no server", func(a *Agent) { a.ServerURLs = nil }, "--server"},
		{"http", func(a *Agent) { a.ServerURLs = []string{"http://h:6443"} }, "--server"},
		{"no host", func(a *Agent) { a.ServerURLs = []string{"https://:6443"} }, "--server"},
		{"path", func(a *Agent) { a.ServerURLs = []string{"https://a:6443", "https://h/x"} }, "--server"},
		{"bad port", func(a *Agent) { a.ServerURLs = []string{"https://h:x"} }, "--server"},
		{"several servers",
			func(a *Agent) { a.ServerURLs = []string{"https://a:6443", "https://127.0.0.1:6443"} }, ""},
		{"half a list", func(a *Agent) { a.ServerURLs = []string{"https://a:6443", ""} }, "--server"},
		{"the node's own load balancer",
			func(a *Agent) { a.ServerURLs = []string{"https://127.0.0.1:6444"} }, "--server"},
		{"no load balancer", func(a *Agent) { a.LBServerPort = 0 }, "--lb-server-port"},
		{"no token", func(a *Agent) { a.Token = "" }, "--token"},
		{"bootstrap token",
			func(a *Agent) { a.Token = "K10" + strings.Repeat("a", 64) + "::abcdef.0123456789abcdef" }, ""},
		{"node name", func(a *Agent) { a.NodeName = "Node_1" }, "--node-name"},
		{"long node name", func(a *Agent) { a.NodeName = strings.Repeat("a", 64) }, "--node-name"},
		{"long node name with id",
			func(a *Agent) { a.NodeName, a.WithNodeID = strings.Repeat("a", 60), true }, "--node-name"},
		{"two node addresses", func(a *Agent) { a.NodeIPs = []string{"192.0.2.1", "192.0.2.2"} }, "--node-ip"},
		{"loopback node address", func(a *Agent) { a.NodeIPs = []string{"127.0.0.1"} }, "--node-ip"},
		{"external addresses", func(a *Agent) { a.NodeExternalIPs = []string{"192.0.2.1", "192.0.2.2"} }, ""},
		{"bad external address", func(a *Agent) { a.NodeExternalIPs = []string{""} }, "--node-external-ip"},
		{"labels", func(a *Agent) {
			a.NodeLabels = []string{"a=b", "example.com/x=", "node.kubernetes.io/x=y", "topology.kubernetes.io/zone=z"}
		}, ""},
		{"label without value", func(a *Agent) { a.NodeLabels = []string{"a"} }, "--node-label"},
		{"label key", func(a *Agent) { a.NodeLabels = []string{"a b=c"} }, "--node-label"},
		{"label value", func(a *Agent) { a.NodeLabels = []string{"a=b c"} }, "--node-label"},
		{"role label",
			func(a *Agent) { a.NodeLabels = []string{"node-role.kubernetes.io/worker=true"} }, "--node-label"},
		{"restricted label",
			func(a *Agent) { a.NodeLabels = []string{"x.node-restriction.kubernetes.io/a=b"} }, "--node-label"},
		{"taints", func(a *Agent) { a.NodeTaints = []string{"k=v:NoSchedule", "k=v:NoExecute", "x:PreferNoSchedule"} },
			""},
		{"taint without effect", func(a *Agent) { a.NodeTaints = []string{"k=v"} }, "--node-taint"},
		{"taint effect", func(a *Agent) { a.NodeTaints = []string{"k=v:Never"} }, "--node-taint"},
		{"taint key", func(a *Agent) { a.NodeTaints = []string{"=v:NoSchedule"} }, "--node-taint"},
		{"taint twice",
			func(a *Agent) { a.NodeTaints = []string{"k=a:NoSchedule", "k=b:NoSchedule"} }, "--node-taint"},
		{"resolver file", func(a *Agent) { a.ResolvConf = filepath.Join(dir, "no") }, "--resolv-conf"},
		{"resolver directory", func(a *Agent) { a.ResolvConf = dir }, "--resolv-conf"},
		{"interface", func(a *Agent) { a.FlannelIface = "a/b" }, "--flannel-iface"},
		{"registries file", func(a *Agent) { a.PrivateRegistry = filepath.Join(dir, "no") }, "--private-registry"},
		{"snapshotter", func(a *Agent) { a.Snapshotter = "native" }, ""},
		{"pause image", func(a *Agent) { a.PauseImage = "registry.example.com:5000/a/pause:1" }, ""},
		{"bad pause image", func(a *Agent) { a.PauseImage = "a b" }, "--pause-image"},
		{"runtime", func(a *Agent) { a.ContainerRuntimeEndpoint = "unix:///run/x.sock" }, ""},
		{"runtime over TCP", func(a *Agent) { a.ContainerRuntimeEndpoint = "tcp://x" },
			"--container-runtime-endpoint"},
		{"runtimes", func(a *Agent) {
			a.Runtimes = []string{"vm,vm,builtin", "crio,container,/run/crio.sock,primary"}
		}, ""},
		{"machines beside an external runtime", func(a *Agent) {
			a.Runtimes, a.ContainerRuntimeEndpoint = []string{"vm,vm,builtin"}, "/run/x.sock"
		}, ""},
		{"half a runtime", func(a *Agent) { a.Runtimes = []string{"vm,vm"} }, "--runtime"},
		{"runtime of no type", func(a *Agent) { a.Runtimes = []string{"x,wasm,/run/x.sock"} }, "--runtime"},
		{"two primary runtimes",
			func(a *Agent) { a.Runtimes = []string{"a,vm,/a,primary", "b,container,/b,primary"} }, "--runtime"},
		{"one runtime twice", func(a *Agent) { a.Runtimes = []string{"a,vm,builtin", "b,vm,builtin"} }, "--runtime"},
		{"container runtime in two ways", func(a *Agent) {
			a.Runtimes, a.ContainerRuntimeEndpoint = []string{"a,container,/a"}, "/run/x.sock"
		}, "--runtime"},
		{"no grace", func(a *Agent) { a.RuntimeGracePeriods = 0 }, ""},
		{"negative grace", func(a *Agent) { a.RuntimeGracePeriods = -1 }, "--runtime-grace-periods"},
		{"proxy mode", func(a *Agent) { a.ProxyMode = "ipvs" }, "--proxy-mode"},
		{"kubelet argument", func(a *Agent) { a.KubeletArgs = []string{"max-pods"} }, "--kubelet-arg"},
		{"kube-proxy argument", func(a *Agent) { a.KubeProxyArgs = []string{"=x"} }, "--kube-proxy-arg"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &Agent{}
			if err := applyDefaults(AgentSettings(a)); err != nil {
				t.Fatal(err)
			}
			a.ServerURLs, a.Token = []string{"https://192.0.2.10:6443"}, "secret"
			tc.set(a)
			if got := sources(t, a.Validate()); got != tc.want {
				t.Errorf("complaints about %q, want %q", got, tc.want)
			}
		})
	}
}
