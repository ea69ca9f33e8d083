package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// Partitions are those of the cluster.
type Partitions interface {
	// Self is the partition of this server.
	Self() string
	// Several reports whether there is more than one.
	Several() bool
	// Has reports whether the cluster has a partition.
	Has(partition string) bool
	// Elsewhere is the other partition that is known to have a tenant, "" for none, and the
	// UID of its Tenant, "" until that is made.
	Elsewhere(tenant string) (partition string, uid types.UID)
	// Find asks the home partition for the placement of a tenant that is not known.
	Find(ctx context.Context, tenant string) (*partitionapi.TenantPlacement, error)
	// Received takes the mark off a request that another partition sent on.
	Received(req *http.Request) *Mark
	// Forward sends a request on.
	Forward(w http.ResponseWriter, req *http.Request, to Target)
}

// Mark is what another partition says of a request that it sent on.
type Mark struct {
	// Partition sent it.
	Partition string
	// TenantUID is the Tenant of its user, "" for users of the system and for those whom
	// this server has to authenticate.
	TenantUID types.UID
	// Tenant is that of its user, "" if this server has to authenticate them.
	Tenant string
	// Address is where the request came from, "" if that is not said.
	Address string
}

// Target is where a request goes, and for whom.
type Target struct {
	Partition string
	// User is who asks; nil leaves it to the other side, which gets the bearer token.
	User user.Info
	// TenantUID is the Tenant of the user.
	TenantUID types.UID
	// Long requests take as long as the client likes.
	Long bool
}

// others sends requests to other partitions. Without partitions nothing goes anywhere.
type others struct {
	partitions Partitions
	tenants    Tenants
}

// passOn sends a request on whose user this server cannot know: the token of a service
// account is good in its partition only, and the provider of a tenant is known where the tenant
// is. What the token or the path says decides the way and nothing else. It reports whether it did.
func (o *others) passOn(w http.ResponseWriter, req *http.Request, r *request, entry *admission) bool {
	if o.partitions == nil || r.mark != nil {
		return false
	}
	tenant, ok := tenantOfToken(req.Header.Get("Authorization"))
	if !ok {
		if tenant = r.inPath; tenant == "" || !isWebToken(req.Header.Get("Authorization")) {
			return false
		}
	}
	to := r.partition
	switch {
	case to != "":
		if !o.partitions.Has(to) {
			return false
		}
	default:
		to, _ = o.partitions.Elsewhere(tenant)
	}
	if to == "" || to == o.partitions.Self() {
		return false
	}
	entry.sentOn() // the request waits for its seat where it is served
	o.partitions.Forward(w, req, Target{Partition: to, Long: r.long})
	return true
}

// isWebToken reports whether somebody shows a JSON web token.
func isWebToken(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	return strings.EqualFold(scheme, "Bearer") && strings.Count(token, ".") == 2
}

// tenantOfToken reads, and does not believe, of which tenant the service account of a token
// is.
func tenantOfToken(authorization string) (tenant string, ok bool) {
	scheme, token, _ := strings.Cut(authorization, " ")
	var claims struct {
		Subject string `json:"sub"`
	}
	if !strings.EqualFold(scheme, "Bearer") || !authn.Unverified(token, &claims) {
		return "", false
	}
	tenant, _ = space.SplitUser(claims.Subject)
	return tenant, tenant != ""
}

// elsewhere is the step that sends a request on which is for another partition. Comes in: whose
// the request is and what it asks for. Goes out: whether it went, or why it can go nowhere.
func (o *others) elsewhere(w http.ResponseWriter, req *http.Request, r *request, entry *admission) (bool, error) {
	p := o.partitions
	switch {
	case p == nil:
		return false, nil
	case r.mark != nil:
		// A tenant that goes and comes again meanwhile is another one.
		if uid, err := authn.Life(req.Context()); err == nil && r.mark.TenantUID != "" && uid != r.mark.TenantUID {
			return false, apierrors.NewUnauthorized("the credentials are of a former tenant of this name")
		}
		return false, nil
	}
	to := Target{User: r.user, Long: r.long}
	var err error
	if to.Partition, to.TenantUID, err = o.partitionOf(req, r); err != nil || to.Partition == "" {
		return false, err
	}
	entry.sentOn()
	p.Forward(w, req, to)
	return true, nil
}

