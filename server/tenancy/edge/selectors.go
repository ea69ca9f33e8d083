package edge

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// What a list, a watch or the deletion of a collection may ask for. Upstream compares
// each object with each requirement, and does not stop when the client goes.
const (
	// longestQuery is in bytes. It is looked at before anybody is authenticated.
	longestQuery = 64 << 10
	// mostRequirements are those of both selectors together, mostValues the values of
	// all their sets ("x in (a,b)").
	mostRequirements = 200
	mostValues       = 2000
)

// boundQuery is the step that refuses what is too long to be read. Comes in: what the request
// says. Goes out: nothing, or why it is refused.
func (r *request) boundQuery(req *http.Request) error {
	if r.resource == nil || !r.resource.selects || len(req.URL.RawQuery) <= longestQuery {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestURITooLong, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("the query of the request has %d bytes: %s takes at most %d; select by fewer values, "+
			"or in several requests", len(req.URL.RawQuery), r.resource.verb, longestQuery),
	}}
}

// boundSelectors is the step that refuses selectors that are too much work. Comes in: a request
// of a tenant's user. Goes out: nothing, or why it is refused. What cannot be read is left to
// upstream, which refuses it.
func (r *request) boundSelectors(req *http.Request) error {
	if r.resource == nil || req.URL.RawQuery == "" || !r.resource.selects {
		return nil
	}
	query := req.URL.Query()
	count, values := 0, 0
	if s := query.Get("labelSelector"); s != "" {
		requirements, err := labels.ParseToRequirements(s)
		if err != nil {
			return nil //nolint:nilerr // upstream says what is wrong
		}
		count = len(requirements)
		for i := range requirements {
			values += len(requirements[i].ValuesUnsorted())
		}
	}
	if s := query.Get("fieldSelector"); s != "" {
		selector, err := fields.ParseSelector(s)
		if err != nil {
			return nil //nolint:nilerr // upstream says what is wrong
		}
		count += len(selector.Requirements())
	}
	switch {
	case count > mostRequirements:
		return apierrors.NewBadRequest(fmt.Sprintf("the selectors have %d requirements: %s takes at most %d; "+
			"select by fewer, or in several requests", count, r.resource.verb, mostRequirements))
	case values > mostValues:
		return apierrors.NewBadRequest(fmt.Sprintf("the label selector has %d values: %s takes at most %d; "+
			"select by fewer, or in several requests", values, r.resource.verb, mostValues))
	}
	return nil
}
