package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// TestPartitions: a cluster of two partitions, each with its own datastore (seed: system-
// tenanted pods, "Scale-out Arktos").
func TestPartitions(t *testing.T) {
	t.Parallel()
	home := ownCluster(t, "part-home", "--disable-agent")
	home.must(t, "tenant", "create", "early", "--output", "/run/early")
	t.Run("flags that cannot work are refused", func(t *testing.T) { testPartitionRefusals(t, home) })
	tp2 := beginPartition(t, "part-tp2", "tp2", home, "--service-cidr", "10.44.0.0/16",
		"--cluster-cidr", "10.142.0.0/16", "--disable-agent")
	both := []*cluster{home, tp2}

	t.Run("partitions are listed through any server", func(t *testing.T) {
		for _, c := range both {
			out := c.mustKubectl(t, "get partitions")
			if !strings.Contains(out, "main") || !strings.Contains(out, "10.44.0.0/16") ||
				!strings.Contains(out, "tenant,resource") {
				t.Errorf("%s: %s", c.host.Name, out)
			}
		}
		if out := tp2.must(t, "status"); !strings.Contains(out, "tp2 (tenant, resource)") {
			t.Errorf("the status does not name the partition: %s", out)
		}
		if out := tp2.must(t, "partition", "list"); !strings.Contains(out, tp2.host.IP.String()) {
			t.Errorf("the list does not name the servers: %s", out)
		}
	})
	t.Run("tenants of both through either server", func(t *testing.T) {
		for i, c := range both {
			for _, partition := range []string{"main", "tp2"} {
				name := fmt.Sprint("by-", i, "-in-", partition)
				c.must(t, "tenant", "create", name, "--partition", partition, "--output", "/run/"+name)
				useEverywhere(t, both, c, name)
			}
		}
	})
	t.Run("the partition with the fewest tenants is chosen", func(t *testing.T) {
		hosts.Until(t, soon, "the tenant from before has its placement", func(context.Context) error {
			if out := home.mustKubectl(t, "get tenantplacements"); !strings.Contains(out, "early") {
				return errors.New(out)
			}
			return nil
		})
		home.must(t, "tenant", "create", "chosen", "--output", "/run/chosen")
		if out := tp2.mustKubectl(t, "get tenantplacement chosen"); !strings.Contains(out, "tp2") {
			t.Errorf("the placement is %s", out)
		}
	})
	t.Run("names are unique in the cluster", func(t *testing.T) {
		for _, c := range both {
			for _, name := range []string{"early", "chosen"} {
				for _, partition := range []string{"main", "tp2"} {
					_, err := c.tenants(t).Create(t.Context(), &tenantapi.Tenant{
						ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: tenantapi.TenantSpec{Partition: partition},
					}, metav1.CreateOptions{})
					if !apierrors.IsAlreadyExists(err) {
						t.Errorf("%s makes %s in %s: %v", c.host.Name, name, partition, err)
					}
				}
			}
		}
	})
	t.Run("tokens of service accounts work through any server", func(t *testing.T) { testPassedOn(t, home, tp2) })
	t.Run("another partition's API by path", func(t *testing.T) {
		at := rest.CopyConfig(home.config)
		at.Host += "/partitions/tp2"
		client, err := kubernetes.NewForConfig(at)
		if err != nil {
			t.Fatal(err)
		}
		marker := configMap("marker", "tp2")
		if _, err := tp2.client.CoreV1().ConfigMaps("default").
			Create(t.Context(), marker, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if m, err := client.CoreV1().ConfigMaps("default").
			Get(t.Context(), "marker", metav1.GetOptions{}); err != nil || m.Data["value"] != "tp2" {
			t.Errorf("%v %v", m, err)
		}
		if _, err := home.client.CoreV1().ConfigMaps("default").
			Get(t.Context(), "marker", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("home has it: %v", err)
		}
		r := home.a4s(t, "kubectl", "--kubeconfig", "/run/chosen", "--server", home.url(), "get", "--raw",
			"/partitions/tp2/api/v1/nodes")
		if r.ExitCode == 0 || !strings.Contains(r.Stderr, "administrators of the cluster") {
			t.Errorf("a tenant gets another partition: %d %s %s", r.ExitCode, r.Stdout, r.Stderr)
		}
	})
	t.Run("deletion through the other server", func(t *testing.T) {
		tp2.must(t, "tenant", "delete", "by-0-in-main")
		home.must(t, "tenant", "delete", "by-0-in-tp2")
		// The names are free at once.
		home.must(t, "tenant", "create", "by-0-in-main", "--partition", "tp2", "--output", "/run/by-0-in-main")
		useEverywhere(t, both, home, "by-0-in-main")
		r := home.a4s(t, "kubectl", "--kubeconfig", "/run/by-0-in-tp2", "get", "configmaps")
		if r.ExitCode == 0 {
			t.Errorf("a deleted tenant is served: %s", r.Stdout)
		}
	})
	t.Run("what was interrupted is resumed", func(t *testing.T) { testResumed(t, home, tp2) })
	t.Run("home down", func(t *testing.T) { testHomeDown(t, home, tp2) })
	t.Run("remove", func(t *testing.T) {
		if r := home.a4s(t, "partition", "remove", "tp2"); r.ExitCode == 0 || !strings.Contains(r.Stderr, "tenants") {
			t.Errorf("a partition with tenants is removed: %s %s", r.Stdout, r.Stderr)
		}
		if r := home.a4s(t, "partition", "remove", "main"); r.ExitCode == 0 {
			t.Errorf("the home partition is removed: %s", r.Stdout)
		}
	})
}

// beginPartition starts the first server of a partition with both roles.
func beginPartition(t *testing.T, host, name string, home *cluster, args ...string) *cluster {
	t.Helper()
	return beginRoles(t, host, home, append([]string{"--tenant-partition", name, "--resource-partition", name},
		args...)...)
}

// beginRoles starts the first server of a partition with the roles of its flags.
func beginRoles(t *testing.T, host string, home *cluster, args ...string) *cluster {
	t.Helper()
	c, err := newServerOf(newHost(t, host), home.binary, append([]string{
		"--cluster", home.url(), "--token", home.serverToken(t)}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	return c
}

func (c *cluster) tenants(t *testing.T) *tenantapi.Client {
	t.Helper()
	client, err := tenantapi.NewClient(c.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// useEverywhere uses a tenant through all servers, with the kubeconfig that was made on one.
func useEverywhere(t *testing.T, servers []*cluster, maker *cluster, tenant string) {
	t.Helper()
	ctx := t.Context()
	w, err := servers[0].inSpace(t, tenant).CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for i, c := range servers {
		name := fmt.Sprint("through-", i)
		at := "--server=" + c.url()
		maker.must(t, "kubectl", "--kubeconfig", "/run/"+tenant, at, "create", "configmap", name,
			"--from-literal=a=b")
		maker.must(t, "kubectl", "--kubeconfig", "/run/"+tenant, at, "label", "configmap", name, "x=y")
		for {
			e := <-w.ResultChan()
			if m, ok := e.Object.(*corev1.ConfigMap); ok && m.Name == name && m.Labels["x"] == "y" {
				break
			} else if !ok {
				t.Fatalf("the watch through %s ended: %v", servers[0].host.Name, e)
			}
		}
		for _, other := range servers {
			m, err := other.inSpace(t, tenant).CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil || m.Labels["x"] != "y" {
				t.Errorf("through %s: %v %v", other.host.Name, m, err)
			}
			ns := "default." + tenant
			if _, err := other.client.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
				t.Errorf("by its composite name through %s: %v", other.host.Name, err)
			}
			if got, err := other.tenants(t).Get(ctx, tenant, metav1.GetOptions{}); err != nil || got.Name != tenant {
				t.Errorf("the Tenant through %s: %v %v", other.host.Name, got, err)
			}
		}
	}
}

// testPassedOn uses a service account of one partition through a server of the other.
func testPassedOn(t *testing.T, home, tp2 *cluster) {
	ctx := t.Context()
	inside := home.inSpace(t, "chosen")
	hosts.Until(t, soon, "the space has its service account", func(ctx context.Context) error {
		_, err := inside.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	home.must(t, "kubectl", "--kubeconfig", "/run/chosen", "create", "clusterrolebinding", "all",
		"--clusterrole=admin", "--serviceaccount=default:default")
	token := strings.TrimSpace(home.must(t, "kubectl", "--kubeconfig", "/run/chosen", "create", "token", "default"))
	for _, c := range []*cluster{home, tp2} {
		// What a client says of itself beside its token does not count.
		client := withToken(t, c, token, http.Header{
			"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"},
			"X-Remote-Extra-A4s.io%2ftenant": {"system"}, "A4s-Partition": {"tp2"}, "A4s-Tenant-Uid": {"x"},
		})
		if _, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("through %s: %v", c.host.Name, err)
		}
		if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("through %s a tenant reads the nodes: %v", c.host.Name, err)
		}
		// It is a namespace of their own that is called so, and does not exist.
		if l, err := client.CoreV1().ConfigMaps("default.early").List(ctx, metav1.ListOptions{}); err == nil &&
			len(l.Items) > 0 {
			t.Errorf("through %s a tenant reads another", c.host.Name)
		}
	}
	broken := withToken(t, home, token[:len(token)-4]+"AAAA", nil)
	if _, err := broken.CoreV1().ConfigMaps("default").
		List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token with another signature: %v", err)
	}
}

// withToken is a client with a bearer token, and headers that it makes up.
func withToken(t *testing.T, c *cluster, token string, headers http.Header) kubernetes.Interface {
	t.Helper()
	cfg := rest.AnonymousClientConfig(c.config)
	cfg.BearerToken = token
	cfg.Wrap(func(inner http.RoundTripper) http.RoundTripper { return addsHeaders{inner, headers} })
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type addsHeaders struct {
	http.RoundTripper
	headers http.Header
}

func (a addsHeaders) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, values := range a.headers {
		req.Header[name] = values
	}
	return a.RoundTripper.RoundTrip(req)
}

func testPartitionRefusals(t *testing.T, home *cluster) {
	h := newHost(t, "part-refused")
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"overlap": {[]string{"--tenant-partition", "tp3", "--cluster", home.url(), "--token", home.serverToken(t)},
			"overlaps with"},
		"the agent token": {[]string{"--tenant-partition", "tp3", "--cluster", home.url(), "--token", "abc"},
			"does not say which CA"},
		"no cluster": {[]string{"--tenant-partition", "tp3"}, "--cluster"},
	} {
		r, err := h.Run(t.Context(), env.binary, append([]string{"server", "--disable-agent"}, c.args...)...)
		if err != nil || r.ExitCode == 0 || !strings.Contains(r.Stderr+r.Stdout, c.want) {
			t.Errorf("%s: %v %d %s", what, err, r.ExitCode, r.Stderr)
		}
	}
}

// waitState waits until a server shows a state of a partition, each time within three seconds,
// and what it has of the others.
func (c *cluster) waitState(t *testing.T, partition, want string) {
	t.Helper()
	hosts.Until(t, soon, partition+" is "+want, func(context.Context) error {
		began := time.Now()
		var list []joinapi.PartitionState
		if err := json.Unmarshal([]byte(c.must(t, "partition", "list", "-o", "json")), &list); err != nil {
			return err
		}
		if took := time.Since(began); took > 20*time.Second { // with the start of the command, which is slow in CI
			t.Errorf("the list took %s", took)
		}
		for _, p := range list {
			if p.Name == partition && p.State == want && p.Nodes != nil && p.Tenants > 0 && len(p.Servers) == 1 &&
				(want == joinapi.PartitionAway) == (len(p.Silent) == 1) {
				return nil
			}
		}
		return fmt.Errorf("%+v", list)
	})
}

// testHomeDown: what tp2 has goes on, and nobody can take a name.
func testHomeDown(t *testing.T, home, tp2 *cluster) {
	ctx := t.Context()
	home.proc.Kill()
	use := func(when string) {
		t.Helper()
		if _, err := tp2.inSpace(t, "chosen").CoreV1().ConfigMaps("default").
			Create(ctx, configMap("home-down-"+when, "x"), metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: a tenant of tp2: %v", when, err)
		}
		began := time.Now()
		_, err := tp2.tenants(t).Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}},
			metav1.CreateOptions{})
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: a tenant is made without home: %v", when, err)
		}
		t.Logf("%s: refused after %s", when, time.Since(began))
		if _, err := tp2.inSpace(t, "early").CoreV1().ConfigMaps("default").
			List(ctx, metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: a tenant of home: %v", when, err)
		}
	}
	tp2.waitState(t, "main", joinapi.PartitionAway)
	use("down")
	// Where tenants are it knows from its disk.
	tp2.proc.Kill()
	tp2.restart(t)
	use("restarted")
	tp2.waitState(t, "main", joinapi.PartitionAway)
	home.restart(t)
	tp2.waitState(t, "main", joinapi.PartitionReady)
	hung.leave(t, home)
	tp2.waitState(t, "main", joinapi.PartitionAway)
	hung.end(t, home)
	tp2.waitState(t, "main", joinapi.PartitionReady)
	useEverywhere(t, []*cluster{tp2, home}, home, "early")
	tp2.must(t, "tenant", "create", "nobody", "--output", "/run/nobody")
}