// partitionOf is the other partition that a request is for, "" for this one.
func (o *others) partitionOf(req *http.Request, r *request) (partition string, uid types.UID, err error) {
	p := o.partitions
	if !space.IsSystem(r.userTenant) {
		if r.partition != "" {
			return "", "", apierrors.NewForbidden(schema.GroupResource{Resource: partitionapi.Partitions}, r.partition,
				errors.New("partitions are for the administrators of the cluster"))
		}
		partition, uid = p.Elsewhere(r.userTenant)
		if partition != "" && uid == "" {
			return "", "", noTenant(r.userTenant) // it is not made yet
		}
		return partition, uid, nil
	}
	if r.partition != "" {
		switch {
		case r.partition == p.Self():
			return "", "", nil
		case !p.Has(r.partition):
			return "", "", apierrors.NewNotFound(schema.GroupResource{Resource: partitionapi.Partitions}, r.partition)
		}
		return r.partition, "", nil
	}
	if r.directory() && p.Self() != partitionapi.Home {
		return partitionapi.Home, "", nil
	}
	tenant := ""
	if p.Several() {
		tenant = r.about()
	}
	if tenant == "" {
		return "", "", nil
	}
	if partition, _ = p.Elsewhere(tenant); partition != "" {
		return partition, "", nil
	}
	if r.resource != nil && r.resource.group == "" && r.resource.resource == tenantapi.Resource {
		// Not by the tenants of this server, which ask this very question to find out. What
		// home cannot be asked about is answered from what is here.
		if _, err := p.Find(req.Context(), tenant); err != nil {
			return "", "", nil //nolint:nilerr // see above
		}
	} else if _, err := o.tenants.Get(req.Context(), tenant); err != nil {
		return "", "", unavailable(tenant, err)
	}
	partition, _ = p.Elsewhere(tenant)
	return partition, "", nil
}

func unavailable(tenant string, err error) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("it cannot be found out now which partition has tenant %s: %v",
		tenant, err))
}

// directory reports whether a request is about what the home partition keeps.
func (r *request) directory() bool {
	return r.space == "" && r.resource != nil && r.resource.group == "" &&
		(r.resource.resource == partitionapi.Partitions || r.resource.resource == partitionapi.Placements)
}

// about is the tenant that a request of a user of the system is about, "" for none: by its
// path, by a composite name in it, or because it is the Tenant itself. New Tenants, and
// those that are to go, are for whoever is asked (package placement).
func (r *request) about() string {
	tenant := r.space
	if tenant == "" && r.resource != nil && !ofPartition(r.user) {
		switch asked := r.resource; {
		case asked.namespace != "":
			tenant, _ = space.SplitNamespace(asked.namespace)
		case asked.isNamespace():
			tenant, _ = space.SplitNamespace(asked.name)
		case asked.group == "" && asked.resource == tenantapi.Resource:
			if asked.verb != "delete" {
				tenant = asked.name
			}
		default:
			tenant, _ = space.SplitClusterName(asked.name)
		}
	}
	if space.IsSystem(tenant) || tenant == space.All {
		return ""
	}
	return tenant
}

// ofPartition tells users who work with what is in this partition: its controllers and
// nodes, and the servers of other partitions.
func ofPartition(u user.Info) bool {
	if authn.IsController(u) {
		return true
	}
	for _, g := range u.GetGroups() {
		if g == user.NodesGroup || g == partitionapi.Group {
			return true
		}
	}
	return false
}
