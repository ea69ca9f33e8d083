package fairness

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	flowcontrol "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// seen is a flow controller that remembers whom it was asked about.
type seen struct {
	utilflowcontrol.Interface
	user user.Info
}

func (s *seen) Handle(_ context.Context, d utilflowcontrol.RequestDigest,
	_ func(*flowcontrol.FlowSchema, *flowcontrol.PriorityLevelConfiguration, string),
	_ func() fcrequest.WorkEstimate, _ fq.QueueNoteFn, _ func(),
) {
	s.user = d.User
}

// queued is a flow controller in which a request waits for a second, and which admits it
// or does not.
type queued struct {
	utilflowcontrol.Interface
	admits bool
}

func (q queued) Handle(_ context.Context, _ utilflowcontrol.RequestDigest,
	_ func(*flowcontrol.FlowSchema, *flowcontrol.PriorityLevelConfiguration, string),
	_ func() fcrequest.WorkEstimate, _ fq.QueueNoteFn, exec func(),
) {
	time.Sleep(time.Second)
	if q.admits {
		exec()
	}
}

// TestSeatsWhileOthersWait: what waits for its turn here has no seat, and what has begun
// has one until it ends, though it was answered before, since it took too long.
func TestSeatsWhileOthersWait(t *testing.T) {
	for _, admits := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			busy := func() int { return 1000 }
			queue := fairqueue.New(fairqueue.Options{Seats: 1, Share: 1, Length: 8, Busy: busy})
			acquire := func() (*fairqueue.Seat, time.Duration) {
				began := time.Now()
				seat, err := queue.Acquire(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				return seat, time.Since(began)
			}
			first, _ := acquire()
			began, end := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(end)
				ctx := fairqueue.With(t.Context(), first)
				Wrap(queued{admits: admits}).Handle(ctx, utilflowcontrol.RequestDigest{}, nil, nil, nil, func() {
					close(began)
					time.Sleep(time.Second)
				})
			}()
			synctest.Wait()
			second, waited := acquire()
			if waited > 10*time.Millisecond {
				t.Errorf("beside what waits here: %v", waited)
			}
			second.Release()
			if !admits {
				<-end
				first.Release()
				return
			}
			<-began
			first.Release() // it was answered
			if _, waited := acquire(); waited != time.Second {
				t.Errorf("beside what has begun: %v", waited)
			}
			<-end
		})
	}
}

func TestFlowOfUsers(t *testing.T) {
	of := func(tenant string) map[string][]string { return map[string][]string{space.Extra: {tenant}} }
	for _, c := range []struct {
		what string
		user *user.DefaultInfo
		flow string // "" for untouched
	}{
		{"a tenant's user", &user.DefaultInfo{Name: "alice", Groups: []string{"dev"}, Extra: of("t1")}, "tenant:t1"},
		{"another user of his", &user.DefaultInfo{Name: "bob", Extra: of("t1")}, "tenant:t1"},
		{"a user of another tenant", &user.DefaultInfo{Name: "alice", Extra: of("t2")}, "tenant:t2"},
		{"a tenant's master", &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup},
			Extra: of("t1")}, "tenant:t1"},
		{"a tenant's user called like a node",
			&user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}, Extra: of("t1")}, "tenant:t1"},
		{"a tenant's service account", &user.DefaultInfo{Name: "system:serviceaccount:default.t1:b",
			Groups: []string{"system:serviceaccounts"}}, "tenant:t1"},
		{"a user of two tenants", &user.DefaultInfo{Name: "eve", Groups: []string{user.SystemPrivilegedGroup},
			Extra: map[string][]string{space.Extra: {"t1", "t2"}}}, "tenant:all"},
		{"the system's master", &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}, ""},
		{"a node", &user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}}, ""},
		{"the system's service account",
			&user.DefaultInfo{Name: "system:serviceaccount:kube-system:job-controller"}, ""},
	} {
		inner := &seen{}
		Wrap(inner).Handle(t.Context(), utilflowcontrol.RequestDigest{User: c.user}, nil, nil, nil, nil)
		if c.flow == "" {
			if inner.user != user.Info(c.user) {
				t.Errorf("%s: became %+v", c.what, inner.user)
			}
			continue
		}
		if inner.user.GetName() != c.flow {
			t.Errorf("%s: flow %s, want %s", c.what, inner.user.GetName(), c.flow)
		}
		if g := inner.user.GetGroups(); len(g) != 2 || g[0] != Group || g[1] != user.AllAuthenticated {
			t.Errorf("%s: groups %v can match another flow schema", c.what, g)
		}
	}
}
