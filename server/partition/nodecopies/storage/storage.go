package storage

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	nodestore "k8s.io/kubernetes/pkg/registry/core/node/storage"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/nodeapi/bootstrap"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// Extend extends upstream's storage of nodes, among others by path. The importer is a user
// of this name.
func Extend(storage map[string]rest.Storage, importer string) error {
	nodes, ok := storage["nodes"].(*nodestore.REST)
	if !ok {
		return fmt.Errorf("nodes are stored as %T, which knows no copies", storage["nodes"])
	}
	status, ok := storage["nodes/status"].(*nodestore.StatusREST)
	if !ok {
		return fmt.Errorf("the status of nodes is stored as %T, which knows no copies", storage["nodes/status"])
	}
	if nodes.BeginCreate != nil || nodes.BeginUpdate != nil {
		return errors.New("something else begins the creation of nodes already")
	}
	k := keeper{importer}
	nodes.BeginCreate, nodes.BeginUpdate = k.create, k.update
	storage["nodes/status"] = &statusREST{status, k}
	return nil
}

// keeper keeps from a node what is the importer's to say.
type keeper struct{ importer string }

func nothing(context.Context, bool) {}

func (k keeper) trusts(ctx context.Context) bool {
	u, ok := request.UserFrom(ctx)
	return ok && u.GetName() == k.importer && space.IsSystem(space.TenantOf(u)) && !bootstrap.Impersonated(ctx)
}

// create sets UID and time of a copy. Upstream calls it when it has filled in its own.
func (k keeper) create(
	ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions,
) (genericregistry.FinishFunc, error) {
	n, ok := obj.(*core.Node)
	if !ok {
		return nothing, nil
	}
	uid, asked := n.Annotations[nodecopies.UIDAnnotation]
	created, dated := n.Annotations[nodecopies.CreatedAnnotation]
	if !k.trusts(ctx) {
		if asked || dated {
			return nil, forbidden(n, fmt.Errorf("only the importer of nodes sets the annotations %s and %s",
				nodecopies.UIDAnnotation, nodecopies.CreatedAnnotation))
		}
		return nothing, k.keeps(ctx, n, &core.Node{})
	}
	delete(n.Annotations, nodecopies.UIDAnnotation)
	delete(n.Annotations, nodecopies.CreatedAnnotation)
	if len(n.Annotations) == 0 {
		n.Annotations = nil
	}
	where := field.NewPath("metadata", "annotations")
	if asked {
		if !canonicalUID.MatchString(uid) || strings.Trim(uid, "0-") == "" {
			return nil, apierrors.NewInvalid(core.Kind("Node"), n.Name, field.ErrorList{field.Invalid(
				where.Key(nodecopies.UIDAnnotation), uid, "must be a UUID in small letters, which is not zero")})
		}
		n.UID = types.UID(uid)
	}
	if dated {
		at, err := time.Parse(time.RFC3339, created)
		if err != nil {
			return nil, apierrors.NewInvalid(core.Kind("Node"), n.Name, field.ErrorList{field.Invalid(
				where.Key(nodecopies.CreatedAnnotation), created, "must be a time in RFC 3339")})
		}
		n.CreationTimestamp = metav1.NewTime(at)
	}
	return nothing, nil
}

// canonicalUID is the one form of a UID that the API server itself makes.
var canonicalUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

func (k keeper) update(
	ctx context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions,
) (genericregistry.FinishFunc, error) {
	return nothing, k.keeps(ctx, obj, old)
}

// keeps refuses a change of the label by anybody else.
func (k keeper) keeps(ctx context.Context, obj, old runtime.Object) error {
	n, ok := obj.(*core.Node)
	was, ok2 := old.(*core.Node)
	if !ok || !ok2 {
		return nil
	}
	before, had := was.Labels[nodecopies.Label]
	now, has := n.Labels[nodecopies.Label]
	if (before == now && had == has) || k.trusts(ctx) {
		return nil
	}
	return forbidden(n, fmt.Errorf("only the importer of nodes sets, changes and removes the label %s",
		nodecopies.Label))
}

func forbidden(n *core.Node, err error) error {
	return apierrors.NewForbidden(core.Resource("nodes"), n.Name, err)
}

// statusREST is that of upstream, which lets metadata be changed too.
type statusREST struct {
	*nodestore.StatusREST
	k keeper
}

// Update implements rest.Updater.
func (r *statusREST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.StatusREST.Update(ctx, name, info, create, func(ctx context.Context, obj, old runtime.Object) error {
		if update != nil {
			if err := update(ctx, obj, old); err != nil {
				return err
			}
		}
		return r.k.keeps(ctx, obj, old)
	}, forceCreate, options)
}
