package tenantadmin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// fakePartitions is a cluster of the partitions main, with tenants, tp2, which has some, too,
// and rp2 with a node that has pods of both.
type fakePartitions struct {
	t       *testing.T
	answers bool // tp2 does
	deleted []string
}

func (f *fakePartitions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }
	partition := func(name string, role partitionapi.Role) partitionapi.Partition {
		return partitionapi.Partition{TypeMeta: kind("Partition"), ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: partitionapi.PartitionSpec{Roles: []partitionapi.Role{role}}}
	}
	placement := func(tenant, partition string) partitionapi.TenantPlacement {
		return partitionapi.TenantPlacement{ObjectMeta: metav1.ObjectMeta{Name: tenant, UID: "u"},
			Spec: partitionapi.TenantPlacementSpec{Partition: partition}}
	}
	pod := func(namespace, name string, annotations map[string]string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations}}
	}
	all := []partitionapi.Partition{partition("main", partitionapi.RoleTenant),
		partition("tp2", partitionapi.RoleTenant), partition("rp2", partitionapi.RoleResource)}
	reply := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			f.t.Error(err)
		}
	}
	path, of := r.URL.Path, ""
	for _, p := range all {
		if rest, ok := strings.CutPrefix(path, partitionapi.PathPrefix+p.Name); ok {
			path, of = rest, p.Name
		}
	}
	switch {
	case path == "/api/v1/partitions":
		reply(partitionapi.PartitionList{TypeMeta: kind("PartitionList"), Items: all})
	case strings.HasPrefix(path, "/api/v1/partitions/"):
		i := slices.IndexFunc(all, func(p partitionapi.Partition) bool { return strings.HasSuffix(path, "/"+p.Name) })
		reply(all[i])
	case path == "/api/v1/tenantplacements":
		reply(partitionapi.TenantPlacementList{TypeMeta: kind("TenantPlacementList"),
			Items: []partitionapi.TenantPlacement{
				placement("t1", "main"), placement("t2", "tp2"), placement("t3", "tp2")}})
	case strings.HasPrefix(path, "/api/v1/tenantplacements/") && r.Method == http.MethodDelete:
		f.deleted = append(f.deleted, strings.TrimPrefix(path, "/api/v1/tenantplacements/"))
		reply(metav1.Status{TypeMeta: kind("Status"), Status: metav1.StatusSuccess})
	case path == "/readyz" && (of != "tp2" || f.answers):
		reply("ok")
	case path == "/api/v1/nodes":
		list := corev1.NodeList{TypeMeta: kind("NodeList")}
		if r.URL.Query().Get("labelSelector") == partitionapi.ResourcePartitionLabel+"=rp2" {
			list.Items = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
		}
		reply(list)
	case path == "/api/v1/pods" && of == "main":
		reply(corev1.PodList{TypeMeta: kind("PodList"), Items: []corev1.Pod{pod("default.t1", "a", nil),
			pod("default.t1", "b", nil), pod("kube-system", "c", nil),
			pod("kube-system", "static", map[string]string{corev1.MirrorPodAnnotationKey: "x"})}})
	case path == "/api/v1/pods":
		reply(corev1.PodList{TypeMeta: kind("PodList"), Items: []corev1.Pod{pod("default.t2", "a", nil)}})
	default:
		http.Error(w, "no", http.StatusServiceUnavailable)
	}
}

// Who removes a partition is told what runs on its nodes, and gives up tenants only of one
// that is silent.
func TestRemovalOfPartitions(t *testing.T) {
	f := &fakePartitions{t: t, answers: true}
	server := httptest.NewServer(f)
	defer server.Close()
	admin, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]int{"rp2": {4, 2}, "tp2": {0, 0}} {
		pods, tenants, err := NewRemoval(admin, name).PodsOn(t.Context())
		if err != nil || [2]int{pods, tenants} != want {
			t.Errorf("on the nodes of %s: %d pods of %d tenants, %v", name, pods, tenants, err)
		}
	}
	var said []string
	say := func(tenant string) { said = append(said, tenant) }
	if err := NewRemoval(admin, "tp2").GiveUp(t.Context(), say); !errors.Is(err, ErrAnswers) || len(f.deleted) > 0 {
		t.Errorf("one that answers: %v, deleted %v", err, f.deleted)
	}
	f.answers = false
	err = NewRemoval(admin, "tp2").GiveUp(t.Context(), say)
	if err != nil || !slices.Equal(f.deleted, []string{"t2", "t3"}) || !slices.Equal(said, f.deleted) {
		t.Errorf("a silent one: %v, deleted %v, said %v", err, f.deleted, said)
	}
}
