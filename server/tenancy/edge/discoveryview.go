package edge

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/discovery"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// aggregatedJSON asks for all of upstream's discovery in one document.
const aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// discoveryViews is what users of a space see of the API.
type discoveryViews struct {
	kinds          *kinds.Table
	crds           CustomResources
	tenants        Tenants
	discoveryCache *discoveryCache
}

// index is what upstream's discovery has of custom resources. Resources of aggregated
// API servers, such as custom metrics, are among them.
type index struct {
	etag            string
	customResources map[schema.GroupVersion][]customResource
	// builtIn are the group versions with a built-in resource.
	builtIn map[schema.GroupVersion]bool
}

type customResource struct{ resource, kind string }

// index gets the index from upstream's discovery, which answers 304 if it has not
// changed. If upstream refuses, index returns its answer.
func (e *discoveryViews) index(req *http.Request, next http.Handler) (*index, *capture, error) {
	d := e.discoveryCache
	d.mu.Lock()
	known := d.index
	d.mu.Unlock()
	etag := ""
	if known != nil {
		etag = known.etag
	}
	answer := ask(req, next, "/apis", "", aggregatedJSON, etag)
	if answer.code == http.StatusNotModified && known != nil {
		return known, nil, nil
	}
	if answer.code != http.StatusOK {
		return nil, answer, nil
	}
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(answer.body.Bytes(), &list); err != nil {
		return nil, nil, fmt.Errorf("reading a discovery document: %w", err)
	}
	idx := &index{etag: answer.header.Get("Etag"), customResources: map[schema.GroupVersion][]customResource{},
		builtIn: map[schema.GroupVersion]bool{}}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			for _, r := range v.Resources {
				if _, ok := e.kinds.Resource(g.Name, r.Resource); ok {
					idx.builtIn[gv] = true
					continue
				}
				c := customResource{resource: r.Resource}
				if r.ResponseKind != nil {
					c.kind = r.ResponseKind.Kind
				}
				idx.customResources[gv] = append(idx.customResources[gv], c)
			}
		}
	}
	if idx.etag != "" {
		d.mu.Lock()
		d.index = idx
		d.mu.Unlock()
	}
	return idx, nil, nil
}

// discoveryView is the part of upstream's discovery that a space has, and its own
// CRDs, at one time. It keeps no reference to the CRDs, so that they can be freed.
type discoveryView struct {
	generation int64
	// index is nil for the view of all spaces for controllers, where all custom
	// resources have synthetic names.
	index *index
	// kept are upstream's custom resources that the space has, hidden the kinds
	// of the others.
	kept   map[schema.GroupResource]bool
	hidden map[schema.GroupKind]bool
	// lists is set for tenants/all: it has all resources of upstream, with the
	// verbs list and watch only.
	lists bool
	// groups are the groups of kept and of its own CRDs, versions the digest of
	// its own CRDs of each group version.
	groups   map[string]bool
	versions map[schema.GroupVersion]string
	// nodes is set if the space sees nodes. All spaces can ask for them.
	nodes bool
	// unfiltered is set for the system, which has all of upstream's resources.
	unfiltered bool
	// fingerprint is equal for views that have the same documents.
	fingerprint string
}

// size is the approximate size of a view in memory.
func (view *discoveryView) size() int {
	return 512 + 128*(len(view.kept)+len(view.hidden)+len(view.groups)+len(view.versions))
}

// viewOf is the current view of a tenant.
func (e *discoveryViews) viewOf(tenant string, nodes bool, idx *index) (*discoveryView, error) {
	if e.crds == nil {
		view := &discoveryView{index: idx}
		view.showNodes(nodes)
		return view, nil
	}
	generation := e.crds.Generation(tenant)
	if view, ok := e.discoveryCache.views.get(tenant); ok && view.generation == generation && view.index == idx &&
		view.nodes == nodes {
		return view, nil
	}
	view, err := e.newDiscoveryView(tenant, idx, discovery.Set(e.crds.CRDs(tenant)))
	if err != nil {
		return nil, err
	}
	// A change since then is in the next view.
	view.generation = generation
	view.showNodes(nodes)
	e.discoveryCache.views.put(tenant, view, view.size())
	return view, nil
}

