package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
)

// A custom resource is read by a conversion webhook of the tenant if it was stored in
// another version than its CRD has now. One that does not answer, or late, must not hold
// up the deletion of the tenant, whatever it was made for.

const (
	// unreadFor is how long after the deletion of a tenant its custom resources are
	// deleted through the API only.
	unreadFor = 30 * time.Second
	// customsFor is how long one try waits for custom resources, and oneFor for one
	// request.
	customsFor, oneFor = 20 * time.Second, 10 * time.Second
	// probeFor is how long an object has to be read.
	probeFor = 5 * time.Second
	// logged is of how many objects the log has the finalizers.
	logged = 20
)

// deleteCustoms deletes custom resources: through the API as far as that can, and out of
// the datastore what it cannot read.
func (e *emptying) deleteCustoms(ctx context.Context, requests []request) error {
	if len(requests) == 0 {
		return nil
	}
	var mu sync.Mutex
	failed := map[schema.GroupResource]error{}
	limited, cancel := context.WithTimeout(ctx, customsFor)
	err := inParallel(requests, func(r request) error {
		gr := r.GroupResource()
		mu.Lock()
		already := failed[gr]
		mu.Unlock()
		if already != nil {
			return nil // the next one would fail as well
		}
		one, done := context.WithTimeout(limited, oneFor)
		defer done()
		err := e.send(one, r)
		if !unreadable(err) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		failed[gr] = err
		return nil
	})
	e.slow = e.slow || limited.Err() != nil
	cancel()
	errs := []error{err}
	seen := map[schema.GroupResource]bool{}
	for _, r := range requests {
		gr := r.GroupResource()
		if failed[gr] == nil || seen[gr] {
			continue
		}
		seen[gr] = true
		errs = append(errs, e.removeUnread(ctx, r.api, failed[gr]))
	}
	return errors.Join(errs...)
}

// unreadable tells failures that a conversion can be the reason of.
func unreadable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code == http.StatusInternalServerError || code == http.StatusGatewayTimeout
}

// stored is what is needed of a stored object.
type stored struct {
	metav1.TypeMeta
	Metadata struct {
		Name, Namespace string
		Finalizers      []string
	}
}

// removeUnread takes custom resources out of the datastore, of a resource that the API
// could not delete: those that nobody has to finalize, and those that nobody can, because
// they cannot be read.
func (e *emptying) removeUnread(ctx context.Context, a api, why error) error {
	if wait := time.Until(e.deleted.Add(unreadFor)); wait > 0 {
		return fmt.Errorf("custom resources are removed unread if they cannot be deleted in %s more: %w",
			wait.Round(time.Second), why)
	}
	var probed, can bool
	readable := func(o *stored) bool {
		if !probed {
			probed, can = true, time.Since(e.deleted) < operatorsHave && e.reads(ctx, a, o)
		}
		return can
	}
	var examples []string
	r := contents.Resource{GroupResource: a.GroupResource(), Namespaced: a.namespaced}
	n, err := e.contents.Remove(ctx, e.tenant, r, func(value []byte) bool {
		var o stored
		if err := json.Unmarshal(value, &o); err != nil {
			return false // it is not a custom resource
		}
		if len(o.Metadata.Finalizers) > 0 {
			if a.stored && o.APIVersion == a.GroupVersion().String() {
				return false // it needs no conversion
			}
			if readable(&o) {
				return false
			}
		}
		if len(examples) < logged {
			name := native(contents.Object{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name})
			examples = append(examples, fmt.Sprintf("%s %q", name, o.Metadata.Finalizers))
		}
		return true
	})
	if n > 0 {
		e.log.WithField("tenant", e.tenant).WithField("objects", n).WithField("resource", r.GroupResource.String()).
			WithField("such_as", examples).WithError(why).
			Warn("custom resources of a deleted tenant were removed unread, with their finalizers")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("removing %s unread: %w", r.GroupResource, err), why)
	}
	if n == 0 {
		return why
	}
	return nil
}

// reads reports whether the API can read an object.
func (e *emptying) reads(ctx context.Context, a api, o *stored) bool {
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	_, err := e.metadata.Resource(a.GroupVersionResource).Namespace(o.Metadata.Namespace).
		Get(ctx, o.Metadata.Name, metav1.GetOptions{})
	return !unreadable(err)
}
