package route

import (
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/codec"
)

// extraPartition is the attribute of a user that names the partition that knew their
// token: users of one name in two partitions are two users. It is on this node only.
const extraPartition = "a4s.io/partition"

// tokenReview asks one partition after the other whose token it is.
func (t *table) tokenReview(q *origin.Request) (*http.Response, error) {
	body, err := codec.ReadAll(q.HTTP.Body)
	if err != nil {
		return nil, err
	}
	var last, failed *http.Response
	for _, p := range t.all {
		one := copyOf(q)
		one.SetBody(body)
		resp, err := p.do(one)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode/100 != 2 {
			failed = resp
			continue
		}
		known, err := p.claimUser(resp)
		if err != nil {
			return nil, fmt.Errorf("reading the review of a token by partition %s: %w", p.Name, err)
		}
		if last = resp; known {
			return resp, nil
		}
	}
	if failed != nil {
		return failed, nil // it may have known the token
	}
	return last, nil
}

// claimUser marks the user of a review as one of the partition, if it knew the token.
func (p *partition) claimUser(resp *http.Response) (known bool, err error) {
	err = codec.Change(resp, func(obj runtime.Object) (bool, error) {
		review, ok := obj.(*authenticationv1.TokenReview)
		if !ok {
			return false, fmt.Errorf("it is a %T", obj)
		}
		if known = review.Status.Authenticated; !known {
			return false, nil
		}
		if review.Status.User.Extra == nil {
			review.Status.User.Extra = map[string]authenticationv1.ExtraValue{}
		}
		review.Status.User.Extra[extraPartition] = authenticationv1.ExtraValue{p.Name}
		return true, nil
	})
	return known, err
}

// reviewByAny asks the resource partition, and the others in turn while none answers. What the
// resource partition said counts if nobody does.
func (t *table) reviewByAny(q *origin.Request, body []byte) (*http.Response, error) {
	rp := t.resourcePartition()
	asked := []*partition{rp}
	for _, p := range t.all {
		if p != rp {
			asked = append(asked, p)
		}
	}
	var first *http.Response
	for _, p := range asked {
		one := copyOf(q)
		one.SetBody(body)
		resp, err := p.do(one)
		if err != nil || resp.StatusCode < http.StatusInternalServerError {
			return resp, err
		}
		if first == nil {
			first = resp
			continue
		}
		_ = resp.Body.Close() // nobody reads it
	}
	return first, nil
}

// accessReview asks the partition that knew the user's token what they may do, and the
// resource partition about users without one, as the servers of all partitions are. While
// that does not answer the tenant partitions are asked, for their servers ask the node for
// logs and the like, which they could not otherwise.
func (t *table) accessReview(q *origin.Request) (*http.Response, error) {
	q = copyOf(q)
	body, err := codec.ReadAll(q.HTTP.Body)
	if err != nil {
		return nil, err
	}
	info, err := codec.Serializer(q.ContentType)
	if err != nil {
		return refuse(q, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, err.Error())
	}
	obj, _, err := info.Serializer.Decode(body, nil, nil)
	review, ok := obj.(*authorizationv1.SubjectAccessReview)
	if err != nil || !ok {
		return refuse(q, http.StatusBadRequest, metav1.StatusReasonBadRequest, "it is no review of an access")
	}
	of, ok := review.Spec.Extra[extraPartition]
	if !ok {
		return t.reviewByAny(q, body)
	}
	if len(of) != 1 || t.byName[of[0]] == nil {
		return unavailable(q, fmt.Sprintf("there is no partition %q, of which the user is", of))
	}
	delete(review.Spec.Extra, extraPartition)
	if body, err = codec.Encode(info, review); err != nil {
		return nil, err
	}
	q.SetBody(body)
	return t.byName[of[0]].do(q)
}