// mayReadNodes reports whether a tenant sees the nodes of the cluster.
func (e *discoveryViews) mayReadNodes(ctx context.Context, tenant string) (bool, error) {
	if e.tenants == nil {
		return false, nil
	}
	t, err := e.tenants.Get(ctx, tenant)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return t != nil && t.Spec.Nodes == tenantapi.NodesReadOnly, nil
}

// showNodes adds the nodes to a new view.
func (view *discoveryView) showNodes(show bool) {
	if view.nodes = show; show {
		view.fingerprint += " nodes"
	}
}

// lists is the view of tenants/all.
func lists(idx *index) *discoveryView {
	view := &discoveryView{index: idx, lists: true, kept: map[schema.GroupResource]bool{}, fingerprint: "lists"}
	for gv, customResources := range idx.customResources {
		for _, c := range customResources {
			view.kept[schema.GroupResource{Group: gv.Group, Resource: c.resource}] = true
		}
	}
	return view
}

// ownCRDs are the CRDs of a view. ok is false if they have changed since.
func (e *discoveryViews) ownCRDs(tenant string, view *discoveryView) (set discovery.Set, ok bool) {
	if e.crds == nil {
		return nil, true
	}
	set = e.crds.CRDs(tenant)
	digests, err := set.Digests()
	return set, err == nil && maps.Equal(digests, view.versions)
}

func (e *discoveryViews) newDiscoveryView(tenant string, idx *index, set discovery.Set) (*discoveryView, error) {
	view := &discoveryView{index: idx, kept: map[schema.GroupResource]bool{}, hidden: map[schema.GroupKind]bool{},
		groups: map[string]bool{}}
	var err error
	if view.versions, err = set.Digests(); err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, gv := range set.GroupVersions() {
		view.groups[gv.Group] = true
		write(sum, gv.String(), view.versions[gv])
	}
	if idx == nil {
		// Which groups upstream's documents are left in counts as well.
		view.fingerprint = fmt.Sprintf("all %d %s", e.crds.Generation(tenant), hex.EncodeToString(sum.Sum(nil)))
		return view, nil
	}
	for _, gv := range slices.SortedFunc(maps.Keys(idx.customResources), compareVersions) {
		for _, c := range idx.customResources[gv] {
			r := schema.GroupResource{Group: gv.Group, Resource: c.resource}
			k, ok := e.crds.Resource(tenant, r.Group, r.Resource)
			if !ok || k.Class == kinds.System || e.crds.Own(tenant, r.Group, r.Resource) {
				view.hidden[schema.GroupKind{Group: gv.Group, Kind: c.kind}] = true
				continue
			}
			view.kept[r], view.groups[gv.Group] = true, true
			write(sum, gv.String(), c.resource)
		}
	}
	view.fingerprint = hex.EncodeToString(sum.Sum(nil))
	return view, nil
}

// hasVersion reports whether the space has a resource of a group version of upstream.
// It must only be called for groups that the space has.
func (view *discoveryView) hasVersion(e *discoveryViews, gv schema.GroupVersion) bool {
	if view.lists {
		return true
	}
	if view.index == nil {
		return view.versions[gv] != "" || e.leaves(gv.Group)
	}
	if view.index.builtIn[gv] {
		return true
	}
	customResources, ok := view.index.customResources[gv]
	if !ok {
		// A group version without resources is announced as upstream does.
		return e.discoveryCache.groups[gv.Group]
	}
	return slices.ContainsFunc(customResources, func(c customResource) bool {
		return view.kept[schema.GroupResource{Group: gv.Group, Resource: c.resource}]
	})
}

// hash is the hash of the OpenAPI document of a group version, by which clients cache
// it. It always differs from upstream's, whose document lacks metadata.tenant.
func (view *discoveryView) hash(gv schema.GroupVersion, upstream string) string {
	sum := sha256.New()
	write(sum, tenantField, upstream, view.versions[gv])
	if view.nodes {
		write(sum, "nodes")
	}
	for _, c := range view.index.customResources[gv] {
		if view.kept[schema.GroupResource{Group: gv.Group, Resource: c.resource}] {
			write(sum, c.resource)
		}
	}
	return strings.ToUpper(hex.EncodeToString(sum.Sum(nil)))
}

// write adds parts to a hash with their lengths, so that no other parts give the
// same sum.
func write(to hash.Hash, parts ...string) {
	for _, part := range parts {
		to.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		to.Write([]byte(part))
	}
}

func compareVersions(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }
