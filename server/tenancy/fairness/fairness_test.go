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

// TestSeatsAreAdmission: what has a seat is let in without the seats of priority and
// fairness, and keeps it until it ends, though it was answered before, since it took too
// long.
func TestSeatsAreAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := func() int { return 1000 }
		queue := fairqueue.New(fairqueue.Options{Seats: 1, Share: 1, Length: 8, Busy: busy})
		acquire := func() *fairqueue.Seat {
			seat, err := queue.Acquire(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			return seat
		}
		seat, inner := acquire(), &seen{}
		ctx, executed := fairqueue.With(t.Context(), seat), false
		done := make(chan struct{})
		go func() {
			defer close(done)
			Wrap(inner).Handle(ctx, utilflowcontrol.RequestDigest{User: &user.DefaultInfo{}}, nil, nil, nil, func() {
				time.Sleep(time.Second)
				executed = true
			})
		}()
		synctest.Wait()
		seat.Release() // it was answered
		acquire().Release()
		if inner.user != nil || !executed {
			t.Errorf("executed: %v; priority and fairness saw %v", executed, inner.user)
		}
		<-done
	})
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
		if g := inner.user.GetGroups(); len(g) != 1 || g[0] != user.AllAuthenticated {
			t.Errorf("%s: groups %v can match another flow schema", c.what, g)
		}
	}
}
