package serving

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/a4s-io/a4s/server/controlplane/apistorage"
)

var foos = schema.GroupResource{Group: "example.com", Resource: "foos"}

// served is a CRD that is served, of foos.
func served(change ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	crd := withFields(3)
	crd.Spec.Group, crd.Spec.Names.Plural = foos.Group, foos.Resource
	crd.Status.AcceptedNames = crd.Spec.Names
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	for _, f := range change {
		f(crd)
	}
	return crd
}

func described(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "another"
}

// tenantStorage is the storage of a tenant.
type tenantStorage struct {
	storage.Interface
	tenant string
	// destroyed is closed then; destroying takes so long.
	destroyed  chan struct{}
	destroying time.Duration
	// asked is told of each read, which then waits.
	asked, goOn chan struct{}
}

func newTenantStorage(tenant string) *tenantStorage {
	return &tenantStorage{tenant: tenant, destroyed: make(chan struct{})}
}

func (s *tenantStorage) isDestroyed() bool {
	select {
	case <-s.destroyed:
		return true
	default:
		return false
	}
}

func (s *tenantStorage) Get(context.Context, string, storage.GetOptions, runtime.Object) error {
	if s.asked != nil {
		s.asked <- struct{}{}
		<-s.goOn
	}
	if s.isDestroyed() {
		return errors.New("it is destroyed")
	}
	return nil
}

func (s *tenantStorage) Watch(ctx context.Context, key string, _ storage.ListOptions) (watch.Interface, error) {
	w := watch.NewFake()
	context.AfterFunc(ctx, w.Stop)
	go func() {
		<-s.destroyed
		w.Stop()
	}()
	return w, s.Get(ctx, key, storage.GetOptions{}, nil)
}

func (s *tenantStorage) Stats(context.Context) (storage.Stats, error) {
	return storage.Stats{ObjectCount: int64(len(s.tenant)), EstimatedAverageObjectSizeBytes: 10}, nil
}

// options make storages.
type options struct{ made func() *tenantStorage }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o options) GetRESTOptions(schema.GroupResource, runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{CountMetricPollPeriod: time.Minute, Decorator: apistorage.Make(func(
		apistorage.Storing) (storage.Interface, factory.DestroyFunc, error) {
		s := o.made()
		return s, func() {
			time.Sleep(s.destroying)
			close(s.destroyed)
		}, nil
	}).Decorator()}, nil
}

// reader is a handler that, for CRDs of its view, reads from its storage.
type reader struct {
	view    *view
	storage storage.Interface
	options generic.RESTOptions
	// takes is how long it is made.
	takes  time.Duration
	made   int
	serves atomic.Int32
}

