package placement

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// api has one tenant, in partition tp2, and its placement.
type api struct {
	mu        sync.Mutex
	tenant    *tenantapi.Tenant
	placement *partitionapi.TenantPlacement
	// deleting answers the deletion of the tenant, trying a dry run of it.
	deleting, trying func(*api) *apierrors.StatusError
	deleted          int
	// phases are those that the placement was given.
	phases []partitionapi.PlacementPhase
	// starting partitions refuse everything.
	starting bool
	// listed are all tenants, taken the names whose placements cannot be made, and made those
	// that were.
	listed      []string
	taken, made []string
}

func (a *api) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out any
	missing := apierrors.NewNotFound(tenantapi.GroupResource(), "t")
	var err *apierrors.StatusError
	switch ofTenant := strings.Contains(req.URL.Path, "/tenants/"); {
	case strings.Contains(req.URL.Path, "/tenants") && a.starting:
		err = apierrors.NewForbidden(tenantapi.GroupResource(), "t", errors.New("no roles yet"))
	case strings.HasSuffix(req.URL.Path, "/tenants") && req.Method == http.MethodGet:
		list := tenantapi.TenantList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "TenantList"}}
		for _, name := range a.listed {
			list.Items = append(list.Items, tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u"}})
		}
		out = list
	case req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/"+partitionapi.Placements):
		var p partitionapi.TenantPlacement
		if json.NewDecoder(req.Body).Decode(&p); slices.Contains(a.taken, p.Name) {
			err = apierrors.NewAlreadyExists(tenantapi.GroupResource(), p.Name)
		} else {
			a.made = append(a.made, p.Name)
			out, a.placement = &p, &p
		}
	case strings.HasSuffix(req.URL.Path, "/tenants"):
		err = apierrors.NewInvalid(tenantapi.GroupVersion().WithKind("Tenant").GroupKind(), "t", nil)
	case ofTenant && req.Method == http.MethodGet:
		if out = a.tenant; a.tenant == nil {
			err = missing
		}
	case ofTenant:
		var o metav1.DeleteOptions
		decide := a.deleting
		if json.NewDecoder(req.Body).Decode(&o) == nil && len(o.DryRun) > 0 {
			decide = a.trying
		} else {
			a.deleted++
		}
		if decide != nil {
			err = decide(a)
		}
		if err == nil {
			out = metav1.Status{Status: metav1.StatusSuccess}
		}
	case a.placement == nil:
		err = missing
	case req.Method == http.MethodPut:
		var p partitionapi.TenantPlacement
		if json.NewDecoder(req.Body).Decode(&p) == nil {
			a.placement = &p
			a.phases = append(a.phases, p.Status.Phase)
		}
		out = a.placement
	case req.Method == http.MethodDelete:
		out, a.placement = a.placement, nil
	default:
		out = a.placement
	}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(int(err.ErrStatus.Code))
		out = err.ErrStatus
	}
	_ = json.NewEncoder(w).Encode(out)
}

// known is a directory of two partitions.
type known struct{ Directory }

func (known) Self() string                       { return partitionapi.Home }
func (known) Several() bool                      { return true }
func (known) Synced() bool                       { return true }
func (known) Note(*partitionapi.TenantPlacement) {}

func (known) Placements() []*partitionapi.TenantPlacement { return nil }

func (known) Partition(name string) *partitionapi.Partition {
	return &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: partitionapi.PartitionSpec{Roles: partitionapi.Roles()}}
}

// peers reach one API for all.
type peers struct{ tenants *tenantapi.Client }

func (p peers) Ready(context.Context, string) error       { return nil }
func (p peers) Tenants(string) (*tenantapi.Client, error) { return p.tenants, nil }

