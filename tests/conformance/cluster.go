package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	dataDir    = "/var/lib/a4s"
	kubeconfig = "/etc/a4s/a4s.yaml"
	// The spaces that tests run in, as SPACES and the tables name them: a
	// tenant that its administrators trust, one with the default settings, and
	// the system.
	tenantSpace, restrictedSpace, systemSpace = "tenant", "restricted", "system"
	// nodes is how many there are: several tests need two.
	nodes        = 2
	startTimeout = 5 * time.Minute
)

// tenants are the names of those spaces that are not the system's. Short: with
// it the names of the tests' namespaces have at most 63 bytes.
var tenants = map[string]string{tenantSpace: "t1", restrictedSpace: "t2"}

// cluster is a server with its node, a second node, and the machine that the
// tests run in.
type cluster struct {
	server, agent, client *hosts.Host
	binary                string
	// dir holds the kubeconfigs, of which each host sees the same.
	dir string
}

func (c *cluster) url() string { return "https://" + net.JoinHostPort(c.server.IP.String(), "6443") }

// startCluster returns when both nodes are ready. They take images from the
// registry at that address.
func (r *runner) startCluster(ctx context.Context, lab *hosts.Lab, registry string) (_ *cluster, err error) {
	fmt.Println("starting the cluster")
	c := &cluster{binary: r.binary, dir: lab.Dir}
	for name, host := range map[string]**hosts.Host{"server": &c.server, "agent": &c.agent, "client": &c.client} {
		if *host, err = lab.NewHost(ctx, name); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			c.keepLogs(r.out)
		}
	}()
	for _, h := range []*hosts.Host{c.server, c.agent} {
		if err := h.WriteFile("/etc/a4s/registries.yaml",
			"mirrors: {registry.k8s.io: {endpoint: [\"http://"+registry+"\"]}}\n"); err != nil {
			return nil, err
		}
	}
	server, err := c.server.Start(c.binary, "server")
	if err != nil {
		return nil, err
	}
	var token []byte
	err = wait.PollUntilContextTimeout(ctx, time.Second, startTimeout, true, func(context.Context) (bool, error) {
		if !server.Running() {
			return false, fmt.Errorf("a4s server ended:\n%s", hosts.LastLines(server.Log, 30))
		}
		token, err = os.ReadFile(c.server.Path(dataDir + "/server/node-token"))
		return err == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the server: %w", err)
	}
	agent, err := c.agent.Start(c.binary, "agent", "--server", c.url(), "--token", strings.TrimSpace(string(token)))
	if err != nil {
		return nil, err
	}
	last := errors.New("not asked")
	err = wait.PollUntilContextTimeout(ctx, time.Second, startTimeout, true, func(ctx context.Context) (bool, error) {
		if !agent.Running() {
			return false, fmt.Errorf("a4s agent ended:\n%s", hosts.LastLines(agent.Log, 30))
		}
		last = c.nodesReady(ctx)
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the nodes: %w: %w", err, last)
	}
	return c, nil
}

func (c *cluster) nodesReady(ctx context.Context) error {
	file, err := c.kubeconfigOf(ctx, systemSpace)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for _, n := range list.Items {
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue &&
				len(n.Spec.Taints) == 0 {
				ready++
			}
		}
	}
	if ready < nodes {
		return fmt.Errorf("%d of %d nodes are ready", ready, nodes)
	}
	return nil
}

// kubeconfigOf returns the file that gives access to a space: the system's as
// a4s wrote it, but for the address, or that of the tenant's administrator.
func (c *cluster) kubeconfigOf(ctx context.Context, space string) (string, error) {
	file := filepath.Join(c.dir, space+".yaml")
	if name := tenants[space]; name != "" {
		// Most tests look at the nodes, which tenants do not see unless told so.
		settings := `{"spec":{"nodes":"ReadOnly"}}`
		if space == tenantSpace {
			// In the suite every namespace can let its pods be privileged.
			settings = `{"spec":{"podSecurity":"privileged","nodes":"ReadOnly"}}`
		}
		return file, errors.Join(
			c.a4s(ctx, "tenant", "create", name, "--output", file, "--server", c.url()),
			c.a4s(ctx, "kubectl", "patch", "tenant", name, "--type=merge", "--patch="+settings))
	}
	config, err := clientcmd.LoadFromFile(c.server.Path(kubeconfig))
	if err != nil {
		return "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = c.url()
	}
	return file, clientcmd.WriteToFile(*config, file)
}

// a4s runs a command of a4s on the server.
func (c *cluster) a4s(ctx context.Context, args ...string) error {
	result, err := c.server.Run(ctx, c.binary, args...)
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("a4s %s: exit code %d: %s", strings.Join(args, " "), result.ExitCode, result.Stderr)
	}
	return err
}

// keepLogs saves what the processes wrote, before it goes with the hosts.
func (c *cluster) keepLogs(dir string) {
	for _, h := range []*hosts.Host{c.server, c.agent} {
		if h == nil {
			continue
		}
		for i, log := range h.Logs() {
			b, err := os.ReadFile(log)
			if err == nil && len(b) > 0 {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.log", h.Name, i)), b, 0o644)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "conformance:", err)
			}
		}
	}
}