// ServeHTTP implements http.Handler.
func (r *reader) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if _, err := r.view.Lister().Get("foos.example.com"); err != nil {
		http.NotFound(w, req)
		return
	}
	r.serves.Add(1)
	info, _ := request.RequestInfoFrom(req.Context())
	switch info.Verb {
	case "create":
		if err := refused(req.Context(), creating(admission.Create)); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
	case "watch":
		events, err := r.storage.Watch(req.Context(), "", storage.ListOptions{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for range events.ResultChan() {
		}
		return
	}
	if err := r.storage.Get(req.Context(), "", storage.GetOptions{}, nil); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// GetCustomResourceListerCollectionDeleter implements finalizer.CRClientGetter.
func (r *reader) GetCustomResourceListerCollectionDeleter(
	crd *apiextensionsv1.CustomResourceDefinition,
) (finalizer.ListerCollectionDeleter, error) {
	if _, err := r.view.Lister().Get(crd.Name); err != nil {
		return nil, err
	}
	if r.made++; r.made == 1 {
		time.Sleep(r.takes)
	}
	return nothing{}, nil
}

// creating is what admission is told of.
func creating(o admission.Operation) admission.Attributes {
	return admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "one",
		foos.WithVersion("v1"), "", o, nil, false, nil)
}

// makingTakes is how long a handler is made.
const makingTakes = time.Second

// commonsOf are handlers in common, and what was made for them. It is in a bubble of time.
func commonsOf(t *testing.T) (c *commons, handlers *[]*reader, storages map[string]*tenantStorage) {
	t.Helper()
	handlers, storages = new([]*reader), map[string]*tenantStorage{}
	c = &commons{of: map[content]*common{}}
	c.options = options{}
	c.bound = func(tenant string) generic.RESTOptionsGetter {
		return options{func() *tenantStorage {
			if storages[tenant] == nil {
				storages[tenant] = newTenantStorage(tenant)
			}
			return storages[tenant]
		}}
	}
	c.newHandler = func(v *view, o generic.RESTOptionsGetter) (handler, error) {
		opts, err := o.GetRESTOptions(foos, nil)
		if err != nil {
			return nil, err
		}
		of, _, err := apistorage.Maker(opts.Decorator)(apistorage.Storing{})
		h := &reader{view: v, storage: of, options: opts, takes: makingTakes}
		*handlers = append(*handlers, h)
		return h, err
	}
	return c, handlers, storages
}

// newTenant is an instance whose own handler serves nothing.
func newTenant() *instance {
	v := newView()
	return &instance{shares: map[string]*share{}, view: v, handler: &reader{view: v}}
}

// follows has an instance follow a CRD.
func follows(
	t *testing.T, i *instance, c *commons, tenant string, crd *apiextensionsv1.CustomResourceDefinition,
) *share {
	t.Helper()
	if err := i.follow(c, tenant, "foos.example.com", crd); err != nil {
		t.Fatal(err)
	}
	return i.shares["foos.example.com"]
}

// asking is a context of a request in a share.
func asking(t *testing.T, s *share) context.Context { return visiting(t.Context(), s, func() {}) }

// asks sends a request for foos to an instance.
func asks(t *testing.T, i *instance, verb string) int {
	t.Helper()
	return asksWithin(t.Context(), i, verb)
}

func asksWithin(ctx context.Context, i *instance, verb string) int {
	info := &request.RequestInfo{IsResourceRequest: true, Verb: verb, APIGroup: foos.Group, Resource: foos.Resource}
	req := httptest.NewRequestWithContext(request.WithRequestInfo(ctx, info), http.MethodGet, "/", nil)
	answer := httptest.NewRecorder()
	i.ServeHTTP(answer, req)
	return answer.Code
}

// TestEqualCRDsHaveOneHandler: tenants with equal CRDs have one handler, others have
// others, and it goes with the last of them.
func TestEqualCRDsHaveOneHandler(t *testing.T) { synctest.Test(t, equalCRDsHaveOneHandler) }

func equalCRDsHaveOneHandler(t *testing.T) {
	c, handlers, _ := commonsOf(t)
	a, b, other := newTenant(), newTenant(), newTenant()
	first, second := follows(t, a, c, "a", served()), follows(t, b, c, "b", served())
	if first == nil || second == nil || first.common != second.common || len(*handlers) != 1 {
		t.Fatalf("%d handlers for equal CRDs", len(*handlers))
	}
	for range 2 {
		for _, i := range []*instance{a, b} {
			if code := asks(t, i, "get"); code != http.StatusOK {
				t.Errorf("answered with %d", code)
			}
		}
	}
	if served := (*handlers)[0].serves.Load(); served != 4 {
		t.Errorf("the handler that they have in common served %d of 4 requests", served)
	}
	*handlers = (*handlers)[:1] // without what was made for the time
	if third := follows(t, other, c, "c", served(described)); third.common == first.common || len(c.of) != 2 {
		t.Error("another CRD has the same handler")
	}
	// What the status says besides changes nothing.
	changed := served(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Status.StoredVersions = []string{"v1"}
		crd.Annotations = map[string]string{"a": "b"}
	})
	if again := follows(t, a, c, "a", changed); again != first || again.crd.Load() != changed {
		t.Error("another status made another share")
	}
	if moved := follows(t, a, c, "a", served(described)); moved.common == second.common {
		t.Error("a changed CRD has the handler of what it was")
	}
	follows(t, b, c, "b", nil)
	if len(c.of) != 1 || (*handlers)[0].view.size() != 0 || (*handlers)[1].view.size() != 1 {
		t.Errorf("%d handlers, and the first has %d CRDs", len(c.of), (*handlers)[0].view.size())
	}
	follows(t, a, c, "a", nil)
	follows(t, other, c, "c", nil)
	if len(c.of) != 0 || (*handlers)[1].view.size() != 0 {
		t.Errorf("%d handlers are left", len(c.of))
	}
}

