package route

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

// TestPartitionThatHangs takes requests and says nothing.
func TestPartitionThatHangs(t *testing.T) {
	c := newCluster(t, Options{Limit: 2 * time.Second, ProbeEvery: time.Hour})
	for _, s := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t1", Name: "s"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t2", Name: "s"}},
	} {
		c.home.Put(t, "secrets", s)
		c.tp2.Put(t, "secrets", s)
	}
	get := func(namespace string) error {
		_, err := c.api.CoreV1().Secrets(namespace).Get(t.Context(), "s", metav1.GetOptions{})
		return err
	}
	if err := get("default.t2"); err != nil {
		t.Fatal(err)
	}
	c.tp2.Hangs.Store(true)
	if err := get("default.t2"); !apierrors.IsServiceUnavailable(err) {
		t.Fatalf("a request to a partition that hangs: %v", err)
	}
	eventually(t, c.table.Load().byName["tp2"].refuses, func() any { return "it is asked on" })
	asked := len(c.tp2.Asked("GET", "/api/v1/namespaces/default.t2/secrets"))
	for range 10 {
		if err := get("default.t2"); !apierrors.IsServiceUnavailable(err) {
			t.Fatalf("the next request: %v", err)
		}
	}
	if now := len(c.tp2.Asked("GET", "/api/v1/namespaces/default.t2/secrets")); now != asked {
		t.Errorf("%d further requests were sent", now-asked)
	}
	if err := get("default.t1"); err != nil {
		t.Errorf("another partition: %v", err)
	}
	if got := podsOf(t, c.api); len(got) != 4 {
		t.Errorf("the node has the pods %v", got)
	}
	if n := len(c.log.AllEntries()); n == 0 || c.log.LastEntry().Level > 3 { // warning
		t.Errorf("%d messages, the last one %v", n, c.log.LastEntry())
	}
}

// TestARequestThatIsSlow is one of a partition that answers all else, as one whose webhook is slow.
func TestARequestThatIsSlow(t *testing.T) {
	c := newCluster(t, Options{Limit: 2 * time.Second, ProbeEvery: time.Hour})
	c.tp2.Put(t, "secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t2", Name: "s"}})
	answered := make(chan struct{})
	t.Cleanup(func() { close(answered) })
	c.tp2.Answer("GET", "/api/v1/namespaces/default.t2/secrets/slow", func(partitiontest.Asked) (int, runtime.Object) {
		<-answered
		return http.StatusOK, &corev1.Secret{}
	})
	secrets := c.api.CoreV1().Secrets("default.t2")
	if _, err := secrets.Get(t.Context(), "slow", metav1.GetOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Fatalf("a request that is slow: %v", err)
	}
	tp2 := c.table.Load().byName["tp2"].guard
	eventually(t, func() bool {
		if _, err := secrets.Get(t.Context(), "s", metav1.GetOptions{}); err != nil || tp2.refuses() {
			t.Fatalf("another request fails with it: %v", err)
		}
		tp2.mu.Lock()
		defer tp2.mu.Unlock()
		return !tp2.probing
	}, func() any { return "it is probed on" })
	if n := len(c.tp2.Asked("GET", "/livez")); n != 1 {
		t.Errorf("it is probed %d times", n)
	}
}

