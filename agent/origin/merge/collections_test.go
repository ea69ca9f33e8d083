package merge

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/objectfile"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

// TestKubeletSeesTheUnion lets partitions change, go away, end their watches and
// forget their past, and compares what a kubelet knows in the end.
func TestKubeletSeesTheUnion(t *testing.T) {
	servers := []*partitiontest.Server{partitiontest.New(t, "main"), partitiontest.New(t, "tp2"),
		partitiontest.New(t, "tp3")}
	c := open(t, t.TempDir(), true, servers...)
	k := c.kubelet(t)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		n := r.IntN(len(servers))
		s := servers[n]
		// A tenant is in one partition.
		namespace := []string{"kube-system", fmt.Sprintf("default.t%d", n)}[r.IntN(2)]
		p := pod(namespace, []string{"x", "y", "z"}[r.IntN(3)], types.UID(fmt.Sprint(i)))
		switch op := r.IntN(20); {
		case op < 12:
			s.Put(t, "pods", p)
		case op < 17:
			s.Delete(t, "pods", p)
		case op == 17:
			s.HangUp()
		case op == 18:
			s.Compact()
		default:
			s.Away.Store(!s.Away.Load())
		}
	}
	want := map[types.NamespacedName]types.UID{}
	for i, s := range servers {
		s.Away.Store(false)
		qualifier := ""
		if i > 0 {
			qualifier = []string{"", "tp2", "tp3"}[i]
		}
		for _, obj := range s.Objects("pods") {
			key, _ := keyOf(obj)
			key.Namespace = space.QualifyNamespace(qualifier, key.Namespace)
			want[key] = uidOf(obj)
		}
	}
	if len(want) < 6 {
		t.Fatalf("only %v is left", want)
	}
	eventually(t, func() bool { return maps.Equal(k.has(), want) }, func() any { return []any{k.has(), "want", want} })
}

// TestEqualNames is about one name in two partitions.
func TestEqualNames(t *testing.T) {
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	class := func(handler string) *nodev1.RuntimeClass {
		return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Handler: handler}
	}
	tp2.Put(t, "runtimeclasses", class("of-tp2"))
	tp2.Put(t, "pods", pod("kube-system", "agent", "2"))
	home.Put(t, "pods", pod("kube-system", "agent", "1"))
	c := open(t, "", true, home, tp2)
	k := c.kubelet(t)
	one := types.NamespacedName{Namespace: "kube-system", Name: "agent"}
	two := types.NamespacedName{Namespace: "kube-system.tp2.system", Name: "agent"}
	eventually(t, func() bool { return maps.Equal(k.has(), map[types.NamespacedName]types.UID{one: "1", two: "2"}) },
		func() any { return k.has() })
	home.Delete(t, "pods", pod("kube-system", "agent", "1"))
	eventually(t, func() bool { return maps.Equal(k.has(), map[types.NamespacedName]types.UID{two: "2"}) },
		func() any { return k.has() })

	for _, s := range []*partitiontest.Server{home, tp2} {
		s.Put(t, "namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
	}
	var spaces []string
	eventually(t, func() bool {
		list, err := c.client(t).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		spaces = nil
		for _, ns := range list.Items {
			spaces = append(spaces, ns.Name)
		}
		slices.Sort(spaces)
		return err == nil && slices.Equal(spaces, []string{"kube-system", "kube-system.tp2.system"})
	}, func() any { return spaces })

	handler := func() string {
		list, err := c.client(t).NodeV1().RuntimeClasses().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatal(list, err)
		}
		return list.Items[0].Handler
	}
	if got := handler(); got != "of-tp2" {
		t.Errorf("the class is %s", got)
	}
	home.Put(t, "runtimeclasses", class("of-home"))
	eventually(t, func() bool { return handler() == "of-home" }, func() any { return handler() })
	home.Delete(t, "runtimeclasses", class("of-home"))
	eventually(t, func() bool { return handler() == "of-tp2" }, func() any { return handler() })
}

// The kubelet of a node watches its requests for certificates in all partitions.
func TestCertificateRequestsOfAllPartitions(t *testing.T) {
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	request := func(namespace, name, node string) *certificatesv1.PodCertificateRequest {
		return &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: certificatesv1.PodCertificateRequestSpec{NodeName: types.NodeName(node)}}
	}
	home.Put(t, "podcertificaterequests", request("kube-system", "a", node1))
	tp2.Put(t, "podcertificaterequests", request("default.t1", "b", node1))
	c := open(t, "", true, home, tp2)
	var got []string
	eventually(t, func() bool {
		list, err := c.client(t).CertificatesV1().PodCertificateRequests("").List(t.Context(),
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + node1})
		got = nil
		if err != nil {
			return false
		}
		for _, r := range list.Items {
			got = append(got, r.Namespace+"/"+r.Name)
		}
		slices.Sort(got)
		return slices.Equal(got, []string{"default.t1/b", "kube-system/a"})
	}, func() any { return got })
}

