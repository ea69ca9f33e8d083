package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/internal/noderuntime"
)

// Validate checks every field. The error is one problem.Input, or several
// joined.
func (a *Agent) Validate() error { return a.validate(flagSource) }

func (a *Agent) validate(source func(string) string) error {
	c := &checker{source: source}
	c.common(&a.Common)
	c.serverURLs(a.ServerURLs, a.LBServerPort)
	if a.Token == "" && a.TokenFile == "" {
		c.fail("token", "", ErrNoValue,
			"the join token of the server, from server/node-token in its data directory; or --token-file")
	}
	c.tokens("token", a.Token, "token-file", a.TokenFile)
	(&nodeChecker{checker: c, agent: a}).node()
	return c.err()
}

// wantServerURL is what a server is named by.
const wantServerURL = "the URL of a server such as https://192.0.2.10:6443"

func (c *checker) serverURLs(values []string, balancer int) {
	if len(values) == 0 {
		c.fail("server", "", ErrNoValue, wantServerURL)
	}
	for _, value := range values {
		c.serverURL(value)
		if u, err := url.Parse(value); err == nil && u.Port() == strconv.Itoa(balancer) && isLoopback(u.Hostname()) {
			c.fail("server", value, errors.New("this is the port of the load balancer on the node itself"),
				"the port of the server, or another --lb-server-port")
		}
	}
	c.port("lb-server-port", balancer)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *checker) serverURL(value string) { c.urlOf("server", value) }

// urlOf checks the address of a server.
func (c *checker) urlOf(setting, value string) {
	const want = wantServerURL
	if value == "" {
		c.fail(setting, "", ErrNoValue, want)
		return
	}
	u, err := url.Parse(value)
	switch {
	case err != nil:
		// url.Error repeats the value; the reason is all that is new.
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		c.fail(setting, value, err, want)
	case u.Scheme != "https" || u.Hostname() == "":
		c.bad(setting, value, want)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		c.fail(setting, u.Redacted(), errors.New("more than scheme, host and port"), want)
	}
}

// nodeChecker checks what nodes have.
type nodeChecker struct {
	*checker
	agent *Agent
}

// node checks what `a4s agent` and a server with a node have in common.
func (c *nodeChecker) node() {
	a := c.agent
	c.name()
	if len(a.NodeIPs) > 1 {
		c.fail("node-ip", strings.Join(a.NodeIPs, ","), errors.New("more than one address"), "one IPv4 address")
	}
	for _, ip := range a.NodeIPs {
		c.addr("node-ip", ip, true)
	}
	for _, ip := range a.NodeExternalIPs {
		c.addr("node-external-ip", ip, true)
	}
	c.labels()
	c.taints()
	c.file("resolv-conf", a.ResolvConf)
	if a.FlannelIface != "" && !ifaceName.MatchString(a.FlannelIface) {
		c.bad("flannel-iface", a.FlannelIface, "the name of a network interface")
	}
	if a.PrivateRegistry != DefaultPrivateRegistry {
		c.file("private-registry", a.PrivateRegistry)
	}
	c.oneOf("snapshotter", a.Snapshotter, Snapshotters())
	if a.PauseImage != "" && !imageName.MatchString(a.PauseImage) {
		c.bad("pause-image", a.PauseImage, "an image reference such as registry.example.com/pause:1")
	}
	if e := a.ContainerRuntimeEndpoint; e != "" && !filepath.IsAbs(strings.TrimPrefix(e, "unix://")) {
		c.bad("container-runtime-endpoint", e, "an absolute path of a socket, or one after unix://")
	} else if _, err := noderuntime.OfNode(a.Runtimes, e); err != nil {
		c.fail("runtime", strings.Join(a.Runtimes, " "), err, runtimeWant(err))
	}
	if a.RuntimeGracePeriods < 0 {
		c.bad("runtime-grace-periods", strconv.Itoa(a.RuntimeGracePeriods), "0 or more")
	}
	c.oneOf("vm-accelerator", a.VMAccelerator, VMAccelerators())
	c.file("vm-kernel", a.VMKernel)
	c.file("vm-initrd", a.VMInitrd)
	c.oneOf("proxy-mode", a.ProxyMode, ProxyModes())
	c.upstreamArgs("kubelet-arg", a.KubeletArgs)
	c.upstreamArgs("kube-proxy-arg", a.KubeProxyArgs)
}

