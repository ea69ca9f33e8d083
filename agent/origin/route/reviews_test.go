package route

import (
	"encoding/json"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/agent/origin/codec"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

const events = "/api/v1/namespaces/"

// created answers with what came.
func created(a partitiontest.Asked) (int, runtime.Object) {
	info, err := codec.Serializer(a.ContentType)
	if err != nil {
		return http.StatusUnsupportedMediaType, codec.Failure(http.StatusUnsupportedMediaType, "", err.Error())
	}
	obj, _, err := info.Serializer.Decode(a.Body, nil, nil)
	if err != nil {
		return http.StatusBadRequest, codec.Failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	return http.StatusCreated, obj
}

func event(namespace, kind, name string) *corev1.Event {
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + ".17"},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, Namespace: namespace, ResourceVersion: "7"}}
	if kind == "Node" {
		e.InvolvedObject.Namespace = ""
	}
	return e
}

func TestEventsGoToWhatTheyAreAbout(t *testing.T) {
	c := newCluster(t, Options{})
	for _, tc := range []struct {
		e         *corev1.Event
		to        *partitiontest.Server
		namespace string
	}{
		{event("default", "Node", nodeName), c.rp, "default"},
		{event("default", "Pod", nodeName), c.home, "default"},
		{event("kube-system", "Pod", "agent"), c.home, "kube-system"},
		{event("kube-system.tp2.system", "Pod", "agent"), c.tp2, "kube-system"},
		{event("default.t2", "Pod", "web"), c.tp2, "default.t2"},
		{event("default.t1", "Node", nodeName), c.home, "default.t1"}, // no event of the node is there
	} {
		path := events + tc.namespace + "/events"
		tc.to.Answer("POST", path, created)
		before := len(tc.to.Asked("POST", path))
		got, err := c.api.CoreV1().Events(tc.e.Namespace).Create(t.Context(), tc.e, metav1.CreateOptions{})
		if err != nil || len(tc.to.Asked("POST", path)) != before+1 {
			t.Errorf("an event in %s: %v, asked %v", tc.e.Namespace, err, tc.to.Asked("POST", path))
			continue
		}
		if got.Namespace != tc.e.Namespace || got.InvolvedObject.Namespace != tc.e.InvolvedObject.Namespace {
			t.Errorf("an event in %s comes back as %v", tc.e.Namespace, got)
		}
		if got.InvolvedObject.ResourceVersion != "7" {
			t.Errorf("the version of a server is lost: %v", got)
		}
	}

	list, err := c.api.CoreV1().Pods("").List(t.Context(), ownPods)
	if err != nil {
		t.Fatal(err)
	}
	e := event("default.t2", "Pod", "web")
	e.InvolvedObject.ResourceVersion = list.Items[0].ResourceVersion
	got, err := c.api.CoreV1().Events("default.t2").Create(t.Context(), e, metav1.CreateOptions{})
	if err != nil || got.InvolvedObject.ResourceVersion != "" {
		t.Errorf("an event at a version of this node: %v, %v", got, err)
	}
}

// TestPatchedEvents is about an event that comes again.
func TestPatchedEvents(t *testing.T) {
	c := newCluster(t, Options{})
	ofNode, ofPod := events+"default/events/"+nodeName+".17", events+"default/events/"+nodeName+".x.18"
	missing := func(partitiontest.Asked) (int, runtime.Object) {
		return http.StatusNotFound, codec.Failure(http.StatusNotFound, metav1.StatusReasonNotFound, "no such event")
	}
	answer := event("default", "Pod", "x")
	answer.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}
	c.rp.Answer("PATCH", ofNode, ok(answer))
	c.rp.Answer("PATCH", ofPod, missing)
	c.home.Answer("PATCH", ofPod, ok(answer))
	patch := func(name string) error {
		_, err := c.api.CoreV1().Events("default").Patch(t.Context(), name, types.StrategicMergePatchType,
			[]byte(`{"count":2}`), metav1.PatchOptions{})
		return err
	}
	if err := patch(nodeName + ".17"); err != nil || len(c.home.Asked("PATCH", "/")) != 0 {
		t.Errorf("an event of the node: %v, home got %v", err, c.home.Asked("PATCH", "/"))
	}
	if err := patch(nodeName + ".x.18"); err != nil || string(one(t, c.home, "PATCH", ofPod).Body) != `{"count":2}` {
		t.Errorf("an event of a pod whose name begins like the node's: %v", err)
	}
}

// TestEventsOfAPartitionThatIsAway must be answered: the kubelet repeats an event for
// two minutes if the connection breaks, and says no other meanwhile.
func TestEventsOfAPartitionThatIsAway(t *testing.T) {
	c := newCluster(t, Options{})
	c.tp2.Away.Store(true)
	c.rp.Away.Store(true)
	for _, e := range []*corev1.Event{event("default.t2", "Pod", "web"), event("default", "Node", nodeName)} {
		_, err := c.api.CoreV1().Events(e.Namespace).Create(t.Context(), e, metav1.CreateOptions{})
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("an event in %s: %v", e.Namespace, err)
		}
	}
}

func TestReviewsOfTokens(t *testing.T) {
	c := newCluster(t, Options{})
	const tokens, accesses = "/apis/authentication.k8s.io/v1/tokenreviews",
		"/apis/authorization.k8s.io/v1/subjectaccessreviews"
	knows := func(token string) func(partitiontest.Asked) (int, runtime.Object) {
		return func(a partitiontest.Asked) (int, runtime.Object) {
			_, obj := created(a)
			review := obj.(*authenticationv1.TokenReview)
			review.Status.Authenticated = review.Spec.Token == token
			review.Status.User.Username = "system:serviceaccount:kube-system:metrics"
			// A partition may not speak for another.
			review.Status.User.Extra = map[string]authenticationv1.ExtraValue{extraPartition: {"main"}, "other": {"x"}}
			return http.StatusCreated, review
		}
	}
	allows := func(a partitiontest.Asked) (int, runtime.Object) {
		_, obj := created(a)
		review := obj.(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = true
		return http.StatusCreated, review
	}
	c.home.Answer("POST", tokens, knows("of home"))
	c.tp2.Answer("POST", tokens, knows("of tp2"))
	for _, s := range []*partitiontest.Server{c.home, c.tp2, c.rp} {
		s.Answer("POST", accesses, allows)
	}
	review := func(token string) (*authenticationv1.TokenReview, error) {
		return c.api.AuthenticationV1().TokenReviews().Create(t.Context(),
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}},
			metav1.CreateOptions{})
	}
	access := func(extra map[string]authorizationv1.ExtraValue) error {
		_, err := c.api.AuthorizationV1().SubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "u", Extra: extra}},
			metav1.CreateOptions{})
		return err
	}
	for _, tc := range []struct {
		token string
		to    *partitiontest.Server
	}{{"of home", c.home}, {"of tp2", c.tp2}} {
		got, err := review(tc.token)
		if err != nil || !got.Status.Authenticated {
			t.Fatalf("the token %s: %v, %v", tc.token, got, err)
		}
		extra := map[string]authorizationv1.ExtraValue{}
		for key, value := range got.Status.User.Extra {
			extra[key] = authorizationv1.ExtraValue(value)
		}
		if err := access(extra); err != nil {
			t.Fatal(err)
		}
		var came authorizationv1.SubjectAccessReview
		body := one(t, tc.to, "POST", accesses)
		_, obj := created(body)
		came = *obj.(*authorizationv1.SubjectAccessReview)
		if _, has := came.Spec.Extra[extraPartition]; has || came.Spec.Extra["other"][0] != "x" {
			data, _ := json.Marshal(came)
			t.Errorf("the partition got %s", data)
		}
	}
	if got, err := review("of nobody"); err != nil || got.Status.Authenticated {
		t.Errorf("nobody's token: %v, %v", got, err)
	}
	if err := access(nil); err != nil || len(c.rp.Asked("POST", accesses)) != 1 {
		t.Errorf("a user without a token: %v", err)
	}
	if err := access(map[string]authorizationv1.ExtraValue{extraPartition: {"tp9"}}); !apierrors.
		IsServiceUnavailable(err) {
		t.Errorf("a user of no partition: %v", err)
	}
	c.rp.Away.Store(true)
	if err := access(nil); err != nil || len(c.home.Asked("POST", accesses)) != 2 {
		t.Errorf("a user without a token, while the partition of the node is away: %v", err)
	}
	c.home.Away.Store(true)
	if err := access(nil); err != nil || len(c.tp2.Asked("POST", accesses)) != 2 {
		t.Errorf("a user without a token, while home is away, too: %v", err)
	}
	if got, err := review("of tp2"); err != nil || !got.Status.Authenticated {
		t.Errorf("a token of a partition that is there: %v, %v", got, err)
	}
	if _, err := review("of home"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a token of a partition that is away: %v", err)
	}
}
