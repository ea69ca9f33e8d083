package sides

import (
	"fmt"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/pki"
)

// commands are the arguments of the programs.
func (p place) commands() map[string]map[string]string {
	t := p.TLS
	url := func(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }
	controllers := map[string]string{
		"allocate-node-cidrs":       "true",
		"authentication-kubeconfig": p.conf("controllers"),
		"authorization-kubeconfig":  p.conf("controllers"),
		"bind-address":              "127.0.0.1", "client-ca-file": t.ClientCA.Cert, "cluster-cidr": clusterCIDR,
		"controllers":                  "*,bootstrap-signer-controller,token-cleaner-controller",
		"kubeconfig":                   p.conf("controllers"),
		"leader-elect":                 "false",
		"requestheader-client-ca-file": t.RequestHeaderCA.Cert, "root-ca-file": t.ServerCA.Cert,
		"service-account-private-key-file": t.ServiceAccountKey,
		"service-cluster-ip-range":         serviceCIDR,
		"use-service-account-credentials":  "true",
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
			"listen-client-urls":             url(2379),
			"advertise-client-urls":          url(2379),
			"listen-peer-urls":               url(2380),
			"initial-advertise-peer-urls":    url(2380),
			"initial-cluster":                p.Name + "=" + url(2380),
			"listen-metrics-urls":            "http://127.0.0.1:2381",
			"watch-progress-notify-interval": "5s",
			"cert-file":                      t.EtcdServer.Cert,
			"key-file":                       t.EtcdServer.Key,
			"client-cert-auth":               "true",
			"trusted-ca-file":                t.EtcdServerCA.Cert,
			"peer-cert-file":                 t.EtcdPeer.Cert,
			"peer-key-file":                  t.EtcdPeer.Key,
			"peer-client-cert-auth":          "true",
			"peer-trusted-ca-file":           t.EtcdPeerCA.Cert,
		},
		"kube-apiserver": {
			"advertise-address":        p.IP,
			"allow-privileged":         "true",
			"authorization-mode":       "Node,RBAC",
			"client-ca-file":           t.ClientCA.Cert,
			"enable-admission-plugins": "NodeRestriction", "enable-bootstrap-token-auth": "true",
			"etcd-cafile":                        t.EtcdServerCA.Cert,
			"etcd-certfile":                      t.EtcdClient.Cert,
			"etcd-keyfile":                       t.EtcdClient.Key,
			"etcd-servers":                       url(2379),
			"kubelet-client-certificate":         t.APIServerKubeletClient.Cert,
			"kubelet-client-key":                 t.APIServerKubeletClient.Key,
			"kubelet-certificate-authority":      t.ServerCA.Cert,
			"kubelet-preferred-address-types":    "InternalIP,ExternalIP,Hostname",
			"proxy-client-cert-file":             t.AuthProxy.Cert,
			"proxy-client-key-file":              t.AuthProxy.Key,
			"requestheader-allowed-names":        pki.UserAuthProxy,
			"requestheader-client-ca-file":       t.RequestHeaderCA.Cert,
			"requestheader-extra-headers-prefix": "X-Remote-Extra-",
			"requestheader-group-headers":        "X-Remote-Group",
			"requestheader-username-headers":     "X-Remote-User",
			"secure-port":                        "6443",
			"service-account-issuer":             "https://kubernetes.default.svc.cluster.local",
			"service-account-key-file":           t.ServiceAccountKey,
			"service-account-signing-key-file":   t.ServiceAccountKey, "service-cluster-ip-range": serviceCIDR,
			"tls-cert-file": t.ServingAPIServer.Cert, "tls-private-key-file": t.ServingAPIServer.Key,
		},
		"kube-controller-manager": controllers,
		"kube-scheduler": {
			"authentication-kubeconfig": p.conf("scheduler"),
			"authorization-kubeconfig":  p.conf("scheduler"),
			"bind-address":              "127.0.0.1",
			"kubeconfig":                p.conf("scheduler"), "leader-elect": "false",
		},
		"kubelet": {"config": p.conf("kubelet.yaml"),
			"kubeconfig":        p.conf("node"),
			"node-ip":           p.IP,
			"hostname-override": p.Name},
		// Like a4s it leaves the machine's connection tracking alone.
		"kube-proxy": {
			"kubeconfig":                        p.conf("proxy"),
			"hostname-override":                 p.Name,
			"cluster-cidr":                      clusterCIDR,
			"proxy-mode":                        "nftables",
			"oom-score-adj":                     "0",
			"conntrack-max-per-core":            "0",
			"conntrack-min":                     "0",
			"conntrack-tcp-timeout-established": "0s",
			"conntrack-tcp-timeout-close-wait":  "0s",
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
