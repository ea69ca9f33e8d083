package tokenreview

import (
	"context"
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/authentication"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

func TestCreate(t *testing.T) {
	inner := authn.Wrap(authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		name := "system:serviceaccount:default.t2:web"
		switch req.Header.Get("Authorization") {
		case "Bearer one":
			name = "system:serviceaccount:default.t1:web"
		case "Bearer sys":
			name = "system:serviceaccount:kube-system:dns"
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}, Audiences: authenticator.Audiences{"api"}},
			true, nil
	}), authn.Options{})
	r := New(inner, []string{"api"})
	for _, c := range []struct {
		space, token, audience string
		want                   string
	}{
		{"t1", "one", "", "system:serviceaccount:default.t1:web"},
		{"t1", "two", "", ""},
		{"t1", "sys", "", ""},
		{"t1", "two", "other", ""}, // would be an error for a token of their own
		{"system", "sys", "", "system:serviceaccount:kube-system:dns"},
		{"", "two", "", "system:serviceaccount:default.t2:web"},
	} {
		ctx := t.Context()
		if c.space != "" {
			ctx = space.WithTenant(ctx, c.space)
		}
		review := &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: c.token}}
		if c.audience != "" {
			review.Spec.Audiences = []string{c.audience}
		}
		got, err := r.Create(ctx, review, nil, nil)
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		status := got.(*authentication.TokenReview).Status
		if status.User.Username != c.want || status.Authenticated != (c.want != "") {
			t.Errorf("%v: got %+v", c, status)
		}
	}
}

// TestReviewsEndWithTheirRequests: what waits for a provider waits no longer than who asks for the review.
func TestReviewsEndWithTheirRequests(t *testing.T) {
	for _, of := range []string{"", "t1"} {
		ctx, cancel := context.WithCancel(t.Context())
		r := New(authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
			cancel()
			select {
			case <-req.Context().Done():
				return nil, false, req.Context().Err()
			case <-t.Context().Done():
				return nil, false, nil
			}
		}), []string{"api"})
		if of != "" {
			ctx = space.WithTenant(ctx, of)
		}
		review := &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: "x"}}
		got, err := r.Create(ctx, review, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if status := got.(*authentication.TokenReview).Status; status.Authenticated || status.Error == "" {
			t.Errorf("in %q: %+v", of, status)
		}
	}
}