// placerOf is home's placer with an API.
func placerOf(t *testing.T, a *api, phase partitionapi.PlacementPhase, created metav1.Time) *Placer {
	t.Helper()
	kind := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
	a.tenant = &tenantapi.Tenant{TypeMeta: kind("Tenant"), ObjectMeta: metav1.ObjectMeta{Name: "t", UID: "u"}}
	a.placement = &partitionapi.TenantPlacement{TypeMeta: kind("TenantPlacement"),
		ObjectMeta: metav1.ObjectMeta{Name: "t", UID: "p", ResourceVersion: "1", CreationTimestamp: created},
		Spec:       partitionapi.TenantPlacementSpec{Partition: "tp2"},
		Status:     partitionapi.TenantPlacementStatus{Phase: phase, TenantUID: "u"}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	tenants, err := tenantapi.NewClient(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	placements, err := partitionapi.NewPlacementClient(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(known{}, peers{tenants}, placements, nil, logrus.NewEntry(logrus.StandardLogger()))
}

func nowhere(context.Context, *metav1.DeleteOptions) (*tenantapi.Tenant, bool, error) {
	return nil, false, errors.New("it is not here")
}

func conflict() *apierrors.StatusError {
	return apierrors.NewConflict(tenantapi.GroupResource(), "t", errors.New("the precondition failed"))
}

// TestDeletedByTwo: the controller, which goes on with every deletion, may delete the Tenant
// at the same moment. That is no reason to keep the placement.
func TestDeletedByTwo(t *testing.T) {
	a := &api{deleting: func(a *api) *apierrors.StatusError {
		a.tenant = nil
		return conflict()
	}}
	_, _, err := placerOf(t, a, partitionapi.PlacementActive, metav1.Now()).Delete(t.Context(), "t", nil, nowhere)
	if !apierrors.IsNotFound(err) || a.placement != nil {
		t.Errorf("%v, the placement is %+v", err, a.placement)
	}
	a = &api{deleting: func(a *api) *apierrors.StatusError {
		now := metav1.Now()
		a.tenant.DeletionTimestamp = &now
		return conflict()
	}}
	p := placerOf(t, a, partitionapi.PlacementActive, metav1.Now())
	deleted, _, err := p.Delete(t.Context(), "t", nil, nowhere)
	if err != nil || deleted == nil || a.placement.Status.Phase != partitionapi.PlacementDeleting {
		t.Errorf("%+v, %v, the placement is %+v", deleted, err, a.placement)
	}
}

// TestProtectedWhileItGoes: a deletion that was begun and is refused in the end is not tried again
// when the protection goes.
func TestProtectedWhileItGoes(t *testing.T) {
	a := &api{deleting: func(*api) *apierrors.StatusError {
		err := apierrors.NewForbidden(tenantapi.GroupResource(), "t", errors.New("it is protected"))
		err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: tenantapi.CauseDeletionProtected}}
		return err
	}}
	p := placerOf(t, a, partitionapi.PlacementDeleting, metav1.Now())
	if free, err := p.finish(t.Context(), a.placement); err != nil || free {
		t.Errorf("the name is free: %v, %v", free, err)
	}
	if a.placement == nil || a.placement.Status.Phase != partitionapi.PlacementActive {
		t.Errorf("the placement is %+v", a.placement)
	}
}

// TestDeletionOfALostTenant: the partition does not have it, after a restore. The name is deleted.
func TestDeletionOfALostTenant(t *testing.T) {
	a := &api{}
	p := placerOf(t, a, partitionapi.PlacementActive, metav1.Now())
	a.tenant = nil
	with := func(uid types.UID) (*tenantapi.Tenant, bool, error) {
		o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
		return p.Delete(t.Context(), "t", &o, nowhere)
	}
	if d, _, err := with("other"); !apierrors.IsConflict(err) || a.placement == nil {
		t.Errorf("another one: %+v, %v, the placement is %+v", d, err, a.placement)
	}
	if d, gone, err := with("u"); err != nil || !gone || d.UID != "u" || a.placement != nil {
		t.Errorf("%+v, %v, the placement is %+v", d, err, a.placement)
	}
	if _, _, err := p.Delete(t.Context(), "t", nil, nowhere); err == nil {
		t.Error("what is not there is deleted")
	}
}

// TestRefusedDeletion leaves the tenant as it was.
func TestRefusedDeletion(t *testing.T) {
	for what, refuse := range map[string]*apierrors.StatusError{"conflict": conflict(),
		"forbidden": apierrors.NewForbidden(tenantapi.GroupResource(), "t", errors.New("by a webhook"))} {
		a := &api{deleting: func(*api) *apierrors.StatusError { return refuse }}
		_, _, err := placerOf(t, a, partitionapi.PlacementActive, metav1.Now()).Delete(t.Context(), "t", nil, nowhere)
		if apierrors.ReasonForError(err) != refuse.ErrStatus.Reason ||
			a.placement.Status.Phase != partitionapi.PlacementActive {
			t.Errorf("%s: %v, the placement is %+v", what, err, a.placement)
		}
	}
}

// TestRefusedBeforeItBegins: what preconditions or admission refuse never stands in the placement,
// which the controller goes by, also if this server is killed at that moment.
func TestRefusedBeforeItBegins(t *testing.T) {
	for what, refuse := range map[string]*apierrors.StatusError{"conflict": conflict(),
		"forbidden": apierrors.NewForbidden(tenantapi.GroupResource(), "t", errors.New("by a webhook")),
		"no answer": apierrors.NewInternalError(errors.New("a webhook does not answer"))} {
		judge := func(*api) *apierrors.StatusError { return refuse }
		a := &api{trying: judge, deleting: judge}
		p := placerOf(t, a, partitionapi.PlacementActive, metav1.Now())
		_, _, err := p.Delete(t.Context(), "t", nil, nowhere)
		if apierrors.ReasonForError(err) != refuse.ErrStatus.Reason || a.deleted > 0 || len(a.phases) > 0 {
			t.Errorf("%s: %v, the placement was %v", what, err, a.phases)
		}
		if _, _, err = p.Delete(t.Context(), "t", nil, nowhere); err == nil || a.tenant == nil {
			t.Errorf("%s, again: %v", what, err)
		}
	}
}

// TestNothingIsBegunThatIsRefused: before the placement says that the tenant goes, it is known
// that it is the one that is meant, and that nobody makes it at this moment.
func TestNothingIsBegunThatIsRefused(t *testing.T) {
	other := types.UID("other")
	for what, c := range map[string]struct {
		phase partitionapi.PlacementPhase
		o     *metav1.DeleteOptions
	}{
		"another UID": {partitionapi.PlacementActive,
			&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}},
		"it is made now": {partitionapi.PlacementCreating, nil},
	} {
		a := &api{deleting: func(a *api) *apierrors.StatusError { return nil }}
		_, _, err := placerOf(t, a, c.phase, metav1.Now()).Delete(t.Context(), "t", c.o, nowhere)
		if !apierrors.IsConflict(err) || a.deleted > 0 || a.placement.Status.Phase != c.phase {
			t.Errorf("%s: %v, the placement is %+v", what, err, a.placement)
		}
	}
}

