package edge

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// namedInMessage is how many tenants the message names of which somebody is a member; the causes
// of the refusal name all.
const namedInMessage = 20

// undecided reports whether the user is a member of several tenants and has chosen none.
func (r *request) undecided() bool { return r.members != nil && r.userTenant == space.All }

// chosen is the step that has a member of several tenants say as whose user they ask. Comes in:
// whose the request is. Goes out: nothing, or the tenants between which they have to choose. From
// here on they are the user of one tenant, and nothing else is known of them.
func (r *request) chosen() error {
	if !r.undecided() {
		return nil
	}
	shown, more := r.members, ""
	if len(shown) > namedInMessage {
		shown, more = shown[:namedInMessage], fmt.Sprintf(" and %d more", len(shown)-namedInMessage)
	}
	err := apierrors.NewBadRequest(fmt.Sprintf("you are a member of several tenants (%s%s), and the URL "+
		"names none of them: write /tenants/NAME behind the address of the server in your kubeconfig "+
		"(server: https://ADDRESS:PORT/tenants/%s), or use \"a4s kubectl --tenant %s\"",
		strings.Join(shown, ", "), more, r.members[0], r.members[0]))
	err.ErrStatus.Details = &metav1.StatusDetails{Kind: tenantapi.Resource}
	for _, name := range r.members {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
			metav1.StatusCause{Type: tenantapi.CauseMember, Message: name})
	}
	return err
}
