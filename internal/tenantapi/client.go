package tenantapi

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/coreapi"
)

// Client has the verbs of tenants: Create, Get, List, Watch, Update,
// UpdateStatus, Patch and Delete.
type Client = gentype.ClientWithList[*Tenant, *TenantList]

// NewClient returns a client. A nil http means one by the configuration.
func NewClient(config *rest.Config, http *http.Client) (*Client, error) {
	return coreapi.NewClient(config, http, coreapi.Kind[*Tenant, *TenantList]{
		Resource: GroupVersionResource(), AddToScheme: AddToScheme,
		New: func() *Tenant { return &Tenant{} }, NewList: func() *TenantList { return &TenantList{} },
	})
}

// ListWatch is what informers of tenants read from that have to know those that are
// used or are being deleted. There can be very many dormant ones, so who needs one of
// them asks for it.
func ListWatch(c *Client) cache.ListerWatcher {
	return lists{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector, options.Limit = awake, pageSize
			return c.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = awake
			return c.Watch(ctx, options)
		},
	}}
}

// lists has an informer list at first, of which the server reads the dormant ones' keys
// only. A watch that begins with what is there reads all tenants.
type lists struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is how client-go asks for that.
func (lists) IsWatchListSemanticsUnSupported() bool { return true }

// pageSize is as many tenants as the server gives at once. The keys are read anew for
// each page.
const pageSize = 10000

// awake selects the tenants that are not dormant.
const awake = SelectDormant + "=false"
