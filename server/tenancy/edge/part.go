package edge

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// part takes the header by which a user of the system asks for the part of a service
// group. Of tenants it means nothing: what they see is complete.
func (e *Edge) part(req *http.Request, r *request) (*http.Request, error) {
	group := req.Header.Get(partitionapi.PartHeader)
	if group == "" {
		return req, nil
	}
	req.Header.Del(partitionapi.PartHeader)
	switch {
	case !space.IsSystem(r.userTenant):
		return req, nil
	case group != e.opts.Group:
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"%s: this server holds the part of service group %q, not that of %q: ask a server of that group",
			partitionapi.PartHeader, e.opts.Group, group))
	}
	return req.WithContext(partitionapi.WithPart(req.Context())), nil
}
