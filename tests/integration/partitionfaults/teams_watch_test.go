package partitionfaults_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// soonest bounds a request that is made again anyway.
const soonest = 2 * time.Second

// watch does all the time what must not work, and looks at what must not be, until stop is called.
func (f *teams) watch(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.followOwnNode(ctx, t) })
	// Each has the teams that there are now, whose pods stay.
	full := stay(f.made)
	token := f.provider.Login(t, "alice")
	attempts := map[string]*attempt{
		"another pod": {do: func(ctx context.Context, config *rest.Config, team string) (string, error) {
			return team + " passes its limit", oneMorePod(ctx, config, team)
		}},
		"a pod on the node of another team": {do: func(
			ctx context.Context, config *rest.Config, team string,
		) (string, error) {
			return team + " gets on the node of " + keeper, intrude(ctx, config, team)
		}},
		"a login in another team": {do: func(ctx context.Context, config *rest.Config, team string) (string, error) {
			return "alice gets into " + team, inApps(ctx, f.asAlice(config.Host, token), team)
		}, but: ofAlice},
	}
	for what, a := range attempts {
		running.Go(func() { a.run(ctx, t, what, f.front, full) })
	}
	running.Go(func() { f.aliceWorks(ctx, t, token) })
	return func() {
		cancel()
		running.Wait()
		for what, a := range attempts {
			t.Logf("%s was refused %d times, and not answered %d times", what, a.refused.Load(), a.unanswered.Load())
			if a.refused.Load() == 0 {
				t.Errorf("%s was never refused", what)
			}
		}
	}
}

// attempt is something that no team may do.
type attempt struct {
	do func(context.Context, *rest.Config, string) (says string, err error)
	// but are the teams that may.
	but                 []string
	refused, unanswered atomic.Int64
}

// run tries it with any team at any server that is ready, again and again.
func (a *attempt) run(ctx context.Context, t *testing.T, what string, at *front, teams []string) {
	teams = slices.DeleteFunc(slices.Clone(teams), func(is string) bool {
		return is == keeper || slices.Contains(a.but, is)
	})
	_ = wait.PollUntilContextCancel(ctx, again, true, func(ctx context.Context) (bool, error) { // until it is stopped
		s := at.next()
		if s == nil {
			return false, nil
		}
		config := rest.CopyConfig(s.config)
		config.Timeout = soonest
		says, err := a.do(ctx, config, teams[rand.IntN(len(teams))])
		switch {
		case err == nil, apierrors.IsUnauthorized(err):
			t.Errorf("%s at %s: %s: %v", what, s.name, says, err)
		case apierrors.IsForbidden(err):
			a.refused.Add(1)
		default:
			a.unanswered.Add(1)
		}
		return false, nil
	})
}

// intrude binds a pod of a team to the node of another one, as a scheduler would that knows nothing of teams.
func intrude(ctx context.Context, config *rest.Config, team string) error {
	client, err := kubernetes.NewForConfig(tenantapi.InSpace(config, team))
	if err != nil {
		return err
	}
	return client.CoreV1().Pods("apps").Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p0"},
		Target: corev1.ObjectReference{Kind: "Node", Name: ownNode}}, metav1.CreateOptions{})
}

// followOwnNode watches the node that one team has for itself alone.
func (f *teams) followOwnNode(ctx context.Context, t *testing.T) {
	seen := func(obj any) {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			return
		}
		if tenant, _ := space.SplitNamespace(p.Namespace); tenant != keeper {
			t.Errorf("pod %s/%s is on the node of %s", p.Namespace, p.Name, keeper)
		}
	}
	_, watcher := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(f.client.CoreV1().RESTClient(), "pods", "",
			fields.OneTermEqualSelector("spec.nodeName", ownNode)),
		ObjectType: &corev1.Pod{},
		Handler:    cache.ResourceEventHandlerFuncs{AddFunc: seen, UpdateFunc: func(_, obj any) { seen(obj) }},
	})
	watcher.RunWithContext(ctx)
}

// aliceWorks in her teams all the time. Servers that are killed do not answer; those that do let her in.
func (f *teams) aliceWorks(ctx context.Context, t *testing.T, token string) {
	config := f.asAlice(f.front.address, token)
	config.Timeout = soonest
	let := 0
	_ = wait.PollUntilContextCancel(ctx, again, true, func(ctx context.Context) (bool, error) { // until it is stopped
		team := ofAlice[rand.IntN(len(ofAlice))]
		switch err := inApps(ctx, config, team); {
		case err == nil:
			let++
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			t.Errorf("alice in %s: %v", team, err)
		}
		return false, nil
	})
	t.Logf("alice was let in %d times", let)
}
