package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// TestPartitionServices: nodes know the Services and nodes of all partitions, and mix none up
// (seed: system-tenanted pods, "Kube-proxy").
func TestPartitionServices(t *testing.T) {
	t.Parallel()
	home := ownCluster(t, "svc-home", "--disable-agent")
	worker := newAgent(t, "svc-worker", home)
	home.waitNodeReady(t, worker.host.Name, worker.started)
	// Its kube-proxy has begun with one partition.
	s := &partitionServices{of: map[string]*cluster{"main": home}, nodes: []string{worker.host.Name}}
	s.system(t, "main")
	s.serve(t, "main", "kube-system", worker.host.Name)
	s.service(t, "main", "kube-system")
	s.reaches(t, "main", "kube-system", worker.host.Name, "main", "kube-system")

	tp2 := beginPartition(t, "svc-tp2", "tp2", home, "--service-cidr", "10.44.0.0/16",
		"--cluster-cidr", "10.142.0.0/16")
	// It has no copies of nodes: its own learn of others from home.
	rp3 := beginRoles(t, "svc-rp3", home, "--resource-partition", "rp3", "--cluster-cidr", "10.152.0.0/16")
	tp2.waitOwnNode(t)
	rp3.waitOwnNode(t)
	s.of["tp2"], s.nodes = tp2, append(s.nodes, tp2.host.Name, rp3.host.Name)
	hosts.Until(t, startTimeout, "each partition knows all nodes", func(ctx context.Context) error {
		for _, c := range s.of {
			for _, node := range s.nodes {
				if _, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	s.system(t, "tp2")
	s.serve(t, "main", "kube-system", s.nodes[1:]...)
	s.serve(t, "tp2", "kube-system", s.nodes...)
	s.service(t, "tp2", "kube-system")

	t.Run("pods reach each other across resource partitions", func(t *testing.T) { s.testPods(t) })
	t.Run("S9 Services of equal name", func(t *testing.T) {
		for _, from := range []string{"main", "tp2"} {
			for _, node := range s.nodes {
				for to := range s.of {
					s.reaches(t, from, "kube-system", node, to, "kube-system")
				}
			}
		}
	})
	t.Run("the API is that of the pod's partition", func(t *testing.T) {
		for name, c := range s.of {
			for _, node := range s.nodes {
				hosts.Until(t, soon, name+"'s pod on "+node+" reaches its API", func(ctx context.Context) error {
					// It may not list pods, and says so after it said who it is.
					out, err := c.exec(ctx, "kube-system", podOn(name, node), "", "/testbox", "api")
					if strings.Contains(out, "user system:serviceaccount:kube-system:default") {
						return nil
					}
					return fmt.Errorf("it says %q: %w", out, err)
				})
			}
		}
	})
	t.Run("tenants", func(t *testing.T) { s.testTenants(t) })
	t.Run("S9 names of addresses", func(t *testing.T) { s.testReverse(t) })
	t.Run("load balancers", func(t *testing.T) { s.testLoadBalancers(t, newHost(t, "svc-client")) })
	t.Run("S9 deletion", func(t *testing.T) { s.testDeletion(t) })
}

// partitionServices is a cluster of two partitions with tenants, and nodes of three.
type partitionServices struct {
	of    map[string]*cluster
	nodes []string
	ips   map[string]string // of the Services "web", by partition and namespace
}

// system waits until pods can be made in the system space of a partition.
func (s *partitionServices) system(t *testing.T, partition string) {
	t.Helper()
	s.account(t, partition, "kube-system")
}

func (s *partitionServices) account(t *testing.T, partition, ns string) {
	t.Helper()
	s.of[partition].takesPods(t, ns)
}

// podOn is what the pod of a partition on a node is called, and calls itself.
func podOn(partition, node string) string { return partition + "-" + node }

// serve runs a server on each node, all behind the Service "web" of the namespace.
func (s *partitionServices) serve(t *testing.T, partition, ns string, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		pod := on(node, testboxPod(podOn(partition, node)))
		pod.Labels["app"] = "web"
		s.of[partition].createPod(t, ns, pod)
	}
	for _, node := range nodes {
		s.of[partition].waitPodReady(t, ns, podOn(partition, node))
	}
}

func (s *partitionServices) service(t *testing.T, partition, ns string) {
	t.Helper()
	if s.ips == nil {
		s.ips = map[string]string{}
	}
	s.ips[partition+"/"+ns] = s.of[partition].createService(t, ns, service("web", "web")).Spec.ClusterIP
}

// get asks a server for its answer, from a pod of a partition on a node.
func (s *partitionServices) get(ctx context.Context, partition, ns, node, url string) (string, error) {
	return s.of[partition].exec(ctx, ns, podOn(partition, node), "", "/testbox", "get", url)
}

// reaches checks that a pod reaches all endpoints of a Service and nothing else by its address.
func (s *partitionServices) reaches(t *testing.T, from, fromNS, node, to, toNS string) {
	t.Helper()
	url := "http://" + s.ips[to+"/"+toNS] + "/hostname"
	want := map[string]bool{}
	for _, node := range s.nodes {
		want[podOn(to, node)] = true
	}
	got := map[string]bool{}
	hosts.Until(t, soon, fmt.Sprintf("%s's pod on %s reaches the Service of %s", from, node, to),
		func(ctx context.Context) error {
			for range 24 {
				name, err := s.get(ctx, from, fromNS, node, url)
				if err != nil {
					return err
				}
				if !want[name] {
					t.Fatalf("%s leads to %s", url, name)
				}
				if got[name] = true; len(got) == len(want) {
					return nil
				}
			}
			return fmt.Errorf("it reaches %v only", slices.Collect(maps.Keys(got)))
		})
}

// testPods: pods see each other's own addresses, wherever they are.
func (s *partitionServices) testPods(t *testing.T) {
	for from, c := range s.of {
		for _, node := range s.nodes {
			own := c.waitPodReady(t, "kube-system", podOn(from, node)).Status.PodIP
			for to, other := range s.of {
				for _, far := range s.nodes {
					address := other.waitPodReady(t, "kube-system", podOn(to, far)).Status.PodIP
					if own == address {
						continue
					}
					hosts.Until(t, soon, fmt.Sprintf("%s on %s reaches %s on %s", from, node, to, far),
						func(ctx context.Context) error {
							seen, err := s.get(ctx, from, "kube-system", node, "http://"+address+":8080/client")
							if err == nil && seen != own {
								err = fmt.Errorf("%s is seen as %s", own, seen)
							}
							return err
						})
				}
			}
		}
	}
}

// testTenants: a tenant of each partition has its own Service, and none reaches the other.
func (s *partitionServices) testTenants(t *testing.T) {
	namespaces := map[string]string{}
	for partition := range s.of {
		tenant := "svc-" + partition
		s.of["main"].must(t, "tenant", "create", tenant, "--partition", partition)
		namespaces[partition] = "default." + tenant
	}
	for partition, ns := range namespaces {
		s.account(t, partition, ns)
		s.serve(t, partition, ns, s.nodes...)
		s.service(t, partition, ns)
	}
	for partition, ns := range namespaces {
		for _, node := range s.nodes {
			s.reaches(t, partition, ns, node, partition, ns)
		}
	}
	var asking sync.WaitGroup // each waits until it gives up
	for from, to := range map[string]string{"main": "tp2", "tp2": "main"} {
		targets := []string{s.ips[to+"/"+namespaces[to]] + ":80", s.ips[to+"/kube-system"] + ":80"}
		for _, ns := range []string{namespaces[to], "kube-system"} {
			for _, node := range s.nodes {
				targets = append(targets,
					s.of[to].waitPodReady(t, ns, podOn(to, node)).Status.PodIP+":8080")
			}
		}
		for _, node := range s.nodes {
			for _, target := range targets {
				asking.Go(func() {
					if out, err := s.get(t.Context(), from, namespaces[from], node,
						"http://"+target+"/hostname"); err == nil {
						t.Errorf("%s's tenant on %s reaches %s: %s", from, node, target, out)
					}
				})
			}
		}
	}
	asking.Wait()
}

// testReverse: an address of a Service has its name in the pod's partition, and nowhere else.
func (s *partitionServices) testReverse(t *testing.T) {
	ask := func(ctx context.Context, from, ns, node, address string) (string, error) {
		return s.of[from].exec(ctx, ns, podOn(from, node), "", "/testbox", "dns", address, "PTR")
	}
	for from := range s.of {
		tenant := "default.svc-" + from
		for _, node := range s.nodes {
			for ns, names := range map[string]map[string]string{
				"kube-system": {"kube-system": "web.kube-system", tenant: "web." + tenant},
				tenant:        {tenant: "web.default", "kube-system": ""},
			} {
				for of, name := range names {
					hosts.Until(t, soon, fmt.Sprintf("%s: %s on %s asks for the Service of %s", from, ns, node, of),
						func(ctx context.Context) error {
							got, err := ask(ctx, from, ns, node, s.ips[from+"/"+of])
							switch {
							case name == "" && err != nil && strings.Contains(err.Error(), "no such host"):
								return nil
							case name == "" || err != nil || got != name+".svc.cluster.local.":
								return fmt.Errorf("it is %q: %w", got, err)
							}
							return nil
						})
				}
			}
			for to := range s.of {
				if to == from {
					continue
				}
				for _, ns := range []string{"kube-system", tenant} {
					got, err := ask(t.Context(), from, ns, node, s.ips[to+"/kube-system"])
					if err == nil || !strings.Contains(err.Error(), "no such host") {
						t.Errorf("a pod of %s in %s on %s: the Service of %s is %q: %v", from, ns, node, to, got, err)
					}
				}
			}
		}
	}
}

// testLoadBalancers: equal ports of Services in two partitions, each at its own nodes.
func (s *partitionServices) testLoadBalancers(t *testing.T, outside *hosts.Host) {
	addresses := map[string]string{} // of nodes
	nodes, err := s.of["main"].client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				addresses[n.Name] = a.Address
			}
		}
	}
	worker, of2, of3 := addresses[s.nodes[0]], addresses[s.nodes[1]], addresses[s.nodes[2]]
	spaces := func(partition string) map[string]int32 {
		return map[string]int32{"kube-system": 81, "default.svc-" + partition: 82}
	}
	for name, c := range s.of {
		for ns, port := range spaces(name) {
			c.createService(t, ns, balanced("open", "web", port))
		}
	}
	answers := func(ip, partition string) {
		t.Helper()
		for _, port := range spaces(partition) {
			url := fmt.Sprintf("http://%s:%d/hostname", ip, port)
			hosts.Until(t, soon, url+" is of "+partition, func(ctx context.Context) error {
				r, err := outside.Run(ctx, env.testbox, "get", url)
				if err == nil && !strings.HasPrefix(r.Stdout, partition+"-") {
					err = fmt.Errorf("it answers %q %s", r.Stdout, r.Stderr)
				}
				return err
			})
		}
	}
	at := map[string][]string{"main": {worker}, "tp2": {of2}}
	check := func() {
		t.Helper()
		for name, c := range s.of {
			for ns := range spaces(name) {
				c.waitIngress(t, ns, "open", at[name]...)
			}
			for _, ip := range at[name] {
				answers(ip, name)
			}
		}
	}
	check()
	// A node of a partition without tenants is given to one.
	s.of["main"].mustKubectl(t, "label node "+s.nodes[2]+" a4s.io/lb-partition=tp2")
	at["tp2"] = append(at["tp2"], of3)
	check()
	// Deleted in one, the other's stays.
	for ns := range spaces("tp2") {
		if err := s.of["tp2"].client.CoreV1().Services(ns).
			Delete(t.Context(), "open", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, ip := range at["tp2"] {
		hosts.Until(t, soon, "nobody answers at "+ip, func(ctx context.Context) error {
			r, err := outside.Run(ctx, env.testbox, "get", "http://"+ip+":81/hostname")
			if err == nil && r.ExitCode == 0 {
				err = fmt.Errorf("%s does", r.Stdout)
			}
			return err
		})
	}
	answers(worker, "main")
}

// testDeletion: what is left of a name is that of the other partition.
func (s *partitionServices) testDeletion(t *testing.T) {
	if err := s.of["tp2"].client.CoreV1().Services("kube-system").
		Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for partition := range s.of {
		for _, node := range s.nodes {
			hosts.Until(t, soon, "the Service is gone on "+node, func(ctx context.Context) error {
				out, err := s.get(ctx, partition, "kube-system", node, "http://"+s.ips["tp2/kube-system"]+"/hostname")
				if err == nil {
					return fmt.Errorf("it leads to %s", out)
				}
				return nil
			})
			s.reaches(t, partition, "kube-system", node, "main", "kube-system")
		}
	}
}
