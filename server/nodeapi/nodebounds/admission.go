package nodebounds

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/noderanges"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// Options are what is known of the cluster.
type Options struct {
	// Ranges are those of nodes, by their order in spec.podCIDRs; none if nobody here gives
	// nodes their ranges.
	Ranges []noderanges.Range
	// Pods are the addresses of pods, and PodsInRanges says that each has one of its node's.
	Pods         netip.Prefix
	PodsInRanges bool
	// Joined are the addresses that a node joined with. Of a node that is not known it is
	// false: it joined before that was written down.
	Joined func(ctx context.Context, node string) (addresses []netip.Addr, known bool, err error)
	// Known reports whether there is a record of a node, and Mark is what its Node says of it.
	Known func(node string) (bool, error)
	Mark  func(node string) (mark string, there bool)
	// End ends the certificates of a node whose Node is deleted.
	End func(ctx context.Context, node string) error
	// Restored reports whether the cluster may have nodes that the datastore does not know:
	// it was restored from a snapshot.
	Restored func() bool
}

// Bounds judge. Seam and Store put them in place.
type Bounds struct {
	o      Options
	nodes  corelisters.NodeLister
	pods   cache.Indexer
	synced []cache.InformerSynced
	ranges *ranges
}

// New makes them.
func New(o Options) *Bounds {
	b := &Bounds{o: o}
	b.ranges = newRanges(b)
	return b
}

// Seam adds them to what else stands in the seam of admission.
func (b *Bounds) Seam(inner apiserver.Admission) apiserver.Admission {
	return &seam{Admission: inner, bounds: b}
}

type seam struct {
	apiserver.Admission
	bounds *Bounds
}

// Informers implements apiserver.Admission.
func (s *seam) Informers(
	loopback *rest.Config, authz authorizer.Authorizer, f informers.SharedInformerFactory,
) (informers.SharedInformerFactory, error) {
	if err := s.bounds.know(f); err != nil {
		return nil, err
	}
	return s.Admission.Informers(loopback, authz, f)
}

// Decorate implements apiserver.Admission.
func (s *seam) Decorate(handler admission.Interface, name string) admission.Interface {
	handler = s.Admission.Decorate(handler, name)
	if name == lifecycle.PluginName {
		return &plugin{Interface: handler, bounds: s.bounds}
	}
	return handler
}

// know sets what the cluster is known by. A restarted API server has other informers.
func (b *Bounds) know(f informers.SharedInformerFactory) error {
	nodes, pods := f.Core().V1().Nodes(), f.Core().V1().Pods().Informer()
	if _, ok := pods.GetIndexer().GetIndexers()[byAddress]; !ok {
		if err := pods.AddIndexers(cache.Indexers{byAddress: podAddresses}); err != nil {
			return err
		}
	}
	b.nodes, b.pods = nodes.Lister(), pods.GetIndexer()
	b.synced = []cache.InformerSynced{nodes.Informer().HasSynced, pods.HasSynced}
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: b.ranges.deleted})
	return err
}

// known is why the cluster is not known, nil if it is.
func (b *Bounds) known() error {
	if b.nodes == nil {
		return errNotYet()
	}
	for _, synced := range b.synced {
		if !synced() {
			return errNotYet()
		}
	}
	return nil
}

func errNotYet() error {
	return apierrors.NewServerTimeout(core.Resource("nodes"), "judge", 1)
}

// plugin judges beside one of upstream's what nodes send.
type plugin struct {
	admission.Interface
	bounds *Bounds
}

// Admit implements admission.MutationInterface.
func (p *plugin) Admit(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if node, ok := nodeOf(attr.GetUserInfo()); ok {
		if err := p.bounds.trim(ctx, node, attr); err != nil {
			return refused(attr, err)
		}
	}
	if m, ok := p.Interface.(admission.MutationInterface); ok {
		return m.Admit(ctx, attr, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface: what webhooks have made of an object is
// what counts.
func (p *plugin) Validate(ctx context.Context, attr admission.Attributes, o admission.ObjectInterfaces) error {
	if node, ok := nodeOf(attr.GetUserInfo()); ok {
		if err := p.bounds.judge(ctx, node, attr); err != nil {
			return refused(attr, err)
		}
	}
	if v, ok := p.Interface.(admission.ValidationInterface); ok {
		if err := v.Validate(ctx, attr, o); err != nil {
			return err
		}
	}
	return p.bounds.ends(ctx, attr)
}

// ends ends the certificates of a node before its Node goes, whoever deletes it: a deletion
// that then fails has an agent join again, and one that succeeds leaves nobody who could make
// the Node anew.
func (b *Bounds) ends(ctx context.Context, attr admission.Attributes) error {
	if attr.GetOperation() != admission.Delete || attr.GetResource().GroupResource() != core.Resource("nodes") ||
		attr.GetSubresource() != "" || attr.IsDryRun() || b.o.End == nil {
		return nil
	}
	node, ok := attr.GetOldObject().(*core.Node)
	if !ok || node == nil {
		return nil // of a collection, before its objects are known: each of them is asked about
	}
	if _, copied := node.Labels[nodecopies.Label]; copied {
		return nil
	}
	if err := b.o.End(ctx, node.Name); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("ending the certificates of the node first: %w", err))
	}
	return nil
}

// refused passes on what is not a verdict.
func refused(attr admission.Attributes, err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return admission.NewForbidden(attr, err)
}

// nodeOf is the node that a user is. One without a name is none that NodeRestriction lets in.
func nodeOf(u user.Info) (string, bool) {
	if u == nil || !space.IsSystem(space.TenantOf(u)) {
		return "", false
	}
	node, ok := nodeidentifier.NewDefaultNodeIdentifier().NodeIdentity(u)
	return node, ok
}

// judge looks at what a node would store. What is not named here is upstream's to judge.
func (b *Bounds) judge(ctx context.Context, node string, attr admission.Attributes) error {
	resource, sub := attr.GetResource().GroupResource(), attr.GetSubresource()
	switch resource {
	case core.Resource("nodes"):
		if attr.GetOperation() == admission.Delete {
			return errors.New("a node does not delete nodes, itself neither")
		}
		return b.judgeNode(ctx, node, attr)
	case core.Resource("pods"):
		switch {
		case sub == "status":
			return b.judgePod(ctx, node, attr)
		case sub == "" && attr.GetOperation() == admission.Create:
			return judgeMade(attr.GetNamespace())
		}
	}
	return nil
}

// judgeMade keeps the pods that nodes make, those of their files among them, out of the spaces
// of tenants: their Services would send traffic to them.
func judgeMade(namespace string) error {
	if tenant, _ := space.SplitNamespace(namespace); !space.IsSystem(tenant) {
		return errors.New("a node makes no pods in the space of a tenant")
	}
	return nil
}
