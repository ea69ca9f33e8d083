package nodeidentity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/failure"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// PartitionOf is the partition whose node has a certificate with these groups.
func PartitionOf(groups []string) (string, error) {
	of := ""
	for _, g := range groups {
		name, ok := strings.CutPrefix(g, pki.NodePartitionPrefix)
		switch {
		case !ok:
		case name == "" || of != "" && of != name:
			return "", errors.New("the certificate of the node is of several partitions, or of one without a name")
		default:
			of = name
		}
	}
	if of == "" {
		of = pki.HomePartition
	}
	return of, nil
}

// Options are what a Guard works with.
type Options struct {
	// Self is the partition of this server, and Several whether the cluster has others.
	Self    string
	Several func() bool
	// Ask asks another partition which one has a node, "" for none; nil if this one has
	// copies of all nodes.
	Ask func(ctx context.Context, node string) (partition string)
	// Alive returns why the certificate of a life of an own node is not good any more; nil
	// for always good.
	Alive func(node, life string) error
	// Authenticated is the user who sent the request of a context, whomever they impersonate;
	// nil if that is not known.
	Authenticated func(context.Context) user.Info
}

// Guard judges nodes.
type Guard struct {
	o      Options
	nodes  corelisters.NodeLister
	synced func() bool

	holds holds
}

// New returns a guard. Follow must be called before it judges.
func New(o Options) *Guard { return &Guard{o: o} }

// Follow takes the nodes of this partition, copies among them, from an informer that runs
// anyway.
func (g *Guard) Follow(nodes coreinformers.NodeInformer) error {
	g.nodes, g.synced = nodes.Lister(), nodes.Informer().HasSynced
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, now any) { g.changed(before, now) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				g.Look(name)
			}
		},
	})
	return err
}

// owner is the partition that has a node, "" if none is known.
func (g *Guard) owner(name string) (string, error) {
	if g.synced == nil || !g.synced() {
		return "", errNotYet
	}
	n, err := g.nodes.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", err
	}
	if partition, ok := n.Labels[nodecopies.Label]; ok {
		return partition, nil
	}
	return g.o.Self, nil
}

// Count is how many nodes each partition has, of those that this one knows, itself among
// them; nil while it does not know.
func (g *Guard) Count() map[string]int {
	if g.synced == nil || !g.synced() {
		return nil
	}
	all, err := g.nodes.List(labels.Everything())
	if err != nil {
		return nil
	}
	out := map[string]int{g.o.Self: 0}
	for _, n := range all {
		out[cmp.Or(n.Labels[nodecopies.Label], g.o.Self)]++
	}
	return out
}

// refused is why a node is refused, as against a failure to find out.
type refused struct{ why string }

func (r *refused) Error() string { return r.why }

// Refused reports whether an error of Check or Own judges the node: others may be over soon.
func Refused(err error) bool {
	r := (*refused)(nil)
	return errors.As(err, &r)
}

// errNotYet is that of a server that has just started.
var errNotYet = errors.New("this server has just started and does not know the nodes yet")

// Check returns why the certificate of a node with these groups is not good here.
func (g *Guard) Check(node string, groups []string) error {
	of, err := PartitionOf(groups)
	if err != nil {
		return &refused{err.Error()}
	}
	if of == g.o.Self && !g.o.Several() {
		return nil
	}
	owner, err := g.owner(node)
	switch {
	case err != nil:
		return err
	case owner == of, owner == "" && of == g.o.Self:
		return nil
	case owner == "":
		return &refused{fmt.Sprintf("partition %s does not know node %q, and the certificate is one of partition %s",
			g.o.Self, node, of)}
	}
	return &refused{fmt.Sprintf("node %q is of partition %s, and the certificate is one of partition %s",
		node, owner, of)}
}

// Own returns why a certificate with these groups is not of a node of this partition.
func (g *Guard) Own(groups []string) error {
	if of, err := PartitionOf(groups); err != nil || of != g.o.Self {
		return &refused{fmt.Sprintf("that is for nodes of partition %s, and the certificate is one of partition %s",
			g.o.Self, of)}
	}
	return nil
}

