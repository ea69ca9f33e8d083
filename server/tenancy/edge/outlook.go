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

// index is what upstream says it has of custom resources: what neither is
// built in nor has to do with definitions, such as an API of custom metrics, is here, too.
type index struct {
	etag    string
	customs map[schema.GroupVersion][]custom
	// builtIn are the group versions that have something that is built in.
	builtIn map[schema.GroupVersion]bool
}

type custom struct{ resource, kind string }

// index asks upstream what there is, and gets a short answer if that is what
// there was before. It returns upstream's answer if that is another.
func (e *Edge) index(req *http.Request, next http.Handler) (*index, *capture, error) {
	d := e.documents
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
	idx := &index{etag: answer.header.Get("Etag"), customs: map[schema.GroupVersion][]custom{}, builtIn: map[schema.GroupVersion]bool{}}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			for _, r := range v.Resources {
				if _, ok := e.kinds.Resource(g.Name, r.Resource); ok {
					idx.builtIn[gv] = true
					continue
				}
				c := custom{resource: r.Resource}
				if r.ResponseKind != nil {
					c.kind = r.ResponseKind.Kind
				}
				idx.customs[gv] = append(idx.customs[gv], c)
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

// outlook is what a space shows of what upstream has and of the definitions of
// its own, as it was at one time. It holds on to no definitions.
type outlook struct {
	generation int64
	// index is nil for the view that controllers have of all spaces, where
	// all of upstream's custom resources have other names.
	index *index
	// kept are upstream's custom resources that the space has; hidden are
	// the kinds of the others.
	kept   map[schema.GroupResource]bool
	hidden map[schema.GroupKind]bool
	// lists is set for what is said of all spaces at once: it is all of
	// upstream's, to be listed and watched only.
	lists bool
	// groups are the groups of these and of its own definitions, versions
	// what the latter say of each group version, in short.
	groups   map[string]bool
	versions map[schema.GroupVersion]string
	// nodes is set where nodes can be read.
	nodes bool
	// whole is that of the system, which sees all that upstream has.
	whole bool
	// print is equal for spaces that show the same.
	print string
}

// size is about what an outlook takes in memory.
func (o *outlook) size() int {
	return 512 + 128*(len(o.kept)+len(o.hidden)+len(o.groups)+len(o.versions))
}

// look is how a tenant sees the documents now.
func (e *Edge) look(tenant string, nodes bool, idx *index) (*outlook, error) {
	if e.opts.Customs == nil {
		o := &outlook{index: idx}
		o.showNodes(nodes)
		return o, nil
	}
	generation := e.opts.Customs.Generation(tenant)
	if o, ok := e.documents.outlooks.get(tenant); ok && o.generation == generation && o.index == idx && o.nodes == nodes {
		return o, nil
	}
	o, err := e.newOutlook(tenant, idx, discovery.Set(e.opts.Customs.Definitions(tenant)))
	if err != nil {
		return nil, err
	}
	// What changed since is seen by the next one who looks.
	o.generation = generation
	o.showNodes(nodes)
	e.documents.outlooks.put(tenant, o, o.size())
	return o, nil
}

// readsNodes tells whether the nodes of the cluster are among what a tenant has.
func (e *Edge) readsNodes(ctx context.Context, tenant string) (bool, error) {
	if e.opts.Tenants == nil {
		return false, nil
	}
	t, err := e.opts.Tenants.Get(ctx, tenant)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return t != nil && t.Spec.Nodes == tenantapi.NodesReadOnly, nil
}

// showNodes puts the nodes into an outlook that is new.
func (o *outlook) showNodes(show bool) {
	if o.nodes = show; show {
		o.print += " nodes"
	}
}

// lists is the outlook on all spaces at once.
func lists(idx *index) *outlook {
	o := &outlook{index: idx, lists: true, kept: map[schema.GroupResource]bool{}, print: "lists"}
	for gv, customs := range idx.customs {
		for _, c := range customs {
			o.kept[schema.GroupResource{Group: gv.Group, Resource: c.resource}] = true
		}
	}
	return o
}

// own are the definitions that an outlook tells about. ok is false if they are
// others by now.
func (e *Edge) own(tenant string, o *outlook) (set discovery.Set, ok bool) {
	if e.opts.Customs == nil {
		return nil, true
	}
	set = e.opts.Customs.Definitions(tenant)
	digests, err := set.Digests()
	return set, err == nil && maps.Equal(digests, o.versions)
}

func (e *Edge) newOutlook(tenant string, idx *index, set discovery.Set) (*outlook, error) {
	o := &outlook{index: idx, kept: map[schema.GroupResource]bool{}, hidden: map[schema.GroupKind]bool{}, groups: map[string]bool{}}
	var err error
	if o.versions, err = set.Digests(); err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, gv := range set.GroupVersions() {
		o.groups[gv.Group] = true
		write(sum, gv.String(), o.versions[gv])
	}
	if idx == nil {
		// Which groups upstream's documents are left in counts as well.
		o.print = fmt.Sprintf("all %d %s", e.opts.Customs.Generation(tenant), hex.EncodeToString(sum.Sum(nil)))
		return o, nil
	}
	for _, gv := range slices.SortedFunc(maps.Keys(idx.customs), compareVersions) {
		for _, c := range idx.customs[gv] {
			r := schema.GroupResource{Group: gv.Group, Resource: c.resource}
			k, ok := e.opts.Customs.Resource(tenant, r.Group, r.Resource)
			if !ok || k.Class == kinds.System || e.opts.Customs.Own(tenant, r.Group, r.Resource) {
				o.hidden[schema.GroupKind{Group: gv.Group, Kind: c.kind}] = true
				continue
			}
			o.kept[r], o.groups[gv.Group] = true, true
			write(sum, gv.String(), c.resource)
		}
	}
	o.print = hex.EncodeToString(sum.Sum(nil))
	return o, nil
}

// hasVersion tells whether anything of a group version of upstream is left. It
// is asked about groups only that the space has.
func (o *outlook) hasVersion(e *Edge, gv schema.GroupVersion) bool {
	if o.lists {
		return true
	}
	if o.index == nil {
		return o.versions[gv] != "" || e.leaves(gv.Group)
	}
	if o.index.builtIn[gv] {
		return true
	}
	customs, ok := o.index.customs[gv]
	if !ok {
		// It has nothing at all, which is for upstream to announce.
		return e.documents.groups[gv.Group]
	}
	return slices.ContainsFunc(customs, func(c custom) bool {
		return o.kept[schema.GroupResource{Group: gv.Group, Resource: c.resource}]
	})
}

// hash is what clients remember the OpenAPI document of a group version by. It is
// never upstream's, whose document has less.
func (o *outlook) hash(gv schema.GroupVersion, upstream string) string {
	sum := sha256.New()
	write(sum, tenantField, upstream, o.versions[gv])
	if o.nodes {
		write(sum, "nodes")
	}
	for _, c := range o.index.customs[gv] {
		if o.kept[schema.GroupResource{Group: gv.Group, Resource: c.resource}] {
			write(sum, c.resource)
		}
	}
	return strings.ToUpper(hex.EncodeToString(sum.Sum(nil)))
}

// write adds parts to a sum so that others cannot add up to the same.
func write(to hash.Hash, parts ...string) {
	for _, part := range parts {
		to.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		to.Write([]byte(part))
	}
}

func compareVersions(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }
