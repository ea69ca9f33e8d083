package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/a4s-io/a4s/internal/problem"
)

// ErrOfK3s means that k3s has the setting and a4s has not. What does the same here, or why
// nothing does, is what the error wants.
var ErrOfK3s = errors.New("a setting of k3s that a4s does not have")

// k3sSetting is a setting of k3s that a4s does not have.
type k3sSetting struct {
	name string
	kind Kind
	// accepted says that a4s does anyway what it asks for: it is taken with a warning. One that
	// is true or false is taken when it is true, and when it is false if it is not accepted.
	accepted bool
	// instead says what does it here, or why nothing does.
	instead string
}

// settingsOfK3s are all that k3s has, by name, and a4s has not. A test compares them with the list of
// k3s' flags in testdata.
func settingsOfK3s() []k3sSetting {
	accepted := func(name string, kind Kind, why string) k3sSetting { return k3sSetting{name, kind, true, why} }
	refused := func(name string, kind Kind, instead string) k3sSetting {
		return k3sSetting{name, kind, false, instead}
	}
	const (
		noCloud   = "nothing: there is no cloud controller; one of yours is a manifest"
		noIPv6    = "nothing: there is no IPv6"
		onePort   = "--https-listen-port and --bind-address: everything is at one port"
		flannel   = "--flannel-backend and --flannel-iface, or a network plugin of yours with --flannel-backend=none"
		noVPN     = "nothing: make the network between nodes yourself, and name its device with --flannel-iface"
		wholeOnly = "nothing: a server runs the whole control plane; see --disable-agent and --disable-etcd"
	)
	return []k3sSetting{
		refused("advertise-port", Int, "--https-listen-port: the port is the same for everybody"),
		refused("airgap-extra-registry", List, "mirrors in registries.yaml, or images under the names that pods use"),
		refused("alsologtostderr", Bool, "nothing: without --log everything goes to standard error"),
		refused("apiserver-bind-address", String, onePort),
		refused("apiserver-port", Int, onePort),
		refused("cluster-reset-restore-path", String, `"a4s etcd-snapshot restore", while the server is stopped`),
		refused("cluster-secret", String, "--token"),
		refused("disable-apiserver", Bool, wholeOnly),
		refused("disable-apiserver-lb", Bool, "--lb-server-port, which moves the load balancer of a node"),
		accepted("disable-cloud-controller", Bool, "there is none"),
		refused("disable-controller-manager", Bool, wholeOnly),
		refused("disable-default-registry-endpoint", Bool, "mirrors in registries.yaml"),
		accepted("disable-selinux", Bool, "containers have no SELinux labels"),
		refused("docker", Bool, "--container-runtime-endpoint with the socket of a runtime that speaks CRI"),
		refused("egress-selector-mode", String, "nothing: servers connect to the kubelets of nodes themselves"),
		refused("embedded-registry", Bool, "mirrors in registries.yaml: nodes do not share images"),
		accepted("enable-pprof", Bool, "profiles are at /debug/pprof of the API's port, for administrators"),
		refused("etcd-expose-metrics", Bool,
			"nothing: etcd's metrics are at https://127.0.0.1:2382, for holders of a certificate"),
		accepted("etcd-snapshot-reconcile-interval", String, "snapshots are looked for when they are asked for"),
		refused("flannel-cni-conf", String, flannel),
		refused("flannel-conf", String, flannel),
		refused("flannel-external-ip", Bool, "nothing: nodes reach each other at their own addresses"),
		refused("flannel-ipv6-masq", Bool, noIPv6),
		refused("helm-controller-arg", List, "nothing: the server installs charts, and has no such arguments"),
		refused("helm-job-image", String, "nothing: charts are installed without jobs"),
		refused("image-credential-provider-bin-dir", String,
			"--kubelet-arg=image-credential-provider-bin-dir=DIRECTORY"),
		refused("image-credential-provider-config", String, "--kubelet-arg=image-credential-provider-config=FILE"),
		refused("image-service-endpoint", String, "--container-runtime-endpoint, which is asked for images, too"),
		accepted("kine-tls", Bool, "what kine serves is reached within the process only"),
		refused("kube-cloud-controller-arg", List, noCloud),
		refused("kube-cloud-controller-manager-arg", List, noCloud),
		refused("kube-controller-arg", List, "--kube-controller-manager-arg"),
		refused("no-flannel", Bool, "--flannel-backend=none"),
		refused("node-external-dns", List, "--node-external-ip, or names that your DNS has"),
		refused("node-internal-dns", List, "--node-ip, or names that your DNS has"),
		refused("nonroot-devices", Bool, "nothing: devices belong to root in containers"),
		accepted("prefer-bundled-bin", Bool, "the programs that a4s carries are used always"),
		refused("protect-kernel-defaults", Bool, "--kubelet-arg=protect-kernel-defaults=true"),
		refused("rootless", Bool, "nothing: a4s runs as root"),
		refused("secrets-encryption-provider", String, "--secrets-encryption, which uses secretbox, or "+
			"--kube-apiserver-arg=encryption-provider-config=FILE"),
		refused("selinux", Bool, "nothing: containers have no SELinux labels"),
		refused("servicelb-namespace", String, "nothing: the load balancer of Services has no pods"),
		accepted("supervisor-metrics", Bool, "they are at /metrics of the API's port"),
		refused("supervisor-port", Int, onePort),
		refused("system-default-registry", String, "a mirror of docker.io in registries.yaml, and --pause-image"),
		accepted("tls-san-security", Bool,
			"only addresses of servers and names of --tls-san get into the certificate"),
		refused("vpn-auth", String, noVPN),
		refused("vpn-auth-file", String, noVPN),
	}
}

