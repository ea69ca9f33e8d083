package sides

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"text/template"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/pki"
)

// place is what the files and arguments of upstream's programs are made of.
type place struct {
	Dir, Name, IP       string
	ClusterDNS          string
	Carried             carried
	TLS                 *pki.Files
	Kubelet             pki.Pair // serving certificate
	RestrictOOMScoreAdj bool
	CgroupDriver        string
	OOMScoreAdj         int
	MaxOpenFiles        uint64
}

type carried struct{ Shim, Runc, CNI, PauseImage string }

const (
	clusterCIDR = "10.42.0.0/16"
	serviceCIDR = "10.43.0.0/16"
)

// UpstreamOptions are how upstream's programs run besides as they come.
type UpstreamOptions struct {
	// AtOnce starts all programs at the same time. Otherwise what needs the API
	// server waits for it: programs that look for it in vain wait ever longer
	// before they look again, or end and are started again.
	AtOnce bool
	// Flags are further flags, by program and name without dashes.
	Flags map[string]map[string]string
}

// Upstream makes a side of upstream's programs, with what kubeadm and an
// administrator would write. It has a node if the maker has what a node needs.
func (m *Maker) Upstream(ctx context.Context, name string, options UpstreamOptions) (*Side, error) {
	return m.newSide(ctx, name, func(s *Side) error {
		p, err := m.place(s)
		if err != nil {
			return err
		}
		s.TLS, s.Kubeconfig = p.TLS, p.conf("admin")
		s.Socket = s.Host.Path("/run/containerd/containerd.sock")
		commands := p.commands()
		for program, flags := range options.Flags {
			maps.Copy(commands[program], flags)
		}
		s.launch = func(ctx context.Context, s *Side) {
			keep := func(names ...string) {
				for _, name := range names {
					s.keep(ctx, filepath.Join(m.Programs, name), flags(commands[name])...)
				}
			}
			first, then := []string{"etcd", "kube-apiserver"}, []string{"kube-controller-manager", "kube-scheduler"}
			if m.Carried != nil {
				first = []string{"etcd", "containerd", "kube-apiserver"}
				then = []string{"kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy"}
			}
			keep(first...)
			if !options.AtOnce && s.awaitReady(ctx) != nil {
				return
			}
			keep(then...)
		}
		return nil
	})
}

// place makes the files of a side of upstream's programs.
func (m *Maker) place(s *Side) (place, error) {
	h := s.Host
	dir := filepath.Join(m.Lab.Dir, "upstream-"+h.IP.String())
	for _, sub := range []string{"conf", "manifests"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return place{}, err
		}
	}
	ip := h.IP.String()
	files, err := pki.Ensure(filepath.Join(dir, "pki"), pki.Options{SANs: []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		h.Name, "10.43.0.1", ip, "127.0.0.1",
	}})
	if err != nil {
		return place{}, err
	}
	p := place{Dir: dir, Name: h.Name, IP: ip, ClusterDNS: "10.43.0.10", TLS: files}
	if err := p.credentials(h.IP); err != nil {
		return place{}, err
	}
	if m.Carried == nil {
		return p, nil
	}
	machine, err := host.Probe()
	if err != nil {
		return place{}, err
	}
	p.Kubelet = pki.Pair{Cert: filepath.Join(dir, "pki", "kubelet.crt"), Key: filepath.Join(dir, "pki", "kubelet.key")}
	p.Carried = carried{m.Carried.ShimPath, m.Carried.RuncPath, m.Carried.CNIBinDir, m.Carried.PauseImage}
	p.RestrictOOMScoreAdj = !machine.CanLowerOOMScore
	p.CgroupDriver, p.MaxOpenFiles = "cgroupfs", min(machine.MaxOpenFiles, 1000000)
	if machine.SystemdCgroups() {
		p.CgroupDriver = "systemd"
	}
	if machine.CanLowerOOMScore {
		p.OOMScoreAdj = -999
	}
	for name, text := range map[string]string{
		"containerd.toml": containerdConfig, "kubelet.yaml": kubeletConfig, "10-bridge.conflist": bridgeConfig,
	} {
		if err := p.write(name, text); err != nil {
			return place{}, err
		}
	}
	return p, nil
}

func (p place) conf(name string) string { return filepath.Join(p.Dir, "conf", name) }

func (p place) write(name, text string) error {
	t, err := template.New(name).Parse(text)
	if err != nil {
		return err
	}
	path := p.conf(name)
	if filepath.Ext(name) == ".conflist" {
		path = filepath.Join(p.Dir, "cni", name)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // written below
	return t.Execute(f, p)
}

// credentials makes those of the node and writes all kubeconfigs.
func (p place) credentials(ip net.IP) error {
	clients, err := pki.LoadCA(p.TLS.ClientCA)
	if err != nil {
		return err
	}
	servers, err := pki.LoadCA(p.TLS.ServerCA)
	if err != nil {
		return err
	}
	issue := func(ca *pki.CA, name string, leaf pki.Leaf) (pki.Pair, error) {
		pair := pki.Pair{Cert: filepath.Join(p.Dir, "pki", name+".crt"), Key: filepath.Join(p.Dir, "pki", name+".key")}
		key, err := pki.EnsureKey(pair.Key)
		if err != nil {
			return pair, err
		}
		cert, err := ca.Sign(key.Public(), leaf)
		if err != nil {
			return pair, err
		}
		return pair, os.WriteFile(pair.Cert, cert, 0o600)
	}
	if _, err := issue(servers, "kubelet", pki.Leaf{
		CommonName: pki.NodeUserPrefix + p.Name, DNSNames: []string{p.Name}, IPs: []net.IP{ip}, Server: true,
	}); err != nil {
		return err
	}
	node, err := issue(clients, "node", pki.Leaf{
		CommonName: pki.NodeUserPrefix + p.Name, Organization: []string{pki.GroupNodes}, Client: true,
	})
	if err != nil {
		return err
	}
	proxy, err := issue(clients, "proxy", pki.Leaf{CommonName: "system:kube-proxy", Client: true})
	if err != nil {
		return err
	}
	for name, pair := range map[string]pki.Pair{
		"admin": p.TLS.Admin, "controllers": p.TLS.ControllerManager, "scheduler": p.TLS.Scheduler,
		"node": node, "proxy": proxy,
	} {
		if err := kubeconfig.Write(kubeconfig.Options{
			Path: p.conf(name), Server: "https://" + net.JoinHostPort(p.IP, "6443"),
			CAFile: p.TLS.ServerCA.Cert, CertFile: pair.Cert, KeyFile: pair.Key, Embed: true,
		}); err != nil {
			return err
		}
	}
	return nil
}

func flags(m map[string]string) []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] == "" { // a command without dashes
			args = append(args, name)
			continue
		}
		args = append(args, "--"+name+"="+m[name])
	}
	return args
}
