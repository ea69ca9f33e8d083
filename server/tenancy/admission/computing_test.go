package admission

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// TestComputingOfPluginsIsSummed: what plugins of a request compute is one sum, from which
// the waiting for hooks is left out.
func TestComputingOfPluginsIsSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c computing
		began := time.Now()
		loops := func(ctx context.Context) error { <-ctx.Done(); return nil }
		for range 3 {
			if err := c.run(t.Context(), time.Second, func(ctx context.Context) error {
				for range 30 {
					time.Sleep(computeTick / 5)
				}
				two, one := c.wait(), c.wait() // hooks are asked side by side
				time.Sleep(10 * time.Second)
				two()
				two()
				one()
				return ctx.Err()
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.run(t.Context(), time.Second, loops); !errors.As(err, new(longComputing)) {
			t.Errorf("the end: %v", err)
		}
		if took := time.Since(began) - 30*time.Second; took < time.Second || took > time.Second+computeTick {
			t.Errorf("it computed for %v", took)
		}
		began = time.Now()
		err := c.run(t.Context(), time.Second, loops)
		if !errors.As(err, new(longComputing)) || time.Since(began) > 0 {
			t.Errorf("the next plugin: %v after %v", err, time.Since(began))
		}
	})
}

// policies is a plugin of many expressions without a loop, each of which takes a while. It
// asks before each, as upstream's does, whether the policy is about the operation.
type policies struct{ evaluated int }

// Handles implements admission.Interface.
func (*policies) Handles(admission.Operation) bool { return true }

// Validate implements admission.ValidationInterface.
func (p *policies) Validate(ctx context.Context, attr admission.Attributes, _ admission.ObjectInterfaces) error {
	for range 1000 {
		if attr.GetOperation() == admission.Create {
			p.evaluated++
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// TestPoliciesEndTogether: when their time is over the policies that are left are passed
// over, and the request is refused, be its author a user or a controller.
func TestPoliciesEndTogether(t *testing.T) {
	for _, c := range []struct {
		standing *standing
		most     time.Duration
	}{{nil, computeFor}, {&standing{changed: func(bool) {}}, workloadBudget}} {
		synctest.Test(t, func(t *testing.T) {
			attr := admission.NewAttributesRecord(&core.ConfigMap{}, nil, core.Kind("ConfigMap").WithVersion("v1"),
				"default.a", "x", core.Resource("configmaps").WithVersion("v1"), "", admission.Create, nil, false, nil)
			p := &policies{}
			q := &question{attr: attr, native: &attributes{Attributes: attr}, standing: c.standing,
				own: func(context.Context) (admission.Interface, error) { return p, nil }}
			began := time.Now()
			err := q.ask(withAllowance(t.Context()), func(ctx context.Context, _ admission.Interface) error {
				return p.Validate(ctx, q.native, nil)
			})
			if !apierrors.IsForbidden(err) ||
				!strings.Contains(err.Error(), "computed for longer than "+c.most.String()) {
				t.Errorf("%v", err)
			}
			// What is slow while the server does other things is not charged in full.
			if n, took := p.evaluated, time.Since(began); took < c.most || took > c.most+time.Second || n > 30 {
				t.Errorf("%d expressions, after %v", n, took)
			}
			synctest.Wait()
		})
	}
}

// TestHooksAreWaitedForWithoutASeat: until the answer of a hook is read the seat is for
// others, and then the request has one again.
func TestHooksAreWaitedForWithoutASeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := fairqueue.New(fairqueue.Options{Seats: 1, Share: 1, Length: 8, Busy: func() int { return 1000 }})
		seat, err := queue.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, _ := allowanceOf(fairqueue.With(t.Context(), seat))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://hook.example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		var other *fairqueue.Seat
		resp, err := trip{roundTrip(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			began := time.Now()
			other, err = queue.Acquire(t.Context(), "a")
			if waited := time.Since(began); err != nil || waited > 0 {
				t.Errorf("another request: %v, after %v", err, waited)
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
		})}.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, other.Release)
		began := time.Now()
		if err := resp.Body.Close(); err != nil || time.Since(began) != time.Second {
			t.Errorf("the seat is there again: %v, after %v", err, time.Since(began))
		}
		seat.Release()
	})
}

// TestWaitingForHooksEnds: however a call of a hook ends, it is not waited for any more.
func TestWaitingForHooksEnds(t *testing.T) {
	ctx, a := allowanceOf(t.Context())
	for _, s := range []*standing{nil, {changed: func(bool) {}}} {
		a.standing, a.end = s, time.Now().Add(time.Minute)
		for _, body := range []string{"", "answer"} {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://hook.example.com/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := trip{roundTrip(func(*http.Request) (*http.Response, error) {
				if a.computing.calls != 1 {
					t.Errorf("%d hooks are waited for", a.computing.calls)
				}
				if body == "" {
					return nil, errors.New("no answer")
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
			})}.RoundTrip(req)
			if err == nil {
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			if a.computing.calls != 0 {
				t.Errorf("%q: %d hooks are waited for", body, a.computing.calls)
			}
		}
	}
}