// ofK3s finds a setting of k3s that a4s does not have, nil for others.
func ofK3s(name string) *k3sSetting {
	all := settingsOfK3s()
	if i := slices.IndexFunc(all, func(s k3sSetting) bool { return s.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// specsOfK3s are those for Scan.
func specsOfK3s() (specs []Spec) {
	for _, s := range settingsOfK3s() {
		specs = append(specs, Spec{Names: []string{s.name}, Kind: s.kind})
	}
	return specs
}

// take returns the warning with which a setting is accepted that somebody gave, or why it is not.
func (s *k3sSetting) take(source, value string) (warning string, err error) {
	if s.kind == Bool {
		on, err := strconv.ParseBool(value)
		switch {
		case err != nil:
			return "", &problem.Input{Source: source, Value: value, Want: Bool.Want()}
		case !on && s.accepted:
			return "", &problem.Input{Source: source, Value: value, Want: "true, or nothing: " + s.instead}
		case !on:
			return source + ": not needed, that is so", nil
		}
	}
	if !s.accepted {
		return "", &problem.Input{Source: source, Err: ErrOfK3s, Want: s.instead}
	}
	return fmt.Sprintf("%s: not needed, %s", source, s.instead), nil
}

// carriedByK3s are the names that k3s' --disable knows for what a4s carries under another name.
func carriedByK3s() map[string]string {
	return map[string]string{"coredns": "dns", "runtimes": "runtimeclasses", "traefik": AddonIngress}
}

// disableAsHere gives what k3s' --disable names its name here.
func (s *Server) disableAsHere(source string) (warnings []string) {
	var names []string
	for _, name := range s.Disable {
		here, known := carriedByK3s()[name]
		switch {
		case !known:
			names = append(names, name)
		default:
			names = append(names, here)
			warnings = append(warnings, fmt.Sprintf("%s: %q is called %q here", source, name, here))
		}
	}
	s.Disable = names
	return warnings
}

// k3sVariables warns of variables of k3s in the environment, which are not read.
func (l *loader) k3sVariables(lookupEnv func(string) (string, bool)) {
	warn := func(name, instead string) {
		if _, ok := lookup(lookupEnv, name); ok {
			l.warnings = append(l.warnings, fmt.Sprintf("environment variable %s: ignored, %s", name, instead))
		}
	}
	for i := range l.table {
		if rest, ours := strings.CutPrefix(l.table[i].Env, "A4S_"); ours {
			warn("K3S_"+rest, "a4s reads "+l.table[i].Env)
		}
	}
	for _, s := range settingsOfK3s() {
		name := "K3S_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
		warn(name, "it is a setting of k3s that a4s does not have")
	}
}
