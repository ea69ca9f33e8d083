package directory

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

func template(name string) *tenantapi.TenantTemplate {
	return &tenantapi.TenantTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: tenantapi.TemplateKind},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: "1"}}
}

// watching is a directory that knows a tenant of the template gold, which its watch does not have, and the
// template silver until deleted is closed.
func watching(t *testing.T, tenant *tenantapi.Tenant, deleted <-chan struct{}, set func(*Directory)) *Directory {
	t.Helper()
	gold, version := template("gold"), metav1.ListMeta{ResourceVersion: "1"}
	gold.Spec.PodSecurity = "restricted"
	list := metav1.TypeMeta{APIVersion: "v1", Kind: "List"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		templates, watch := strings.Contains(r.URL.Path, tenantapi.Templates), r.URL.Query().Get("watch") != ""
		var answer any
		switch {
		case watch && templates:
			_ = http.NewResponseController(w).Flush() //nolint:errcheck // the client fails then
			select {
			case <-deleted:
			case <-r.Context().Done():
				return
			}
			answer = map[string]any{"type": "DELETED", "object": template("silver")}
		case watch:
		case strings.HasSuffix(r.URL.Path, "/gold"):
			answer = gold
		case templates:
			list.Kind = tenantapi.TemplateKind + "List"
			answer = &tenantapi.TenantTemplateList{TypeMeta: list, ListMeta: version,
				Items: []tenantapi.TenantTemplate{*template("silver")}}
		default:
			answer = &tenantapi.TenantList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: tenantapi.Kind + "List"},
				ListMeta: version, Items: []tenantapi.Tenant{*tenant}}
		}
		if answer != nil {
			_ = json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client fails then
		}
		_ = http.NewResponseController(w).Flush() //nolint:errcheck // the client fails then
		if watch {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	d, err := New(&rest.Config{Host: server.URL}, interning.New())
	if err != nil {
		t.Fatal(err)
	}
	set(d)
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx, func() { close(ready) }) }) //nolint:errcheck // it has none
	t.Cleanup(func() {
		cancel()
		if !t.Failed() {
			running.Wait()
		}
	})
	<-ready
	return d
}

// TestWhatTheWatchDoesNotHave is asked for: the template of a tenant that was just made on another server holds
// here, too. What is found out for readers is not kept.
func TestWhatTheWatchDoesNotHave(t *testing.T) {
	clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, false)
	tenant := kept()
	tenant.UID = "t"
	tenant.Status.Usage = []tenantapi.LimitUsage{{Name: "pods"}}
	tenant.Status.Effective = &tenantapi.EffectiveSpec{PodSecurity: "restricted"}
	d := watching(t, tenant, nil, func(*Directory) {})
	if level, err := d.Allowance(t.Context(), "t", allowances.PodSecurity); level != "restricted" || err != nil {
		t.Errorf("the level %q, %v", level, err)
	}
	if got, err := (Bounded{d}).Get(t.Context(), "t"); err != nil || d.Template(got.Spec.Template) == nil {
		t.Errorf("no limits of a template, %v", err)
	}
	if got := d.Known("t"); got == nil || got.Status.Usage != nil || got.Status.Effective != nil {
		t.Errorf("kept as %+v", got)
	}
}

// TestDeletedTemplatesAreTold while the queue of the watch is locked, as it is with these features off.
func TestDeletedTemplatesAreTold(t *testing.T) {
	for _, f := range []clientfeatures.Feature{clientfeatures.WatchListClient,
		clientfeatures.UnlockWhileProcessingFIFO, clientfeatures.AtomicFIFO} {
		clientfeaturestesting.SetFeatureDuringTest(t, f, false)
	}
	deleted, told := make(chan struct{}), make(chan *tenantapi.TenantTemplate, 1)
	watching(t, kept(), deleted, func(d *Directory) {
		d.OnTemplate(func(_ string, now *tenantapi.TenantTemplate) { told <- now })
	})
	if now := <-told; now == nil || now.Name != "silver" {
		t.Errorf("the first is %+v", now)
	}
	close(deleted)
	if now := <-told; now != nil {
		t.Errorf("it is there: %+v", now)
	}
}
