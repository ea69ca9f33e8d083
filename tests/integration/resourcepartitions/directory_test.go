package resourcepartitions_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/partition/directory"
	"github.com/a4s-io/a4s/server/partition/membership"
	"github.com/a4s-io/a4s/server/partition/placement"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// homeOf is what the home partition keeps of the cluster.
type homeOf struct {
	*plane
	partitions *partitionapi.PartitionClient
	placements *partitionapi.PlacementClient
	register   *membership.Register
}

func startHome(t *testing.T, port int) *homeOf {
	t.Helper()
	h := &homeOf{plane: startPlane(t, "main", port)}
	var err error
	if h.partitions, err = partitionapi.NewPartitionClient(h.as(t, "system:admin", h.direct), nil); err != nil {
		t.Fatal(err)
	}
	if h.placements, err = partitionapi.NewPlacementClient(h.as(t, "system:admin", h.direct), nil); err != nil {
		t.Fatal(err)
	}
	own := asks("main", "home-1", 0)
	h.register = membership.NewRegister(h.partitions, own)
	return h
}

// asks is what a server says of its partition.
func asks(name, identity string, n int) joinapi.PartitionRequest {
	return joinapi.PartitionRequest{Name: name, Identity: identity, Roles: []string{"tenant", "resource"},
		ServiceCIDR: fmt.Sprintf("10.%d.0.0/16", 43+n), ClusterCIDR: fmt.Sprintf("10.%d.0.0/16", 142+n),
		Server: "s-" + name, Address: "192.0.2.1:6443"}
}