// TestPartitionComesBack is looked for by a probe, and by no request of the kubelet.
func TestPartitionComesBack(t *testing.T) {
	c := newCluster(t, Options{Limit: 2 * time.Second, ProbeEvery: 5 * time.Millisecond})
	secrets := c.api.CoreV1().Secrets("kube-system.tp2.system")
	c.tp2.Put(t, "secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s"}})
	c.tp2.Hangs.Store(true)
	if _, err := secrets.Get(t.Context(), "s", metav1.GetOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Fatalf("a request to a partition that hangs: %v", err)
	}
	eventually(t, func() bool { return len(c.tp2.Asked("GET", "/livez")) > 0 }, func() any { return "no probe" })
	c.tp2.Hangs.Store(false)
	eventually(t, func() bool { return !c.table.Load().byName["tp2"].refuses() }, func() any { return "refuses" })
	if _, err := secrets.Get(t.Context(), "s", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestPartitionOfTheNodeComesBack when it has nodes only, so that the node knows no name of it.
func TestPartitionOfTheNodeComesBack(t *testing.T) {
	c := newCluster(t, Options{Limit: 2 * time.Second, ProbeEvery: 5 * time.Millisecond})
	const accesses = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	for _, s := range []*partitiontest.Server{c.home, c.rp} {
		s.Answer("POST", accesses, created)
	}
	access := func() error {
		_, err := c.api.AuthorizationV1().SubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
		return err
	}
	c.rp.Hangs.Store(true)
	if err := access(); err != nil {
		t.Fatalf("a review while it hangs: %v", err)
	}
	eventually(t, c.Router.node.refuses, func() any { return "it is asked on" })
	c.rp.Hangs.Store(false)
	eventually(t, func() bool { return !c.Router.node.refuses() }, func() any { return "refuses" })
	before := len(c.rp.Asked("POST", accesses))
	if err := access(); err != nil || len(c.rp.Asked("POST", accesses)) != before+1 {
		t.Errorf("it is not asked again: %v", err)
	}
}

// TestCheckTellsWhoIsNotReached: a tenant partition that is away, and one that hangs, until it is
// back.
func TestCheckTellsWhoIsNotReached(t *testing.T) {
	c := newCluster(t, Options{Limit: 2 * time.Second, ProbeEvery: 5 * time.Millisecond})
	h := health.NewRegistry()
	told := func(want ...string) func() bool {
		return func() bool {
			c.Check(t.Context(), h)
			var got []string
			for _, one := range h.Holdings() {
				if one.Code != health.PartitionUnreachable || one.Detail == "" {
					t.Fatalf("it tells of %+v", one)
				}
				got = append(got, one.Subject)
			}
			return slices.Equal(got, want)
		}
	}
	state := func() any { return h.Holdings() }
	eventually(t, told(), state)
	c.tp2.Away.Store(true)
	eventually(t, func() bool {
		c.tp2.HangUp() // a watch may have begun just now
		return told("tp2")()
	}, state)
	c.tp2.Away.Store(false)
	eventually(t, told(), state)
	c.home.Hangs.Store(true)
	if _, err := c.api.CoreV1().Secrets("default.t1").Get(t.Context(), "s", metav1.GetOptions{}); err == nil {
		t.Fatal("it does not hang")
	}
	eventually(t, told("main"), state)
	c.home.Hangs.Store(false)
	eventually(t, told(), state)
}

// TestLogsMayLast is about an answer that has no end: it is passed on while it comes.
func TestLogsMayLast(t *testing.T) {
	c := newCluster(t, Options{Limit: time.Nanosecond, ProbeEvery: time.Hour})
	c.tp2.Answer("GET", "/api/v1/namespaces/default.t2/pods/web/log", ok(&metav1.Status{Message: "a line"}))
	logs, err := c.api.CoreV1().Pods("default.t2").GetLogs("web", &corev1.PodLogOptions{Follow: true}).
		DoRaw(t.Context())
	if err != nil || !strings.Contains(string(logs), "a line") || c.table.Load().byName["tp2"].refuses() {
		t.Errorf("%s, %v", logs, err)
	}
}

// TestPartitionThatIsAway is asked each time: that costs nothing.
func TestPartitionThatIsAway(t *testing.T) {
	c := newCluster(t, Options{})
	secrets := c.api.CoreV1().Secrets("default.t2")
	c.tp2.Put(t, "secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t2", Name: "s"}})
	c.tp2.Away.Store(true)
	if _, err := secrets.Get(t.Context(), "s", metav1.GetOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a partition that is away: %v", err)
	}
	c.tp2.Away.Store(false)
	if _, err := secrets.Get(t.Context(), "s", metav1.GetOptions{}); err != nil {
		t.Errorf("it is back: %v", err)
	}
}