func TestWhatWatchesGet(t *testing.T) {
	home := partitiontest.New(t, "main")
	service := func(name, ip string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.ServiceSpec{ClusterIP: ip}}
	}
	home.Put(t, "services", service("a", "10.0.0.1"))
	c := open(t, "", true, home)
	services := c.client(t).CoreV1().Services("")
	withIP := "spec.clusterIP!=None"
	list, err := services.List(t.Context(), metav1.ListOptions{FieldSelector: withIP})
	if err != nil || len(list.Items) != 1 || !IsLocal(list.ResourceVersion) {
		t.Fatal(list, err)
	}
	w, err := services.Watch(t.Context(),
		metav1.ListOptions{FieldSelector: withIP, ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	home.Put(t, "services", service("b", "None"))
	home.Put(t, "services", service("a", "None")) // it leaves what was asked for
	home.Put(t, "services", service("b", "10.0.0.2"))
	home.Delete(t, "services", service("b", "10.0.0.3")) // as it was in the end
	last := list.ResourceVersion
	for _, want := range []string{"DELETED a 10.0.0.1", "ADDED b 10.0.0.2", "DELETED b 10.0.0.3"} {
		e := <-w.ResultChan()
		s, ok := e.Object.(*corev1.Service)
		if !ok {
			t.Fatalf("%v", e)
		}
		if got := fmt.Sprint(e.Type, " ", s.Name, " ", s.Spec.ClusterIP); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if s.ResourceVersion <= last {
			t.Errorf("version %s follows %s", s.ResourceVersion, last)
		}
		last = s.ResourceVersion
	}
	w.Stop()

	second := int64(1)
	w, err = services.Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: &second, AllowWatchBookmarks: true,
		LabelSelector: "none", ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	e := <-w.ResultChan()
	if s, ok := e.Object.(*corev1.Service); !ok || e.Type != watch.Bookmark || s.ResourceVersion != last {
		t.Errorf("a watch without events ends with %v, want a bookmark at %s", e, last)
	}
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("after its end it says %v", e)
	}

	yes := true
	for what, o := range map[string]metav1.ListOptions{
		"of a server":        {ResourceVersion: "12345"},
		"of another process": {ResourceVersion: formatVersion(localVersions)},
	} {
		if _, err := services.Watch(t.Context(), o); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch from a version %s: %v", what, err)
		}
	}
	_, err = services.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a streaming list: %v", err)
	}
	if _, err := services.List(t.Context(), metav1.ListOptions{FieldSelector: "x=y"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a list by an unknown field: %v", err)
	}
	if _, err := c.client(t).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a list of all pods: %v", err)
	}
	w, err = services.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Errorf("a watch from nowhere begins with %v", e)
	}
}

func (c *Collections) onDisk(partition string) string {
	return filepath.Join(c.files.dir, partition, "pods.json")
}

// awaitDisk waits until the checkpoint of a partition's pods has so many.
func (c *Collections) awaitDisk(t *testing.T, partition string, want int) {
	t.Helper()
	got := -1
	eventually(t, func() bool {
		data, err := os.ReadFile(c.onDisk(partition))
		var f struct{ Items []json.RawMessage }
		if err == nil && json.Unmarshal(data, &f) == nil {
			got = len(f.Items)
		}
		return got == want
	}, func() any { return got })
}