// testResumed: placements that a server left behind, in the making and in the deletion of a
// tenant.
func testResumed(t *testing.T, home, tp2 *cluster) {
	ctx := t.Context()
	placements, err := partitionapi.NewPlacementClient(home.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	placed, err := placements.Create(ctx, &partitionapi.TenantPlacement{
		ObjectMeta: metav1.ObjectMeta{Name: "left"},
		Spec: partitionapi.TenantPlacementSpec{Partition: "tp2", Tenant: &tenantapi.Tenant{
			ObjectMeta: metav1.ObjectMeta{Name: "left", Labels: map[string]string{"a": "b"}}}},
		Status: partitionapi.TenantPlacementStatus{Phase: partitionapi.PlacementCreating},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "the tenant is made", func(ctx context.Context) error {
		made, err := tp2.tenants(t).Get(ctx, "left", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if placed, err = placements.Get(ctx, "left", metav1.GetOptions{}); err != nil {
			return err
		}
		if made.Labels["a"] != "b" || placed.Status.Phase != partitionapi.PlacementActive ||
			placed.Status.TenantUID != made.UID || placed.Spec.Tenant != nil {
			return fmt.Errorf("%+v, %+v", made, placed)
		}
		return nil
	})
	placed.Status.Phase = partitionapi.PlacementDeleting
	if _, err := placements.Update(ctx, placed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "the tenant and its placement are gone", func(ctx context.Context) error {
		_, err := placements.Get(ctx, "left", metav1.GetOptions{})
		_, tenantErr := tp2.tenants(t).Get(ctx, "left", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || !apierrors.IsNotFound(tenantErr) {
			return fmt.Errorf("placement: %v, tenant: %v", err, tenantErr)
		}
		return nil
	})
}