// TestSomeCRDsHaveTheirOwnHandler: what converts by a webhook of the tenant has nothing in
// common with others, and what is not served is not shared.
func TestSomeCRDsHaveTheirOwnHandler(t *testing.T) {
	for name, change := range map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"converted": func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter}
		},
		"with a range": func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
				{Name: "Age", JSONPath: ".metadata.creationTimestamp"},
				{Name: "All", JSONPath: ".spec}{range .items[*]}{.name}{end"}}
		},
		"not served": func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Status.Conditions = nil },
	} {
		c, handlers, _ := commonsOf(t)
		i := newTenant()
		if s := follows(t, i, c, "a", served(change)); s != nil || len(*handlers) > 0 {
			t.Errorf("%s: it is shared", name)
		}
		// It can become so, and be one again.
		follows(t, i, c, "a", served())
		if s := follows(t, i, c, "a", served(change)); s != nil || len(c.of) > 0 {
			t.Errorf("%s: it stays shared", name)
		}
	}
}

// TestStorageIsThatOfTheTenant: a handler that tenants have in common reads and writes in the
// storage of the tenant whose request it is, and in none without one.
func TestStorageIsThatOfTheTenant(t *testing.T) {
	c, handlers, storages := commonsOf(t)
	a, b := newTenant(), newTenant()
	first, second := follows(t, a, c, "a", served()), follows(t, b, c, "bb", served())
	other := follows(t, newTenant(), c, "c", served(described))
	m, ok := (*handlers)[0].storage.(*inShares)
	if !ok {
		t.Fatalf("the storage is a %T", (*handlers)[0].storage)
	}
	if len(storages) > 0 {
		t.Errorf("there are storages before there are requests: %v", storages)
	}
	for s, tenant := range map[*share]string{first: "a", second: "bb"} {
		got, err := m.of(asking(t, s))
		if err != nil {
			t.Fatal(err)
		}
		if of, ok := got.(*stored); !ok || of.Interface != storage.Interface(storages[tenant]) {
			t.Errorf("the storage of %s is %v", tenant, got)
		}
	}
	if stats, err := m.Stats(asking(t, second)); err != nil || stats.ObjectCount != 2 {
		t.Errorf("bb has %+v, %v", stats, err)
	}
	if every := (*handlers)[0].options.CountMetricPollPeriod; every != 0 {
		t.Errorf("the objects of all tenants are counted every %s", every)
	}
	// All that takes a context fails without a share, and with one of another handler.
	of := reflect.ValueOf(storage.Interface(m))
	for _, ctx := range []context.Context{t.Context(), asking(t, other)} {
		for i := range of.NumMethod() {
			method, name := of.Method(i), of.Type().Method(i).Name
			if method.Type().NumIn() == 0 || method.Type().In(0) != reflect.TypeFor[context.Context]() {
				continue
			}
			args := []reflect.Value{reflect.ValueOf(ctx)}
			for n := 1; n < method.Type().NumIn(); n++ {
				args = append(args, reflect.Zero(method.Type().In(n)))
			}
			out := method.Call(args)
			if err, ok := out[len(out)-1].Interface().(error); !ok || !errors.Is(err, errNobody) {
				t.Errorf("%s without a tenant: %v", name, out)
			}
		}
	}
}

// TestCreatesEndWithTheCRD: while a tenant's CRD is being deleted that tenant makes nothing
// more, and another whose handler is the same does.
func TestCreatesEndWithTheCRD(t *testing.T) {
	c, _, _ := commonsOf(t)
	deleted := served(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	})
	going, staying := follows(t, newTenant(), c, "a", served()), follows(t, newTenant(), c, "b", served())
	going.crd.Store(deleted)
	with := admitting{admission.NewHandler(admission.Update)}
	if !with.Handles(admission.Create) || !with.Handles(admission.Update) || with.Handles(admission.Delete) {
		t.Error("it handles other operations")
	}
	for _, check := range []func(context.Context, admission.Attributes, admission.ObjectInterfaces) error{
		with.Admit, with.Validate,
	} {
		for _, of := range []struct {
			ctx     context.Context
			o       admission.Operation
			refused bool
		}{
			{asking(t, going), admission.Create, true},
			{asking(t, going), admission.Update, false},
			{asking(t, staying), admission.Create, false},
			{t.Context(), admission.Create, false},
		} {
			if err := check(of.ctx, creating(of.o), nil); (err != nil) != of.refused {
				t.Errorf("%s: %v", of.o, err)
			}
		}
	}
}
