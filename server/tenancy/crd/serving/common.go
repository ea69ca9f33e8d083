package serving

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/generic"
)

// commons are upstream's handlers by what they serve: tenants whose CRDs are equal in what
// a handler is made of have one in common. Upstream makes in one function all that a
// schema becomes (structural schemas, validators, compiled rules, types for server-side
// apply), and takes none of it from elsewhere, so what can be shared is the handler. Its
// storage is that of the tenant whose request it is: see inShares.
type commons struct {
	newHandler func(v *view, options generic.RESTOptionsGetter) (handler, error)
	// options are the storage of custom resources, bound that of one tenant's.
	options generic.RESTOptionsGetter
	bound   func(tenant string) generic.RESTOptionsGetter

	mu sync.Mutex
	of map[content]*common
}

// content is a hash of what a handler is made of. Tenants write that, so it must be one
// with which nobody finds another's.
type content [sha256.Size]byte

func contentOf(crd *apiextensionsv1.CustomResourceDefinition) (content, error) {
	text, err := json.Marshal([]any{&crd.Spec, &crd.Status.AcceptedNames})
	if err != nil {
		return content{}, fmt.Errorf("hashing %s: %w", crd.Name, err)
	}
	return sha256.Sum256(text), nil
}

// common is a handler that tenants have in common.
type common struct {
	handler
	commons *commons
	content content
	view    *view
	crd     *apiextensionsv1.CustomResourceDefinition
	made    atomic.Bool

	// open are the shares that tenants have of it, and kept those besides that requests
	// still hold, with the lock of commons.
	open, kept int
}

// sharable reports whether a handler for a CRD can be one of several tenants. The webhook
// that converts is a tenant's own, and is called without saying for whom. A printer column
// with a range keeps its place in a table from one request to the next. What is not served
// is left to the tenant's own handler to refuse.
func sharable(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, v := range crd.Spec.Versions {
		for _, column := range v.AdditionalPrinterColumns {
			if strings.Contains(column.JSONPath, "range") {
				return false
			}
		}
	}
	conversion := crd.Spec.Conversion
	return (conversion == nil || conversion.Strategy == apiextensionsv1.NoneConverter) &&
		(apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted) ||
			apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established))
}

// equal reports whether one handler is right for both.
func equal(a, b *apiextensionsv1.CustomResourceDefinition) bool {
	// Caches share schemas, so that equal ones are mostly the same.
	return reflect.DeepEqual(&a.Spec, &b.Spec) && reflect.DeepEqual(&a.Status.AcceptedNames, &b.Status.AcceptedNames)
}

// join gives a tenant its share of the handler for its CRD, nil if it must have its own.
func (c *commons) join(tenant string, crd *apiextensionsv1.CustomResourceDefinition) (*share, error) {
	if !sharable(crd) {
		return nil, nil
	}
	of, err := contentOf(crd)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.of[of]
	if h == nil {
		if h, err = c.newCommon(of, crd); err != nil {
			return nil, err
		}
		c.of[of] = h
	}
	s := &share{tenant: tenant, common: h, storages: map[*inShares]*stored{}}
	s.crd.Store(crd)
	h.open++
	return s, nil
}

// leave takes back what a tenant has. Nobody gets a share of the handler when all have left.
func (c *commons) leave(s *share) {
	c.mu.Lock()
	h := s.common
	h.open--
	h.kept++
	if h.open == 0 {
		delete(c.of, h.content)
	}
	c.mu.Unlock()
	s.close()
}

// ended is told of each share that was left and that no request holds any more. The handler
// goes with the last: before, its requests would find that there is no such resource.
func (c *commons) ended(h *common) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.kept--; h.open == 0 && h.kept == 0 {
		h.view.set(h.crd.Name, nil)
	}
}

func (c *commons) newCommon(of content, crd *apiextensionsv1.CustomResourceDefinition) (*common, error) {
	h := &common{commons: c, content: of, view: newView(), crd: impersonal(of, crd)}
	var err error
	if h.handler, err = c.newHandler(h.view, &optionsInShares{h}); err != nil {
		return nil, fmt.Errorf("making what serves %s to tenants: %w", crd.Name, err)
	}
	h.view.set(h.crd.Name, h.crd)
	return h, nil
}

// impersonal is a CRD without what is one tenant's. Upstream's handler serves it from its
// first moment; what it would do by the state of a CRD, share does.
func impersonal(
	of content, crd *apiextensionsv1.CustomResourceDefinition,
) *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: crd.Name, UID: types.UID(hex.EncodeToString(of[:]))},
		Spec:       crd.Spec,
	}
	out.Status.AcceptedNames = crd.Status.AcceptedNames
	for _, is := range []apiextensionsv1.CustomResourceDefinitionConditionType{
		apiextensionsv1.NamesAccepted, apiextensionsv1.Established,
	} {
		out.Status.Conditions = append(out.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: is, Status: apiextensionsv1.ConditionTrue})
	}
	return out
}

// make has upstream make all that a request needs, which is most of what a handler costs.
// Whoever finds it made has it made once more and thrown away: else a tenant would see by the
// time and the CPU of its first request that another one has the same CRD. What fails,
// requests fail with.
func (h *common) make() {
	if h.made.Swap(true) {
		again, err := h.commons.newCommon(h.content, h.crd)
		if err != nil {
			return
		}
		defer again.view.set(again.crd.Name, nil)
		h = again
	}
	_, _ = h.GetCustomResourceListerCollectionDeleter(h.crd)
}

type visitKey struct{}

// visit is a request of one tenant at a handler that several have.
type visit struct {
	share *share
	// leave says that the request needs the storages no more. It can be called again.
	leave func()
}

func visiting(ctx context.Context, s *share, leave func()) context.Context {
	return context.WithValue(ctx, visitKey{}, &visit{s, leave})
}

func visitOf(ctx context.Context) (*visit, bool) {
	v, ok := ctx.Value(visitKey{}).(*visit)
	return v, ok
}

// ServeHTTP implements http.Handler.
func (i *instance) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	for !i.served(w, req) {
	}
}

// served serves a request, unless the tenant's CRD became another one while the request
// waited: what is written then is to be of the new one.
func (i *instance) served(w http.ResponseWriter, req *http.Request) bool {
	v := i.enter(req)
	if v == nil {
		i.handler.ServeHTTP(w, req)
		return true
	}
	defer v.end()
	// A request that is over can still write, to a client that reads nothing.
	defer context.AfterFunc(req.Context(), v.leave)()
	s := v.share
	s.await(req)
	if s.left() && req.Context().Err() == nil {
		return false
	}
	s.common.ServeHTTP(w, req.WithContext(visiting(req.Context(), s, v.leave)))
	return true
}
