package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestOverloadIsBounded: what would have everybody wait because of one request of a tenant
// is refused with a reason, and of the tenant alone.
func TestOverloadIsBounded(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	t.Run("selectors", func(t *testing.T) { testBoundedSelectors(t, a) })
	t.Run("terms of pods", func(t *testing.T) { testBoundedTerms(t, a) })
	t.Run("watches", func(t *testing.T) { testBoundedWatches(t, p, a, b) })
	t.Run("policies", func(t *testing.T) { testBoundedPolicies(t, a, b) })
	t.Run("shares", func(t *testing.T) { testShares(t, p, a, b) })
	t.Run("controllers", func(t *testing.T) { testTurnsInControllers(t, p, a, b) })
}

func testBoundedSelectors(t *testing.T, a *space) {
	terms := make([]string, 201)
	for i := range terms {
		terms[i] = fmt.Sprintf("k%d!=v", i)
	}
	path := "/api/v1/namespaces/default/configmaps?labelSelector=" + url.QueryEscape(strings.Join(terms, ","))
	if code, text := get(t, a.config, path); code != http.StatusBadRequest || !strings.Contains(text, "at most 200") {
		t.Errorf("%d requirements: %d %s", len(terms), code, text)
	}
}

func testBoundedTerms(t *testing.T, a *space) {
	pod := simplePod("many")
	pod.Spec.TopologySpreadConstraints = slices.Repeat([]corev1.TopologySpreadConstraint{{MaxSkew: 1,
		WhenUnsatisfiable: corev1.ScheduleAnyway}}, 101)
	for i := range pod.Spec.TopologySpreadConstraints {
		pod.Spec.TopologySpreadConstraints[i].TopologyKey = fmt.Sprint("example.com/k", i)
	}
	_, err := a.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	refused(t, "many constraints", err, "spec.topologySpreadConstraints has 101 constraints: it may have 100")
	pod.Spec.TopologySpreadConstraints = pod.Spec.TopologySpreadConstraints[:100]
	if _, err := a.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
}

func testBoundedWatches(t *testing.T, p *plane, a, b *space) {
	p.limit(t, "a", `{"watches":2}`)
	watch := func(s *space) (func(), error) {
		w, err := s.client.CoreV1().RESTClient().Get().Namespace("default").Resource("configmaps").
			VersionedParams(&metav1.ListOptions{Watch: true}, scheme.ParameterCodec).MaxRetries(0).Watch(t.Context())
		if err != nil {
			return nil, err
		}
		return w.Stop, nil
	}
	var open []func()
	eventually(t, "a watch too many", func(context.Context) (bool, error) {
		stop, err := watch(a)
		if err == nil {
			open = append(open, stop)
			return false, nil // the limit is not known yet
		}
		seconds, ok := apierrors.SuggestsClientDelay(err)
		if !apierrors.IsTooManyRequests(err) || !ok || seconds < 1 ||
			!strings.Contains(err.Error(), "spec.limits.watches") {
			t.Errorf("past the limit: %v", err)
		}
		return true, nil
	})
	if stop, err := watch(b); err != nil {
		t.Errorf("another tenant: %v", err)
	} else {
		stop()
	}
	for _, stop := range open {
		stop()
	}
	eventually(t, "room for another watch", func(context.Context) (bool, error) {
		stop, err := watch(a)
		if err != nil {
			return false, nil //nolint:nilerr // those before have not ended yet
		}
		stop()
		return true, nil
	})
	p.limit(t, "a", "null")
}