var (
	ifaceName = regexp.MustCompile(`^[^\s/:]{1,15}$`)
	imageName = regexp.MustCompile(`^[a-z0-9]([a-zA-Z0-9._-]*(:[0-9]+)?(/[a-z0-9._-]+)*)(:[A-Za-z0-9_][` +
		`A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)
)

// runtimeWant says what a good --runtime would be in place of one with err.
func runtimeWant(err error) string {
	switch {
	case errors.Is(err, noderuntime.ErrTaken):
		return "a name and an endpoint that no other runtime of the node has"
	case errors.Is(err, noderuntime.ErrPrimary):
		return "primary on one runtime at most"
	case errors.Is(err, noderuntime.ErrConflict):
		return "either --container-runtime-endpoint or a --runtime of the type container"
	default:
		return noderuntime.Form + ", the endpoint being the path of a CRI socket or " + noderuntime.Builtin
	}
}

// maxNodeName is the limit of a label value: the name becomes one.
const maxNodeName = 63

func (c *nodeChecker) name() {
	name, withID := c.agent.NodeName, c.agent.WithNodeID
	if name == "" {
		return
	}
	limit := maxNodeName
	if withID {
		limit -= len("-00000000")
	}
	if len(name) > limit {
		c.fail("node-name", name, fmt.Errorf("%d characters", len(name)), fmt.Sprintf("at most %d", limit))
		return
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		c.bad("node-name", name, "a DNS name in lower case: letters, digits, - and .")
	}
}

func (c *nodeChecker) labels() {
	for _, l := range c.agent.NodeLabels {
		key, value, ok := strings.Cut(l, "=")
		switch {
		case !ok:
			c.bad("node-label", l, `"key=value"`)
		case len(validation.IsQualifiedName(key)) > 0:
			c.fail("node-label", l, errors.New(validation.IsQualifiedName(key)[0]), `"key=value"`)
		case len(validation.IsValidLabelValue(value)) > 0:
			c.fail("node-label", l, errors.New(validation.IsValidLabelValue(value)[0]), `"key=value"`)
		case !nodeMaySet(key):
			c.fail("node-label", l, errors.New("a node may not give itself this label"),
				"a key outside of kubernetes.io and k8s.io, or one below node.kubernetes.io/")
		}
	}
}

// nodeMaySet reports whether kubelet and the NodeRestriction admission let a
// node register with this label.
func nodeMaySet(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	if inDomain(prefix, "node-restriction.kubernetes.io") {
		return false
	}
	if !inDomain(prefix, "kubernetes.io") && !inDomain(prefix, "k8s.io") {
		return true
	}
	if inDomain(prefix, "node.kubernetes.io") || inDomain(prefix, "kubelet.kubernetes.io") {
		return true
	}
	return slices.Contains([]string{
		"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch",
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type",
		"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
	}, key)
}

func inDomain(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

func (c *nodeChecker) taints() {
	const want = `"key=value:effect" or "key:effect" with the effect NoSchedule, PreferNoSchedule or NoExecute`
	seen := map[string]bool{}
	for _, t := range c.agent.NodeTaints {
		keyValue, effect, ok := strings.Cut(t, ":")
		key, value, _ := strings.Cut(keyValue, "=")
		switch {
		case !ok || !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, effect):
			c.bad("node-taint", t, want)
		case len(validation.IsQualifiedName(key)) > 0:
			c.fail("node-taint", t, errors.New(validation.IsQualifiedName(key)[0]), want)
		case len(validation.IsValidLabelValue(value)) > 0:
			c.fail("node-taint", t, errors.New(validation.IsValidLabelValue(value)[0]), want)
		case seen[key+":"+effect]:
			c.fail("node-taint", t, errors.New("a second taint of this key and effect"),
				"each pair of key and effect once")
		}
		seen[key+":"+effect] = true
	}
}
