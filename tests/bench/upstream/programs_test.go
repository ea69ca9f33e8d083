package upstream

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"text/template"
	"time"

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

// prepareUpstream writes what kubeadm and an administrator would.
func (c *cluster) prepareUpstream() error {
	dir := filepath.Join(env.lab.Dir, "upstream-"+c.host.IP.String())
	for _, sub := range []string{"conf", "manifests"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	machine, err := host.Probe()
	if err != nil {
		return err
	}
	ip := c.host.IP.String()
	c.tls, err = pki.Ensure(filepath.Join(dir, "pki"), pki.Options{SANs: []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", c.host.Name, "10.43.0.1", ip, "127.0.0.1",
	}})
	if err != nil {
		return err
	}
	p := place{
		Dir: dir, Name: c.host.Name, IP: ip, ClusterDNS: "10.43.0.10", TLS: c.tls,
		Kubelet:             pki.Pair{Cert: filepath.Join(dir, "pki", "kubelet.crt"), Key: filepath.Join(dir, "pki", "kubelet.key")},
		Carried:             carried{env.carried.ShimPath, env.carried.RuncPath, env.carried.CNIBinDir, env.carried.PauseImage},
		RestrictOOMScoreAdj: !machine.CanLowerOOMScore,
		CgroupDriver:        "cgroupfs", MaxOpenFiles: min(machine.MaxOpenFiles, 1000000),
	}
	if machine.SystemdCgroups() {
		p.CgroupDriver = "systemd"
	}
	if machine.CanLowerOOMScore {
		p.OOMScoreAdj = -999
	}
	if err := p.credentials(c.host.IP); err != nil {
		return err
	}
	for name, text := range map[string]string{"containerd.toml": containerdConfig, "kubelet.yaml": kubeletConfig, "10-bridge.conflist": bridgeConfig} {
		if err := p.write(name, text); err != nil {
			return err
		}
	}
	c.kubeconfig = p.conf("admin")
	c.socket = c.host.Path("/run/containerd/containerd.sock")
	c.launch = p.launch
	return nil
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
	clients, err := pki.LoadAuthority(p.TLS.ClientCA)
	if err != nil {
		return err
	}
	servers, err := pki.LoadAuthority(p.TLS.ServerCA)
	if err != nil {
		return err
	}
	issue := func(ca *pki.Authority, name string, leaf pki.Leaf) (pki.Pair, error) {
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
	if _, err := issue(servers, "kubelet", pki.Leaf{CommonName: pki.NodeUserPrefix + p.Name, DNSNames: []string{p.Name}, IPs: []net.IP{ip}, Server: true}); err != nil {
		return err
	}
	node, err := issue(clients, "node", pki.Leaf{CommonName: pki.NodeUserPrefix + p.Name, Organization: []string{pki.GroupNodes}, Client: true})
	if err != nil {
		return err
	}
	proxy, err := issue(clients, "proxy", pki.Leaf{CommonName: "system:kube-proxy", Client: true})
	if err != nil {
		return err
	}
	for name, pair := range map[string]pki.Pair{
		"admin": p.TLS.Admin, "controllers": p.TLS.ControllerManager, "scheduler": p.TLS.Scheduler, "node": node, "proxy": proxy,
	} {
		if err := kubeconfig.Write(kubeconfig.Options{
			Path: p.conf(name), Server: "https://" + net.JoinHostPort(p.IP, "6443"), CAFile: p.TLS.ServerCA.Cert, CertFile: pair.Cert, KeyFile: pair.Key, Embed: true,
		}); err != nil {
			return err
		}
	}
	return nil
}

// launch starts the seven. What needs the API server waits for it, unless all
// are to start at once: programs that look for it in vain wait ever longer before
// they look again, or end and are started again.
func (p place) launch(ctx context.Context, c *cluster) {
	commands := p.commands()
	keep := func(name string) {
		c.keep(ctx, filepath.Join(env.programs, name), flags(commands[name])...)
	}
	keep("etcd")
	keep("containerd")
	keep("kube-apiserver")
	if c.name != sideAtOnce {
		for {
			err := c.connect()
			if err == nil {
				err = c.apiReady(ctx)
			}
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(look):
			}
		}
	}
	for _, name := range []string{"kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		keep(name)
	}
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

// commands are the arguments of the programs.
func (p place) commands() map[string]map[string]string {
	t := p.TLS
	url := func(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }
	controllers := map[string]string{
		"allocate-node-cidrs": "true", "authentication-kubeconfig": p.conf("controllers"), "authorization-kubeconfig": p.conf("controllers"),
		"bind-address": "127.0.0.1", "client-ca-file": t.ClientCA.Cert, "cluster-cidr": clusterCIDR,
		"controllers": "*,bootstrap-signer-controller,token-cleaner-controller", "kubeconfig": p.conf("controllers"), "leader-elect": "false",
		"requestheader-client-ca-file": t.RequestHeaderCA.Cert, "root-ca-file": t.ServerCA.Cert,
		"service-account-private-key-file": t.ServiceAccountKey, "service-cluster-ip-range": serviceCIDR, "use-service-account-credentials": "true",
	}
	for _, signer := range []string{"kube-apiserver-client", "kubelet-client", "legacy-unknown"} {
		controllers["cluster-signing-"+signer+"-cert-file"] = t.ClientCASigner
		controllers["cluster-signing-"+signer+"-key-file"] = t.ClientCA.Key
	}
	controllers["cluster-signing-kubelet-serving-cert-file"] = t.ServerCASigner
	controllers["cluster-signing-kubelet-serving-key-file"] = t.ServerCA.Key
	return map[string]map[string]string{
		"etcd": {
			"name": p.Name, "data-dir": filepath.Join(p.Dir, "etcd"),
			"listen-client-urls": url(2379), "advertise-client-urls": url(2379), "listen-peer-urls": url(2380), "initial-advertise-peer-urls": url(2380),
			"initial-cluster": p.Name + "=" + url(2380), "listen-metrics-urls": "http://127.0.0.1:2381", "watch-progress-notify-interval": "5s",
			"cert-file": t.EtcdServer.Cert, "key-file": t.EtcdServer.Key, "client-cert-auth": "true", "trusted-ca-file": t.EtcdServerCA.Cert,
			"peer-cert-file": t.EtcdPeer.Cert, "peer-key-file": t.EtcdPeer.Key, "peer-client-cert-auth": "true", "peer-trusted-ca-file": t.EtcdPeerCA.Cert,
		},
		"kube-apiserver": {
			"advertise-address": p.IP, "allow-privileged": "true", "authorization-mode": "Node,RBAC", "client-ca-file": t.ClientCA.Cert,
			"enable-admission-plugins": "NodeRestriction", "enable-bootstrap-token-auth": "true",
			"etcd-cafile": t.EtcdServerCA.Cert, "etcd-certfile": t.EtcdClient.Cert, "etcd-keyfile": t.EtcdClient.Key, "etcd-servers": url(2379),
			"kubelet-client-certificate": t.APIServerKubeletClient.Cert, "kubelet-client-key": t.APIServerKubeletClient.Key,
			"kubelet-certificate-authority": t.ServerCA.Cert, "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
			"proxy-client-cert-file": t.AuthProxy.Cert, "proxy-client-key-file": t.AuthProxy.Key, "requestheader-allowed-names": pki.UserAuthProxy,
			"requestheader-client-ca-file": t.RequestHeaderCA.Cert, "requestheader-extra-headers-prefix": "X-Remote-Extra-",
			"requestheader-group-headers": "X-Remote-Group", "requestheader-username-headers": "X-Remote-User", "secure-port": "6443",
			"service-account-issuer": "https://kubernetes.default.svc.cluster.local", "service-account-key-file": t.ServiceAccountKey,
			"service-account-signing-key-file": t.ServiceAccountKey, "service-cluster-ip-range": serviceCIDR,
			"tls-cert-file": t.ServingAPIServer.Cert, "tls-private-key-file": t.ServingAPIServer.Key,
		},
		"kube-controller-manager": controllers,
		"kube-scheduler": {
			"authentication-kubeconfig": p.conf("scheduler"), "authorization-kubeconfig": p.conf("scheduler"), "bind-address": "127.0.0.1",
			"kubeconfig": p.conf("scheduler"), "leader-elect": "false",
		},
		"kubelet": {"config": p.conf("kubelet.yaml"), "kubeconfig": p.conf("node"), "node-ip": p.IP, "hostname-override": p.Name},
		// Like a4s it leaves the machine's connection tracking alone.
		"kube-proxy": {
			"kubeconfig": p.conf("proxy"), "hostname-override": p.Name, "cluster-cidr": clusterCIDR, "proxy-mode": "nftables", "oom-score-adj": "0",
			"conntrack-max-per-core": "0", "conntrack-min": "0", "conntrack-tcp-timeout-established": "0s", "conntrack-tcp-timeout-close-wait": "0s",
		},
		"containerd": {"config": p.conf("containerd.toml")},
	}
}

// containerdConfig changes only what has to be.
const containerdConfig = `version = 4
[plugins.'io.containerd.cri.v1.images']
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{{.Carried.PauseImage}}'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {{.RestrictOOMScoreAdj}}
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{{.Carried.CNI}}']
    conf_dir = '{{.Dir}}/cni'
    use_internal_loopback = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    runtime_path = '{{.Carried.Shim}}'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '{{.Carried.Runc}}'
      SystemdCgroup = {{eq .CgroupDriver "systemd"}}
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: {{.TLS.ClientCA.Cert}}}
authorization: {mode: Webhook}
cgroupDriver: {{.CgroupDriver}}
clusterDNS: [{{.ClusterDNS}}]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {memory.available: 100Mi, nodefs.available: 5%, nodefs.inodesFree: 5%, imagefs.available: 5%}
failCgroupV1: false
failSwapOn: false
healthzBindAddress: 127.0.0.1
maxOpenFiles: {{.MaxOpenFiles}}
oomScoreAdj: {{.OOMScoreAdj}}
serializeImagePulls: false
staticPodPath: {{.Dir}}/manifests
tlsCertFile: {{.Kubelet.Cert}}
tlsPrivateKeyFile: {{.Kubelet.Key}}
`

const bridgeConfig = `{
  "cniVersion": "1.0.0", "name": "bench",
  "plugins": [
    {"type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true, "ipMasq": true,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.42.0.0/24"}]], "dataDir": "{{.Dir}}/ipam"}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`