func (h *homeOf) add(t *testing.T, req joinapi.PartitionRequest) {
	t.Helper()
	if err := h.register.Add(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// removed are the names and identities that home has recorded.
func (h *homeOf) removed(t *testing.T) string {
	t.Helper()
	home, err := h.partitions.Get(t.Context(), "main", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range home.Spec.Removed {
		if r.At.IsZero() {
			t.Errorf("nobody knows when %s was removed", r.Name)
		}
		out = append(out, r.Name+"/"+r.Identity)
	}
	return strings.Join(out, " ")
}

// TestRemovalIsRecorded: what an operator removes is known for ever, and nothing else is.
func TestRemovalIsRecorded(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if err := planes.Prepare(); err != nil {
		t.Fatal(err)
	}
	h, ctx := startHome(t, 6443), t.Context()
	h.add(t, asks("tp2", "first", 1))
	h.add(t, asks("tp3", "third", 2))

	// What is refused, or not meant, leaves no record.
	other := types.UID("another")
	for what, o := range map[string]metav1.DeleteOptions{
		"try it only": {DryRun: []string{metav1.DryRunAll}},
		"another one": {Preconditions: &metav1.Preconditions{UID: &other}},
	} {
		if err := h.partitions.Delete(ctx, "tp2", o); err != nil != (what == "another one") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := h.placements.Create(ctx, &partitionapi.TenantPlacement{ObjectMeta: metav1.ObjectMeta{Name: "t"},
		Spec:   partitionapi.TenantPlacementSpec{Partition: "tp3"},
		Status: partitionapi.TenantPlacementStatus{Phase: partitionapi.PlacementActive}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := h.partitions.Delete(ctx, "tp3", metav1.DeleteOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("one with tenants: %v", err)
	}
	if err := h.partitions.Delete(ctx, "tp9", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("one that is not there: %v", err)
	}
	if got := h.removed(t); got != "" {
		t.Errorf("recorded: %s", got)
	}

	if err := h.partitions.Delete(ctx, "tp2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := h.removed(t); got != "tp2/first" {
		t.Errorf("recorded: %s", got)
	}
	if err := h.register.Add(ctx, asks("tp2", "first", 1)); !errors.Is(err, membership.ErrRemoved) {
		t.Errorf("it comes back: %v", err)
	}
	p := &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: "tp4"}, Spec: partitionapi.PartitionSpec{
		Identity: "first", Roles: partitionapi.Roles(), ServiceCIDR: "10.46.0.0/16", ClusterCIDR: "10.146.0.0/16"}}
	if _, err := h.partitions.Create(ctx, p, metav1.CreateOptions{}); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), "was removed from the cluster at") {
		t.Errorf("it comes back by another name: %v", err)
	}
	// Its name is free.
	h.add(t, asks("tp2", "second", 1))
	if err := h.register.Add(ctx, asks("tp2", "third", 1)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("two of a name: %v", err)
	}
	if err := h.register.Add(ctx, asks("tp2", "", 1)); err == nil {
		t.Error("one that does not say which it is is registered")
	}
}

// TestRestoredHome: home was restored from a snapshot that is older than tp2. tp2 goes on as
// it was, and makes itself and its tenants known again.
func TestRestoredHome(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if err := planes.Prepare(); err != nil {
		t.Fatal(err)
	}
	before, tp2 := startHome(t, 6443), startPlane(t, "tp2", 6445)
	before.add(t, asks("tp2", "second", 1))
	before.add(t, asks("tp3", "third", 2))
	ctx := t.Context()
	// What a server of tp2 knows, over a link to home.
	file := filepath.Join(t.TempDir(), "file")
	d := newDirectory(t, "tp2", file, before.plane, before.link.url())
	follow := run(t, d.Component())
	known := func(what string, d *directory.Directory, names string, forgotten int) {
		t.Helper()
		var got []string
		planes.Eventually(t, what, func(context.Context) (bool, error) {
			got = nil
			for _, p := range d.Partitions() {
				got = append(got, p.Name)
			}
			return d.Synced() && strings.Join(got, " ") == names && len(d.Forgotten()) == forgotten, nil
		})
	}
	known("all partitions", d, "main tp2 tp3", 0)
	if err := before.partitions.Delete(ctx, "tp3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	known("the end of tp3", d, "main tp2", 0)
	planes.Eventually(t, "home's word that it left", func(ctx context.Context) (bool, error) {
		_, left, err := d.Left(ctx, "tp3")
		return left, err
	})

	// A home that has nothing, not even itself.
	after := startHome(t, 6446)
	follow()
	d = newDirectory(t, "tp2", file, after.plane, after.link.url())
	run(t, d.Component())
	known("what was known", d, "main tp2", 1)
	if _, left, err := d.Left(ctx, "tp2"); left || err != nil || d.Registered("tp2") != nil {
		t.Errorf("left %v, %v, registered %v", left, err, d.Registered("tp2"))
	}
	after.add(t, asks("tp2", "second", 1))
	known("that home knows tp2 again", d, "main tp2", 0)

	// Its tenants: one that home knows as another one's, one of another UID, and one more. It
	// should have yet another.
	problems := health.NewRegistry()
	tenants := map[string]*tenantapi.Client{}
	for name, p := range map[string]*plane{"main": after.plane, "tp2": tp2} {
		client, err := tenantapi.NewClient(p.as(t, "system:admin", p.direct), nil)
		if err != nil {
			t.Fatal(err)
		}
		tenants[name] = client
	}
	made := map[string]*tenantapi.Tenant{}
	for _, name := range []string{"forgotten", "taken", "older"} {
		one, err := tenants["tp2"].Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made[name] = one
	}
	for name, partition := range map[string]string{"taken": "main", "older": "tp2", "lost": "tp2"} {
		if _, err := after.placements.Create(ctx, &partitionapi.TenantPlacement{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: partitionapi.TenantPlacementSpec{Partition: partition},
			Status: partitionapi.TenantPlacementStatus{Phase: partitionapi.PlacementActive, TenantUID: "other"},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	home := newDirectory(t, "main", "", after.plane, after.direct)
	run(t, home.Component())
	placer := placement.New(home, peers(tenants), after.placements, problems, logrus.NewEntry(logrus.StandardLogger()))
	run(t, placer.Controller())
	planes.Eventually(t, "the placements", func(ctx context.Context) (bool, error) {
		for _, name := range []string{"forgotten", "older"} {
			p, err := after.placements.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && p.Status.TenantUID != made[name].UID {
				return false, nil
			}
			if err != nil || p.Spec.Partition != "tp2" || p.Status.Phase != partitionapi.PlacementActive {
				return false, fmt.Errorf("%+v, %w", p, err)
			}
		}
		return holds(problems, health.TenantNameTaken, "taken") && holds(problems, health.TenantMissing, "lost") &&
			!holds(problems, health.TenantMissing, "older"), nil
	})
	p, err := after.placements.Get(ctx, "taken", metav1.GetOptions{})
	if err != nil || p.Spec.Partition != "main" || p.Status.TenantUID != "other" {
		t.Errorf("the first does not keep its name: %+v, %v", p, err)
	}
	if _, err := tenants["tp2"].Get(ctx, "taken", metav1.GetOptions{}); err != nil {
		t.Errorf("the second is gone: %v", err)
	}
	// One that is there again because tp2 was restored, too.
	if _, err := tenants["tp2"].Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "revived"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	req := asks("tp2", "second", 1)
	req.Restored = "2026-11-26"
	after.add(t, req)
	planes.Eventually(t, "the placement of a tenant that came back", func(ctx context.Context) (bool, error) {
		_, err := after.placements.Get(ctx, "revived", metav1.GetOptions{})
		return err == nil, nil
	})
}

// newDirectory is that of a server of a partition, which has home at a URL.
func newDirectory(t *testing.T, self, file string, home *plane, url string) *directory.Directory {
	t.Helper()
	d, err := directory.New(directory.Options{Self: self, File: file, Log: logrus.NewEntry(logrus.StandardLogger())})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Follow(home.as(t, partitionapi.UserPrefix+self, url)); err != nil {
		t.Fatal(err)
	}
	return d
}

func holds(r *health.Registry, code health.Code, subject string) bool {
	for _, h := range r.Holdings() {
		if h.Code == code && h.Subject == subject {
			return true
		}
	}
	return false
}

// peers are partitions that answer.
type peers map[string]*tenantapi.Client

// Ready implements placement.Peers.
func (peers) Ready(context.Context, string) error { return nil }

// Tenants implements placement.Peers.
func (p peers) Tenants(partition string) (*tenantapi.Client, error) { return p[partition], nil }
