package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// progress is how far the tenants of a template are.
type progress struct {
	tenants, current int
	// behind are those that have not tried this generation, by name; failed those that have.
	behind, failed []*tenantapi.Tenant
}

// progressOf looks at the tenants of a template.
func progressOf(template *tenantapi.TenantTemplate, tenants []*tenantapi.Tenant) (p progress) {
	for _, t := range tenants {
		if !made(t) || t.Spec.Template != template.Name {
			continue
		}
		p.tenants++
		is := t.Status.Template
		switch {
		case is == nil || is.Name != template.Name || is.UID != template.UID || is.Generation != template.Generation,
			missed(t):
			p.behind = append(p.behind, t)
		case meta.IsStatusConditionTrue(t.Status.Conditions, tenantapi.TemplateApplied):
			p.current++
		default:
			p.failed = append(p.failed, t)
		}
	}
	byName := func(a, b *tenantapi.Tenant) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(p.behind, byName)
	slices.SortFunc(p.failed, byName)
	return p
}

// waits reports whether a tenant gets a template as it is now when it is its turn: it has had it as it was.
func waits(t *tenantapi.Tenant, template *tenantapi.TenantTemplate) bool {
	is := t.Status.Template
	return is != nil && is.Name == template.Name && (is.UID != template.UID || is.Generation != template.Generation) &&
		!missed(t) && meta.FindStatusCondition(t.Status.Conditions, tenantapi.TemplateApplied) != nil
}

// turns are the tenants whose turn it is, with the template as it was when it came.
type turns struct {
	mu      sync.Mutex
	tenants map[string]turn
}

type turn struct {
	uid        types.UID
	generation int64
}

// give makes it the turn of a tenant.
func (t *turns) give(template *tenantapi.TenantTemplate, tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tenants[tenant] = turn{template.UID, template.Generation}
}

// has reports whether it is the turn of a tenant.
func (t *turns) has(template *tenantapi.TenantTemplate, tenant string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tenants[tenant] == turn{template.UID, template.Generation}
}

// forget drops a tenant.
func (t *turns) forget(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.tenants, tenant)
}

// missed reports whether the condition says that there is no template.
func missed(t *tenantapi.Tenant) bool {
	c := meta.FindStatusCondition(t.Status.Conditions, tenantapi.TemplateApplied)
	return c != nil && c.Reason == tenantapi.ReasonNoTemplate
}

// stopped reports whether so many have failed that no others get it.
func (p *progress) stopped(template *tenantapi.TenantTemplate) bool {
	return int64(len(p.failed)) > template.Spec.MaxFailed
}

// next are those whose turn it is.
func (p *progress) next(template *tenantapi.TenantTemplate) []*tenantapi.Tenant {
	if p.stopped(template) {
		return nil
	}
	n := int(template.Spec.AtATime)
	if n <= 0 {
		n = tenantapi.DefaultAtATime
	}
	return p.behind[:min(n, len(p.behind))]
}

// condition says it.
func (p *progress) condition(template *tenantapi.TenantTemplate) metav1.Condition {
	out := metav1.Condition{Type: tenantapi.RolledOut, Status: metav1.ConditionFalse,
		ObservedGeneration: template.Generation, Reason: tenantapi.ReasonProgressing,
		Message: fmt.Sprintf("%d of %d tenants have generation %d", p.current, p.tenants, template.Generation)}
	if len(p.failed) > 0 {
		first := p.failed[0]
		out.Message += fmt.Sprintf("; tenant %s could not get it", first.Name)
		if c := meta.FindStatusCondition(first.Status.Conditions, tenantapi.TemplateApplied); c != nil {
			out.Message += ": " + c.Message
		}
	}
	switch {
	case p.stopped(template):
		out.Reason = tenantapi.ReasonStopped
	case p.current == p.tenants:
		out.Status, out.Reason = metav1.ConditionTrue, tenantapi.ReasonApplied
	}
	out.Message = message(out.Message)
	return out
}

// rollOut has the next tenants of a template worked on, and reports how many have it.
func (c *controller) rollOut(ctx context.Context, name string) error {
	tenants := c.all()
	template := c.o.Tenants.Template(name)
	if template == nil {
		for _, t := range tenants {
			if t.Spec.Template == name && made(t) && !missed(t) {
				c.queue.Add(t.Name)
			}
		}
		return nil
	}
	c.follows.begin(template)
	c.awakenings.Add(name)
	c.told.tell(c.queue, template, tenants)
	p := progressOf(template, tenants)
	for _, t := range p.next(template) {
		c.turns.give(template, t.Name)
		c.queue.Add(t.Name)
	}
	t := template.DeepCopy()
	t.Status.Tenants, t.Status.Current, t.Status.Failed = int64(p.tenants), int64(p.current), int64(len(p.failed))
	meta.SetStatusCondition(&t.Status.Conditions, p.condition(template))
	if equality.Semantic.DeepEqual(t.Status, template.Status) {
		return nil
	}
	if _, err := c.templates.UpdateStatus(ctx, t, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reporting how many tenants have the TenantTemplate %s: %w", name, err)
	}
	return nil
}

// told are the templates as they were when their tenants were told. The worker of rollouts alone has them.
type told map[string]turn

// tell has the tenants of a changed template be looked at that have accesses and wait for their turn: these do not.
// One after the other, so that a new tenant does not wait behind all of them.
func (of told) tell(
	queue workqueue.TypedDelayingInterface[string], template *tenantapi.TenantTemplate, tenants []*tenantapi.Tenant,
) {
	is := turn{template.UID, template.Generation}
	if of[template.Name] == is {
		return
	}
	of[template.Name] = is
	var later time.Duration
	for _, t := range tenants {
		if t.Spec.Template == template.Name && len(accesses(t)) > 0 {
			queue.AddAfter(t.Name, later)
			later += spread
		}
	}
}

// all are the tenants that are known.
func (c *controller) all() (out []*tenantapi.Tenant) {
	for _, name := range c.o.Tenants.Names() {
		if t := c.o.Tenants.Known(name); t != nil {
			out = append(out, t)
		}
	}
	return out
}
