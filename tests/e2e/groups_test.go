package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/groupwatch"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// TestServiceGroups: three servers of one datastore in two service groups (seed:
// data-partition). The names of the subtests are those of the original's tests.
func TestServiceGroups(t *testing.T) {
	t.Parallel()
	zero := ownCluster(t, "group-0", "--cluster-init", "--disable-agent", "--service-group-id", "0",
		"--audit-log-path", auditLog)
	one := joinServer(t, "group-1", zero, "--disable-agent", "--service-group-id", "1", "--audit-log-path", auditLog)
	also := joinServer(t, "group-0b", zero, "--service-group-id", "0", "--audit-log-path", auditLog)
	servers := []*cluster{zero, one, also}
	zero.waitServers(t, servers...)
	zero.setRange(t, "0", "", "m")
	zero.setRange(t, "1", "m", "")
	for _, tenant := range []string{"alpha", "zulu"} {
		zero.must(t, "tenant", "create", tenant, "--output", "/run/"+tenant)
	}
	ctx := t.Context()

	t.Run("two URLs set up", func(t *testing.T) {
		// One subset a group, with sorted addresses: all servers say so.
		for _, c := range servers {
			c.waitSubsets(t, map[string][]*cluster{"0": {zero, also}, "1": {one}})
		}
	})
	t.Run("get, list and post reach any tenant through either server", func(t *testing.T) {
		for i, c := range servers {
			for _, tenant := range []string{"alpha", "zulu"} {
				_, err := c.inSpace(t, tenant).CoreV1().ConfigMaps("default").
					Create(ctx, configMap(fmt.Sprint("by-", i), tenant), metav1.CreateOptions{})
				if err != nil {
					t.Fatalf("server %s: %v", c.host.Name, err)
				}
			}
		}
		for _, c := range servers {
			for _, tenant := range []string{"alpha", "zulu"} {
				found := c.inSpace(t, tenant).CoreV1().ConfigMaps("default")
				if names := namesOf(t, found.List, ""); !slices.Equal(names, []string{"by-0", "by-1", "by-2"}) {
					t.Errorf("server %s lists %q of %s", c.host.Name, names, tenant)
				}
				if m, err := found.Get(ctx, "by-1", metav1.GetOptions{ResourceVersion: "0"}); err != nil ||
					m.Data["value"] != tenant {
					t.Errorf("server %s: %v %v", c.host.Name, m, err)
				}
			}
		}
	})
	if out := one.must(t, "status"); !strings.Contains(out, "Service group:") {
		t.Errorf("the status does not name the group: %s", out)
	}
	t.Run("one aggregated informer has all", func(t *testing.T) {
		for _, c := range servers {
			store := c.informer(t, "")
			c.waitTenants(t, store, "alpha", "zulu")
		}
	})
	t.Run("an informer at each server has only its range", func(t *testing.T) {
		zero.waitTenants(t, zero.informer(t, "0"), "alpha")
		one.waitTenants(t, one.informer(t, "1"), "zulu")
		also.waitTenants(t, also.informer(t, "0"), "alpha")
		_, err := one.part(t, "0").CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		if err == nil || !strings.Contains(err.Error(), `holds the part of service group "1"`) {
			t.Errorf("a server gives the part of another group: %v", err)
		}
	})
	t.Run("pods of both run", func(t *testing.T) {
		also.waitOwnNode(t)
		for _, tenant := range []string{"alpha", "zulu"} {
			c := *zero
			c.client, c.tenant = zero.inSpace(t, tenant), tenant
			c.runPod(t, "default", testboxPod("web"))
		}
	})
	t.Run("Services of both work", func(t *testing.T) {
		for _, tenant := range []string{"alpha", "zulu"} {
			also.serviceIn(t, tenant, "served", also.host.Name)(t)
		}
		// The node is that of a server of group 0, and asks its own server for that group.
		waitProxyStreams(t, also.host.Name, map[*cluster][]string{also: {"0", partitionapi.Rest}, one: {"1"}})
	})
	merged, all := zero.merged(t, one)
	t.Run("one aggregated list has all", func(t *testing.T) {
		zero.sameLists(t, all)
		one.waitListOf(t, "1")
	})
	t.Run("reset by the partition manager", func(t *testing.T) {
		alpha := one.inSpace(t, "alpha")
		part := one.informer(t, "1")
		list, err := alpha.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		events := map[string]watch.Interface{}
		for _, c := range []*cluster{zero, one} {
			w, err := c.inSpace(t, "alpha").CoreV1().ConfigMaps("default").
				Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			events[c.host.Name] = w
		}
		// Bounded on both sides, then open again, the other way round.
		for i, bounds := range [][3]string{{"a", "z", "zulu"}, {"", "m", "alpha"}, {"", "a", ""}, {"", "m", "alpha"}} {
			if bounds[2] == "" {
				zero.setRange(t, "1", bounds[1], "")
			}
			zero.setRange(t, "0", bounds[0], bounds[1])
			if bounds[2] != "" {
				zero.setRange(t, "1", bounds[1], "")
			}
			name := fmt.Sprint("moved-", i)
			if _, err := alpha.CoreV1().ConfigMaps("default").
				Create(ctx, configMap(name, "x"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for host, w := range events {
				expectAdded(t, host, w, name)
			}
		}
		zero.setRange(t, "1", "a", "")
		one.waitTenants(t, part, "alpha", "zulu")
		zero.setRange(t, "1", "m", "")
		one.waitTenants(t, part, "zulu")
		for host, w := range events {
			select {
			case e, ok := <-w.ResultChan():
				t.Errorf("the watch through %s has %v %v besides", host, e.Type, ok)
			default:
			}
		}
	})
	killOwners(t, zero, one)
	t.Run("a group without servers", func(t *testing.T) {
		one.proc.Kill()
		found := zero.inSpace(t, "zulu").CoreV1().ConfigMaps("default")
		if names := namesOf(t, found.List, ""); len(names) != 3 {
			t.Errorf("server %s lists %q", zero.host.Name, names)
		}
		if _, err := found.Create(ctx, configMap("alone", "x"), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		zero.sameLists(t, all)
		hosts.Until(t, soon, "groups list shows who runs", func(context.Context) error {
			out := zero.must(t, "groups", "list")
			if !strings.Contains(out, "0/1") || !strings.Contains(out, "[m, )") || !strings.Contains(out, "2/2") {
				return errors.New(out)
			}
			return nil
		})
		also.waitSubsets(t, map[string][]*cluster{"0": {zero, also}})
		one.restart(t)
	})
	t.Run("a dead server is gone from its subset", func(t *testing.T) {
		all := map[string][]*cluster{"0": {zero, also}, "1": {one}}
		zero.waitSubsets(t, all)
		also.proc.Kill()
		zero.waitSubsets(t, map[string][]*cluster{"0": {zero}, "1": {one}})
		also.restart(t)
		zero.waitSubsets(t, all)
		// A server that ends as it should says so.
		if err := one.proc.Stop(stopTimeout); err != nil {
			t.Fatal(err)
		}
		zero.waitSubsets(t, map[string][]*cluster{"0": {zero, also}})
		one.restart(t)
	})
	t.Run("an informer of all streams has lost nothing", func(t *testing.T) {
		hosts.Until(t, soon, "the informer has what the datastore has", func(ctx context.Context) error {
			list, err := zero.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			if has := len(merged.List()); has != len(list.Items) {
				return fmt.Errorf("it has %d objects, want %d", has, len(list.Items))
			}
			for _, want := range list.Items {
				got, ok, err := merged.GetByKey(want.Namespace + "/" + want.Name)
				if err != nil || !ok || got.(*corev1.ConfigMap).ResourceVersion != want.ResourceVersion {
					return fmt.Errorf("%s/%s@%s: %v %v", want.Namespace, want.Name, want.ResourceVersion, ok, err)
				}
			}
			return nil
		})
	})
	t.Run("groups apply and drain", func(t *testing.T) {
		var many []string
		for i := range 60 {
			many = append(many, fmt.Sprint("many-", i))
		}
		for _, tenant := range []string{"bravo", "charlie"} {
			zero.must(t, "tenant", "create", tenant, "--output", "/run/"+tenant)
			for _, name := range many {
				if _, err := one.inSpace(t, tenant).CoreV1().ConfigMaps("default").
					Create(ctx, configMap(name, "x"), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		hosts.Until(t, soon, "the load is known", func(context.Context) error {
			out := zero.must(t, "groups", "suggest")
			if !strings.Contains(out, "would move from service group 0 to 1: charlie") {
				return errors.New(out)
			}
			return nil
		})
		zero.must(t, "groups", "apply")
		one.waitTenants(t, one.informer(t, "1"), "charlie", "zulu")
		zero.must(t, "groups", "drain", "1")
		one.waitTenants(t, one.informer(t, "1"))
		zero.waitTenants(t, zero.informer(t, "0"), "alpha", "bravo", "charlie", "zulu")
		r := zero.a4s(t, "groups", "drain", "1")
		if r.ExitCode != 1 || !strings.Contains(r.Stderr, "owns no tenants") {
			t.Errorf("draining again: %d %s", r.ExitCode, r.Stderr)
		}
	})
}

// waitSubsets waits until the endpoints of the API have one subset for each group, and
// there is a slice for each, with the addresses of these servers.
func (c *cluster) waitSubsets(t *testing.T, groups map[string][]*cluster) {
	t.Helper()
	want := map[string]string{}
	for id, servers := range groups {
		var ips []netip.Addr
		for _, s := range servers {
			ip, ok := netip.AddrFromSlice(s.host.IP)
			if !ok {
				t.Fatal(s.host.IP)
			}
			ips = append(ips, ip.Unmap())
		}
		slices.SortFunc(ips, netip.Addr.Compare)
		want[id] = fmt.Sprint(ips)
	}
	hosts.Until(t, soon, "the endpoints of the API at "+c.host.Name, func(ctx context.Context) error {
		body, err := c.client.CoreV1().RESTClient().Get().SetHeader("Accept", "application/json").
			AbsPath("/api/v1/namespaces/default/endpoints/kubernetes").DoRaw(ctx)
		if err != nil {
			return err
		}
		var e struct {
			Subsets []struct {
				Addresses      []struct{ IP netip.Addr }
				ServiceGroupID string `json:"serviceGroupId"`
			}
		}
		if err := json.Unmarshal(body, &e); err != nil {
			return err
		}
		got := map[string]string{}
		for _, s := range e.Subsets {
			var ips []netip.Addr
			for _, a := range s.Addresses {
				ips = append(ips, a.IP)
			}
			got[s.ServiceGroupID] += fmt.Sprint(ips)
		}
		list, err := c.client.DiscoveryV1().EndpointSlices("default").List(ctx,
			metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes," + partitionapi.GroupLabel})
		if err != nil {
			return err
		}
		inSlices := map[string]string{}
		for _, s := range list.Items {
			var ips []string
			for _, e := range s.Endpoints {
				ips = append(ips, e.Addresses...)
			}
			inSlices[s.Labels[partitionapi.GroupLabel]] += fmt.Sprint(ips)
		}
		if !maps.Equal(got, want) || !maps.Equal(inSlices, want) {
			return fmt.Errorf("they are %v, slices %v, want %v", got, inSlices, want)
		}
		return nil
	})
}

// setRange gives a group a range, "" for an open end.
func (c *cluster) setRange(t *testing.T, group, start, end string) {
	t.Helper()
	client, err := partitionapi.NewClient(c.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &partitionapi.DataPartitionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "partition-" + group}, ServiceGroupID: group,
		RangeStart: start, IsRangeStartValid: start != "", RangeEnd: end, IsRangeEndValid: end != "",
	}
	if _, err = client.Get(t.Context(), want.Name, metav1.GetOptions{}); err == nil {
		_, err = client.Update(t.Context(), want, metav1.UpdateOptions{})
	} else {
		_, err = client.Create(t.Context(), want, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inSpace is a client of the administrator in the space of a tenant.
func (c *cluster) inSpace(t *testing.T, tenant string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(tenantapi.InSpace(c.config, tenant))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// part is a client that asks for the part of a group, "" for everything.
func (c *cluster) part(t *testing.T, group string) kubernetes.Interface {
	t.Helper()
	cfg := rest.CopyConfig(c.config)
	cfg.Wrap(func(inner http.RoundTripper) http.RoundTripper { return asksFor{inner, group} })
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// asksFor adds the header of a part.
type asksFor struct {
	http.RoundTripper
	group string
}

func (a asksFor) RoundTrip(req *http.Request) (*http.Response, error) {
	if a.group != "" {
		req = req.Clone(req.Context())
		req.Header.Set(partitionapi.PartHeader, a.group)
	}
	return a.RoundTripper.RoundTrip(req)
}

// serverOf is the server of a group, which its clients may not reach.
type serverOf map[string]*cluster

// Group implements groupwatch.Servers.
func (s serverOf) Group(id string) []string {
	if c := s[id]; c != nil {
		return []string{net.JoinHostPort(c.host.IP.String(), "6443")}
	}
	return nil
}

// merged is an informer of config maps that merges the streams of c, of group 0, and of
// another server, of group 1.
func (c *cluster) merged(t *testing.T, other *cluster) (cache.Store, kubernetes.Interface) {
	t.Helper()
	client := c.mergedClient(t, other)
	return informed(t, client), client
}

// mergedClient is a client of which a watch of everything is one of the streams of both.
func (c *cluster) mergedClient(t *testing.T, other *cluster) kubernetes.Interface {
	t.Helper()
	configs, err := partitionapi.NewClient(c.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	groups := groupwatch.New(serverOf{"1": other}, logrus.NewEntry(logrus.StandardLogger()))
	var follows sync.WaitGroup
	follows.Go(func() { _ = groups.Component(configs).Run(t.Context(), func() {}) })
	t.Cleanup(follows.Wait)
	cfg := rest.CopyConfig(c.config)
	cfg.Wrap(groups.Wrap)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// informer is one of config maps: of a part, or "" for all.
func (c *cluster) informer(t *testing.T, group string) cache.Store {
	t.Helper()
	return informed(t, c.part(t, group))
}

func informed(t *testing.T, client kubernetes.Interface) cache.Store {
	t.Helper()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	factory.StartWithContext(ctx)
	synced, stop := context.WithTimeout(ctx, soon)
	defer stop()
	if !cache.WaitForCacheSync(synced.Done(), informer.HasSynced) {
		t.Fatal("the informer does not read anything")
	}
	return informer.GetStore()
}

// waitTenants waits until an informer has config maps of these tenants, and of the
// system.
func (c *cluster) waitTenants(t *testing.T, store cache.Store, want ...string) {
	t.Helper()
	hosts.Until(t, soon, "an informer at "+c.host.Name+" has its range", func(context.Context) error {
		found := map[string]bool{}
		for _, obj := range store.List() {
			tenant, _ := space.SplitNamespace(obj.(*corev1.ConfigMap).Namespace)
			found[tenant] = true
		}
		system := found[space.System]
		delete(found, space.System)
		got := slices.Sorted(maps.Keys(found))
		if !slices.Equal(got, want) || !system {
			return fmt.Errorf("it has %q and the system: %t, want %q", got, system, want)
		}
		return nil
	})
}

// namesOf are the names of what a list of config maps has, but for those of the cluster.
func namesOf(
	t *testing.T, list func(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error), rev string,
) []string {
	t.Helper()
	l, err := list(t.Context(), metav1.ListOptions{ResourceVersion: rev})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range l.Items {
		if m.Name != "kube-root-ca.crt" {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// expectAdded expects one object to be added to a watch, and nothing else.
func expectAdded(t *testing.T, host string, w watch.Interface, name string) {
	t.Helper()
	timeout, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if ok && e.Type == watch.Bookmark {
				continue
			}
			if m, is := e.Object.(*corev1.ConfigMap); !ok || e.Type != watch.Added || !is || m.Name != name {
				t.Fatalf("the watch through %s: %v %+v %v, want %s", host, e.Type, e.Object, ok, name)
			}
			return
		case <-timeout.Done():
			t.Fatalf("the watch through %s does not show %s", host, name)
		}
	}
}