func TestRestartWithAPartitionDown(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(path string) error
		lists  bool
	}{
		{"readable", func(string) error { return nil }, true},
		{"damaged", func(path string) error { return os.WriteFile(path, []byte(`{"items":[{}]}`), 0o600) }, false},
		{"missing", os.Remove, false},
		{"written off", func(path string) error { return os.WriteFile(path, []byte(objectfile.Empty), 0o600) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
			home.Put(t, "pods", pod("kube-system", "x", "1"))
			tp2.Put(t, "pods", pod("kube-system", "x", "2"))
			tp2.Put(t, "pods", pod("default.t1", "x", "3"))
			before := open(t, dir, true, home, tp2)
			before.await(t, "default.t1/x", "kube-system.tp2.system/x", "kube-system/x")
			before.awaitDisk(t, "tp2", 2)
			before.Close()
			if err := c.damage(before.onDisk("tp2")); err != nil {
				t.Fatal(err)
			}
			tp2.Away.Store(true)
			after := open(t, dir, false, home, tp2)
			switch got, err := after.pods(t); {
			case !c.lists && !apierrors.IsServiceUnavailable(err):
				t.Errorf("without the pods of a partition there is a list %v: %v", got, err)
			case c.name == "written off" && (err != nil || len(got) != 1):
				t.Errorf("a checkpoint that says there is nothing: %v, %v", got, err)
			case c.name == "readable":
				after.await(t, "default.t1/x", "kube-system.tp2.system/x", "kube-system/x")
				if partition, _ := after.Placement().Of("t1"); partition != "tp2" {
					t.Errorf("the tenant is in %q", partition)
				}
			}
			tp2.Delete(t, "pods", pod("kube-system", "x", "2"))
			tp2.Away.Store(false)
			after.await(t, "default.t1/x", "kube-system/x")
			after.awaitDisk(t, "tp2", 1)
		})
	}
}

// TestRestartWithAPartitionThatHangs has a partition that takes connections and says
// nothing.
func TestRestartWithAPartitionThatHangs(t *testing.T) {
	dir := t.TempDir()
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	tp2.Put(t, "pods", pod("kube-system", "x", "2"))
	before := open(t, dir, true, home, tp2)
	before.await(t, "kube-system.tp2.system/x")
	before.awaitDisk(t, "tp2", 1)
	before.Close()
	tp2.Hangs.Store(true)
	after := openNone(t, dir, false)
	after.o.Patience, after.listTimeout = 1, time.Hour
	if err := after.Begin([]origin.Partition{home.Partition(true), tp2.Partition(false)}); err != nil {
		t.Fatal(err)
	}
	after.await(t, "kube-system.tp2.system/x")
	home.Put(t, "pods", pod("kube-system", "y", "3"))
	after.await(t, "kube-system.tp2.system/x", "kube-system/y")
}

// TestServicesOfAPartitionThatIsDown stay, for the kubelet and the proxier.
func TestServicesOfAPartitionThatIsDown(t *testing.T) {
	dir := t.TempDir()
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	tp2.Put(t, "services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns"}})
	list := func(c *Collections) int {
		services, err := c.client(t).CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(services.Items)
	}
	c := open(t, dir, true, home, tp2)
	eventually(t, func() bool { return list(c) == 1 }, func() any { return "no service" })
	c.Close()
	tp2.Away.Store(true)
	c = open(t, dir, false, home, tp2)
	if n := list(c); n != 1 {
		t.Errorf("of the partition that is down there are %d services", n)
	}
	c.Close()
	if err := os.Remove(filepath.Join(dir, "tp2", "services.json")); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir, false, home, tp2)
	if n := list(c); n != 0 {
		t.Errorf("of services that nobody knows there are %d", n)
	}
}

// TestFirstStart has pods of an earlier a4s without a checkpoint.
func TestFirstStart(t *testing.T) {
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	tp2.Away.Store(true)
	c := open(t, t.TempDir(), false, home, tp2)
	for range 2 { // also from the next process
		if got, err := c.pods(t); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the pods of a partition are not known, but listed is %v: %v", got, err)
		}
		c.Close()
		c = open(t, c.files.dir, false, home, tp2)
	}
	tp2.Away.Store(false)
	c.await(t)
	fresh := partitiontest.New(t, "tp3")
	fresh.Away.Store(true)
	c.await(t)
	if got, err := open(t, t.TempDir(), true, fresh).pods(t); err != nil || len(got) != 0 {
		t.Errorf("a node that never had a pod lists %v: %v", got, err)
	}
}