// testBoundedPolicies: each policy is within what upstream lets one compute, all of them
// are not, in a loop or without one. That they fail open makes no difference.
func testBoundedPolicies(t *testing.T, a, b *space) {
	const n = 40
	for name, expression := range map[string]string{
		"loops":       "lists.range(400).all(x, lists.range(400).all(y, x + y >= 0))",
		"expressions": "!(object.data.text" + strings.Repeat("+object.data.text", 9) + ").matches('^(a|b|[ac]*x)+y$')",
	} {
		const of = registration + "validatingadmissionpolic"
		for i := range n {
			post(t, a.config, of+"ies", fmt.Sprintf(`{"metadata":{"name":"%s%d"},"spec":{"failurePolicy":"Ignore",`+
				configMapConstraints+`,"validations":[{"expression":%q}]}}`, name, i, expression))
			post(t, a.config, of+"ybindings", fmt.Sprintf(`{"metadata":{"name":"%s%d"},"spec":{`+
				`"policyName":"%[1]s%[2]d","validationActions":["Deny"]}}`, name, i))
		}
		long := strings.Repeat("a", 60_000)
		eventually(t, "a refusal because of "+name, func(ctx context.Context) (bool, error) {
			cm := configMap("said")
			cm.Data = map[string]string{"text": long}
			_, err := a.client.CoreV1().ConfigMaps("default").Create(ctx, cm,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil {
				return false, nil // not all policies are known yet
			}
			refused(t, name, err, "computed for longer than 1s")
			return true, nil
		})
		if _, err := b.say(t.Context(), "x"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		for i := range n {
			remove(t, a.config, fmt.Sprintf("%sybindings/%s%d", of, name, i))
			remove(t, a.config, fmt.Sprintf("%sies/%s%d", of, name, i))
		}
	}
}

// testTurnsInControllers: a ReplicaSet has its pod while those of another tenant, which came
// before it, wait for most of theirs.
func testTurnsInControllers(t *testing.T, p *plane, a, b *space) {
	const sets, replicas = 100, 200
	p.limit(t, "a", fmt.Sprintf(`{"pods":%d}`, sets*replicas))
	make := func(s *space, name string, replicas int32) {
		t.Helper()
		labels := map[string]string{"set": name}
		_, err := s.client.AppsV1().ReplicaSets("default").Create(t.Context(), &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: simplePod("").Spec}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	pods := func(ctx context.Context, s *space, labels string) (int, error) {
		list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: labels})
		if err != nil {
			return 0, err
		}
		return len(list.Items), nil
	}
	for i := range sets {
		make(a, fmt.Sprint("many-", i), replicas)
	}
	make(b, "one", 1)
	eventually(t, "the pod of the other tenant", func(ctx context.Context) (bool, error) {
		n, err := pods(ctx, b, "set=one")
		return n == 1, err
	})
	n, err := pods(t.Context(), a, "set")
	if err != nil {
		t.Fatal(err)
	}
	if n >= sets*replicas/2 {
		t.Errorf("the ReplicaSet of one tenant had its pod when those of another had %d of %d", n, sets*replicas)
	}
	eventually(t, "more pods of the first tenant", func(ctx context.Context) (bool, error) {
		more, err := pods(ctx, a, "set")
		return more >= n+500, err
	})
}

// testShares: while two tenants ask for more than the server can do, one of nine times the
// share of the other has more of its time. Two processors cannot be divided better than three
// to one, and the clients, which wait for each other, need them too.
func testShares(t *testing.T, p *plane, a, b *space) {
	const clients, answers = 16, 1000
	overloadObjects(t, a)
	overloadObjects(t, b)
	terms := []string{"z=v"}
	for i := range 199 {
		terms = append(terms, fmt.Sprintf("k%d!=v", i))
	}
	path := "/api/v1/namespaces/default/configmaps?labelSelector=" + url.QueryEscape(strings.Join(terms, ","))
	check := func(more, less *space) {
		t.Helper()
		before := [...]float64{p.seatSeconds(t, more), p.seatSeconds(t, less)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		var served atomic.Int64
		for _, s := range []*space{more, less} {
			w := workOf(t, s.config, http.MethodGet, path)
			secure, err := w.secure()
			if err != nil {
				t.Fatal(err)
			}
			for range clients {
				client := w.client(secure)
				defer client.CloseIdleConnections()
				wg.Go(func() {
					for ctx.Err() == nil {
						switch code := w.ask(ctx, client, 0); {
						case code == http.StatusOK && served.Add(1) >= answers:
							cancel()
						case code != http.StatusOK && ctx.Err() == nil:
							t.Errorf("%s: %d", s.name, code)
							cancel()
						}
					}
				})
			}
		}
		wg.Wait()
		much, little := p.seatSeconds(t, more)-before[0], p.seatSeconds(t, less)-before[1]
		if much < little*4/3 {
			t.Errorf("%s, with nine times the share, had %.2f s, and %s %.2f s", more.name, much, less.name, little)
		}
	}
	for _, order := range [][2]*space{{a, b}, {b, a}} {
		p.limit(t, order[0].name, `{"share":90}`)
		p.limit(t, order[1].name, `null`)
		check(order[0], order[1])
	}
	p.limit(t, b.name, `null`)
}

// seatSeconds is how long requests of a tenant's users have computed.
func (p *plane) seatSeconds(t *testing.T, s *space) (all float64) {
	t.Helper()
	for _, rest := range p.metrics(t, `a4s_tenant_seat_seconds_total{tenant="`+s.name+`"`) {
		_, value, _ := strings.Cut(rest, " ")
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		all += seconds
	}
	if all == 0 {
		t.Fatalf("no metric says how long requests of %s have computed", s.name)
	}
	return all
}