// Elsewhere is the other partition that is known to have a node, "" for none. What cannot
// be found out is not known: the importers report a name that two have.
func (g *Guard) Elsewhere(ctx context.Context, node string) (partition string) {
	if !g.o.Several() {
		return ""
	}
	owner, err := g.owner(node)
	if err == nil && owner == "" && g.o.Ask != nil {
		owner = g.o.Ask(ctx, node)
	}
	if err != nil || owner == g.o.Self {
		return ""
	}
	return owner
}

// Authorizer refuses requests that nodes send with a certificate that is not good here.
func (g *Guard) Authorizer(inner authorizer.Authorizer) authorizer.Authorizer {
	return &guarded{inner, g}
}

type guarded struct {
	authorizer.Authorizer
	guard *Guard
}

// Authorize implements authorizer.Authorizer.
func (a *guarded) Authorize(ctx context.Context, attr authorizer.Attributes) (authorizer.Decision, string, error) {
	if reason, err := a.guard.refuse(ctx, attr); reason != "" || err != nil {
		return authorizer.DecisionDeny, reason, err
	}
	return a.Authorizer.Authorize(ctx, attr)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (a *guarded) ConditionsAwareAuthorize(
	ctx context.Context, attr authorizer.Attributes,
) authorizer.ConditionsAwareDecision {
	if reason, err := a.guard.refuse(ctx, attr); reason != "" || err != nil {
		return authorizer.ConditionsAwareDecisionFromParts(authorizer.DecisionDeny, reason, err)
	}
	return a.Authorizer.ConditionsAwareAuthorize(ctx, attr)
}

// refuse returns why a request is refused, or why that cannot be found out.
func (g *Guard) refuse(ctx context.Context, attr authorizer.Attributes) (string, error) {
	who := g.sender(ctx, attr)
	if who == nil || !isNode(who) {
		return "", nil
	}
	err := g.judge(who)
	if Refused(err) || errors.Is(err, nodelife.ErrDead) {
		return err.Error(), nil
	}
	return "", err
}

// startAgain is after how many seconds a node is to ask a server again that has just started.
const startAgain = 1

// Handler answers nodes with 503 while they cannot be judged, and with 401 when their
// certificate is dead; a request that runs when it dies ends. An authorizer that cannot judge
// is a 500 to clients, which they do not try again. It stands behind the edge, which knows
// the user.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who := g.o.Authenticated(req.Context())
		if who == nil || !isNode(who) {
			next.ServeHTTP(w, req)
			return
		}
		var refusal *apierrors.StatusError
		switch why := g.judge(who); {
		case errors.Is(why, errNotYet) || errors.Is(why, nodelife.ErrNotYet):
			refusal = failure.Again(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, startAgain,
				why.Error())
		case errors.Is(why, nodelife.ErrDead):
			refusal = apierrors.NewUnauthorized(why.Error())
		default: // the authorizer says the rest
			ctx, done := g.Hold(req.Context(), nodeName(who), life(who))
			defer done()
			next.ServeHTTP(w, req.WithContext(ctx))
			return
		}
		failure.Write(w, refusal)
	})
}

// judge returns why the certificate of a node is not good.
func (g *Guard) judge(who user.Info) error {
	if err := g.Check(nodeName(who), who.GetGroups()); err != nil {
		return err
	}
	return g.Alive(nodeName(who), life(who))
}

// sender is who sent a request. Who skipped the edge is known to the chain only.
func (g *Guard) sender(ctx context.Context, attr authorizer.Attributes) user.Info {
	if who := g.o.Authenticated(ctx); who != nil {
		return who
	}
	if who, ok := request.UserFrom(ctx); ok {
		return who
	}
	return attr.GetUser()
}

func isNode(u user.Info) bool {
	if !strings.HasPrefix(u.GetName(), pki.NodeUserPrefix) || !space.IsSystem(space.TenantOf(u)) {
		return false
	}
	for _, g := range u.GetGroups() {
		if g == user.NodesGroup {
			return true
		}
	}
	return false
}