func TestPartitionsComeAndGo(t *testing.T) {
	dir := t.TempDir()
	home, tp2, tp3 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2"), partitiontest.New(t, "tp3")
	home.Put(t, "pods", pod("kube-system", "x", "1"))
	tp2.Put(t, "pods", pod("kube-system", "x", "2"))
	c := openNone(t, dir, false)
	if err := c.Alone(home.Partition(true)); err != nil {
		t.Fatal(err)
	}
	if err := c.Begin([]origin.Partition{home.Partition(true)}); err != nil {
		t.Fatal(err)
	}
	k := c.kubelet(t)
	c.await(t, "kube-system/x")
	tp2.Away.Store(true)
	if err := c.Join(tp2.Partition(false), true); err != nil {
		t.Fatal(err)
	}
	c.await(t, "kube-system/x") // it starts empty
	tp2.Away.Store(false)
	c.await(t, "kube-system.tp2.system/x", "kube-system/x")
	eventually(t, func() bool { return len(k.has()) == 2 }, func() any { return k.has() })
	c.awaitDisk(t, "tp2", 1)
	if err := c.Leave("tp2"); err != nil {
		t.Fatal(err)
	}
	c.await(t, "kube-system/x")
	eventually(t, func() bool { return len(k.has()) == 1 }, func() any { return k.has() })
	if _, err := os.Stat(filepath.Join(dir, "tp2")); !os.IsNotExist(err) {
		t.Errorf("the checkpoint of a partition that left: %v", err)
	}
	if err := c.Leave("tp2"); err != nil {
		t.Errorf("it leaves again: %v", err)
	}
	c.Close()

	// While there is no process, one joins that does not answer, and one leaves.
	tp3.Away.Store(true)
	c = open(t, dir, false, home, tp3)
	c.await(t, "kube-system/x")
	c.Close()
	c = open(t, dir, false, home)
	c.await(t, "kube-system/x")
	if _, err := os.Stat(filepath.Join(dir, "tp3")); !os.IsNotExist(err) {
		t.Errorf("the checkpoint of a partition that left: %v", err)
	}
}

// TestAloneForgetsWhatIsOld is about a node that had several partitions, has one for
// a while and then several again.
func TestAloneForgetsWhatIsOld(t *testing.T) {
	dir := t.TempDir()
	home := partitiontest.New(t, "main")
	home.Put(t, "pods", pod("kube-system", "old", "1"))
	c := open(t, dir, true, home)
	c.await(t, "kube-system/old")
	c.awaitDisk(t, "main", 1)
	c.Close()
	c = openNone(t, dir, false)
	if err := c.Alone(home.Partition(true)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	home.Away.Store(true)
	c = open(t, dir, false, home)
	if got, err := c.pods(t); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Errorf("an old checkpoint counts: %v, %v", got, err)
	}
}

func TestDirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: file}); err == nil {
		t.Error("a file is taken for the directory of the checkpoint")
	}
}

// TestNodePorts: a port is open for the first partition whose range has it, also when one comes
// or goes.
func TestNodePorts(t *testing.T) {
	home, tp2, tp3 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2"), partitiontest.New(t, "tp3")
	with := func(s *partitiontest.Server, base, size int) origin.Partition {
		p := s.Partition(s == home)
		p.NodePorts = utilnet.PortRange{Base: base, Size: size}
		return p
	}
	for s, second := range map[*partitiontest.Server]int32{home: 31000, tp2: 30100, tp3: 31000} {
		s.Put(t, "services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s"},
			Spec: corev1.ServiceSpec{HealthCheckNodePort: 30001,
				Ports: []corev1.ServicePort{{Name: "a", Port: 1, NodePort: 30000},
					{Name: "b", Port: 2, NodePort: second}}}})
	}
	c := openNone(t, "", true)
	own := with(tp2, 30000, 500)
	own.Node = true
	if err := c.Begin([]origin.Partition{with(home, 30000, 2768), own}); err != nil {
		t.Fatal(err)
	}
	list := func() map[string]string {
		got := map[string]string{}
		list, err := c.client(t).CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return nil
		}
		for _, s := range list.Items {
			got[s.Namespace] = fmt.Sprint(s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort,
				s.Spec.HealthCheckNodePort)
		}
		return got
	}
	is := func(want map[string]string) {
		t.Helper()
		eventually(t, func() bool { return maps.Equal(list(), want) }, func() any { return []any{list(), want} })
	}
	two := map[string]string{"kube-system": "0 31000 0", "kube-system.tp2.system": "30000 30100 30001"}
	is(two)
	// One whose range is not known precedes nobody and leaves nothing to those after it.
	if err := c.Join(tp3.Partition(false), true); err != nil {
		t.Fatal(err)
	}
	three := maps.Clone(two)
	three["kube-system.tp3.system"] = "0 0 0"
	is(three)
	// What comes before others takes ports from them, and gives them back.
	aa := partitiontest.New(t, "aa").Partition(false)
	if err := c.Join(aa, true); err != nil {
		t.Fatal(err)
	}
	is(three)
	if err := errors.Join(c.Leave("aa"), c.Leave("main")); err != nil {
		t.Fatal(err)
	}
	is(map[string]string{"kube-system.tp2.system": "30000 30100 30001", "kube-system.tp3.system": "0 31000 0"})
	if err := c.Join(with(home, 31000, 1), true); err != nil {
		t.Fatal(err)
	}
	is(map[string]string{"kube-system": "0 31000 0", "kube-system.tp2.system": "30000 30100 30001",
		"kube-system.tp3.system": "0 0 0"})
}