// TestPartitionThatStarts: what it refuses is not refused for good, and nothing is forgotten.
func TestPartitionThatStarts(t *testing.T) {
	a := &api{starting: true}
	p := placerOf(t, a, partitionapi.PlacementActive, metav1.Now())
	if _, _, err := p.Delete(t.Context(), "t", nil, nowhere); !apierrors.IsServiceUnavailable(err) ||
		a.placement.Status.Phase != partitionapi.PlacementActive {
		t.Errorf("deleted: %v, the placement is %+v", err, a.placement)
	}
	creating := func() *Placer {
		p := placerOf(t, a, partitionapi.PlacementCreating, metav1.NewTime(time.Now().Add(-time.Hour)))
		a.placement.Status.TenantUID = ""
		return p
	}
	// The server that made it was killed before it could say so.
	if err := creating().resume(t.Context(), a.placement, time.Now()); err == nil || a.placement == nil {
		t.Errorf("while it starts: %v, the placement is %+v", err, a.placement)
	}
	a.starting = false
	if err := creating().resume(t.Context(), a.placement, time.Now()); err != nil || a.placement == nil ||
		a.placement.Status.Phase != partitionapi.PlacementActive || a.placement.Status.TenantUID != "u" {
		t.Errorf("a tenant that is there: %v, the placement is %+v", err, a.placement)
	}
	p = creating()
	a.tenant = nil
	if err := p.resume(t.Context(), a.placement, time.Now()); err != nil || a.placement != nil {
		t.Errorf("a tenant that cannot be made: %v, the placement is %+v", err, a.placement)
	}
}

// TestTakenByATenant: a name that a tenant without a placement has is taken, which the handlers of
// the API see in an error that is one of the API itself.
func TestTakenByATenant(t *testing.T) {
	a := &api{}
	p := placerOf(t, a, partitionapi.PlacementActive, metav1.Now())
	a.placement = nil
	there := apierrors.NewAlreadyExists(tenantapi.GroupResource(), "t")
	_, err := p.Create(t.Context(), &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"},
		Spec: tenantapi.TenantSpec{Partition: partitionapi.Home}}, nil,
		func(context.Context) (*tenantapi.Tenant, error) { return nil, there })
	status, ok := err.(apierrors.APIStatus) //nolint:errorlint // as they do
	if !ok || status.Status().Code != http.StatusConflict {
		t.Errorf("%T: %v", err, err)
	}
	if a.placement == nil || a.placement.Status.Phase != partitionapi.PlacementActive {
		t.Errorf("the placement is %+v", a.placement)
	}
}

// TestATakenNameStopsNoOther: what fails for one tenant is tried again, and the others get their
// placements.
func TestATakenNameStopsNoOther(t *testing.T) {
	a := &api{listed: []string{"a", "b", "c"}, taken: []string{"a"}}
	p := placerOf(t, a, partitionapi.PlacementActive, metav1.Now())
	reported := found{health.TenantNameTaken: {"a": "as before", "c": "as before"}}
	adopter, state := &adopter{Placer: p}, &adopted{reported: reported}
	adopter.pass(t.Context(), partitionapi.Home, state)
	if !slices.Equal(a.made, []string{"b", "c"}) {
		t.Errorf("placements are made for %q", a.made)
	}
	if wait := time.Until(state.next); wait <= 0 || wait > adoptAgain {
		t.Errorf("it is tried again in %s", wait)
	}
	if still := state.reported[health.TenantNameTaken]; len(still) != 1 || still["a"] == "" {
		t.Errorf("reported is %v", state.reported)
	}
}
