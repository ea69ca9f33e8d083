package edge

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// part takes the headers by which a user of the system asks for the part of a service
// group, or for its stream. Of tenants they mean nothing: what they see is complete.
func (e *Edge) part(w http.ResponseWriter, req *http.Request, r *request) (*http.Request, error) {
	group, stream := req.Header.Get(partitionapi.PartHeader), req.Header.Get(partitionapi.StreamHeader)
	if group == "" && stream == "" {
		return req, nil
	}
	req.Header.Del(partitionapi.PartHeader)
	req.Header.Del(partitionapi.StreamHeader)
	switch {
	case !space.IsSystem(r.userTenant):
		return req, nil
	case group != "" && stream != "":
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s and %s: want one of them",
			partitionapi.PartHeader, partitionapi.StreamHeader))
	case group != "" && group != e.opts.Group:
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"%s: this server holds the part of service group %q, not that of %q: ask a server of that group",
			partitionapi.PartHeader, e.opts.Group, group))
	case group != "":
		return req.WithContext(partitionapi.WithPart(req.Context())), nil
	case stream != partitionapi.Rest && len(validation.IsDNS1123Label(stream)) > 0:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s: %q is no ID of a service group, nor %q",
			partitionapi.StreamHeader, stream, partitionapi.Rest))
	case !r.long:
		return req, nil // lists are complete
	}
	return req.WithContext(partitionapi.WithStream(req.Context(), partitionapi.Stream{
		Group: stream, Split: func() { w.Header().Set(partitionapi.StreamHeader, stream) },
	})), nil
}
