package nodes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Tenants says what their administrators have decided.
type Tenants interface {
	// Scheduling is what holds for a tenant, nil for all nodes, and the template that says it, "" if
	// the Tenant does.
	Scheduling(ctx context.Context, tenant string) (s *tenantapi.TenantScheduling, template string, err error)
}

// Rules are those of all tenants.
type Rules struct {
	tenants Tenants
	version atomic.Uint64

	mu sync.RWMutex
	// kept are those that have nodes for themselves alone, with the labels of these
	// nodes, by one of these labels: a node has few, and there may be many tenants.
	kept map[label]map[keeper]labels.Set
	// by is where they are in kept.
	by      map[keeper]label
	changes map[*func()]struct{}
	// templates are those that say which nodes run pods, as they were last told of.
	templates map[string]tenantapi.TenantScheduling
}

// keeper has nodes for itself alone: a tenant, or all tenants that a template gives nodes to.
type keeper struct{ tenant, template string }

// label is one with its value.
type label struct{ key, value string }

// New makes rules that hear of tenants by Changed and Gone.
func New(tenants Tenants) *Rules {
	return &Rules{tenants: tenants, kept: map[label]map[keeper]labels.Set{}, by: map[keeper]label{},
		changes: map[*func()]struct{}{}, templates: map[string]tenantapi.TenantScheduling{}}
}

// OnChange has f called, until the context ends, whenever pods may fit where they did not
// before.
func (r *Rules) OnChange(ctx context.Context, f func()) {
	r.mu.Lock()
	r.changes[&f] = struct{}{}
	r.mu.Unlock()
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		delete(r.changes, &f)
		r.mu.Unlock()
	})
}

// Changed hears of a tenant that is new, with a nil old one, or has changed.
func (r *Rules) Changed(old, t *tenantapi.Tenant) {
	var was, is tenantapi.TenantScheduling
	if old != nil && old.Spec.Scheduling != nil {
		was = *old.Spec.Scheduling
	}
	if t.Spec.Scheduling != nil {
		is = *t.Spec.Scheduling
	}
	same := sameNodes(was, is)
	if !same {
		r.keep(keeper{tenant: t.Name}, is)
	}
	if old == nil && t.Spec.Template != "" {
		r.version.Add(1) // its template may have nodes, which are kept from whom is not known
	}
	// A new one leaves others fewer nodes, and has no pods that wait yet.
	if old != nil && (!same || old.Spec.Template != t.Spec.Template ||
		(old.Spec.Scheduling == nil) != (t.Spec.Scheduling == nil)) {
		r.tell()
	}
}

// TemplateChanged hears of a template that is new, has changed or, being nil, is gone.
func (r *Rules) TemplateChanged(name string, t *tenantapi.TenantTemplate) {
	var is tenantapi.TenantScheduling
	if t != nil && t.Spec.Scheduling != nil {
		is = *t.Spec.Scheduling
	}
	r.mu.Lock()
	was := r.templates[name]
	if len(is.NodeSelector) > 0 {
		r.templates[name] = is
	} else {
		delete(r.templates, name)
	}
	r.mu.Unlock()
	if !sameNodes(was, is) {
		r.keep(keeper{template: name}, is)
		r.tell()
	}
}

// sameNodes reports whether two say the same of nodes.
func sameNodes(a, b tenantapi.TenantScheduling) bool {
	return a.Exclusive == b.Exclusive && maps.Equal(a.NodeSelector, b.NodeSelector)
}

// Gone hears of a tenant that is not there any more.
func (r *Rules) Gone(tenant string) {
	r.mu.RLock()
	_, keeps := r.by[keeper{tenant: tenant}]
	r.mu.RUnlock()
	if keeps {
		r.keep(keeper{tenant: tenant}, tenantapi.TenantScheduling{})
		r.tell()
	}
}

// keep takes note of the nodes of a tenant or a template.
func (r *Rules) keep(who keeper, s tenantapi.TenantScheduling) {
	defer r.version.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.by[who]; ok {
		delete(r.by, who)
		delete(r.kept[at], who)
		if len(r.kept[at]) == 0 {
			delete(r.kept, at)
		}
	}
	// Without labels it would keep all nodes. The API refuses that.
	if s.Exclusive && len(s.NodeSelector) > 0 {
		// A label that many tenants want says little: all of them would be compared with each
		// node that has it.
		of := func(key string) label { return label{key, s.NodeSelector[key]} }
		at := of(slices.MinFunc(slices.Collect(maps.Keys(s.NodeSelector)), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(r.kept[of(a)]), len(r.kept[of(b)])), cmp.Compare(a, b))
		}))
		if r.kept[at] == nil {
			r.kept[at] = map[keeper]labels.Set{}
		}
		r.by[who], r.kept[at][who] = at, s.NodeSelector
	}
}

// tell tells those who wait for a change.
func (r *Rules) tell() {
	r.version.Add(1) // a tenant may be of another template
	var all []func()
	r.mu.RLock()
	for f := range r.changes {
		all = append(all, *f)
	}
	r.mu.RUnlock()
	for _, f := range all {
		f()
	}
}

// Rule is that of one tenant.
type Rule struct {
	rules *Rules
	of    keeper
	own   labels.Set
	lacks string // what is said of a node without these labels
}

// Of is the rule of a tenant.
func (r *Rules) Of(ctx context.Context, tenant string) (Rule, error) {
	if space.IsSystem(tenant) {
		return Rule{}, nil
	}
	s, template, err := r.tenants.Scheduling(ctx, tenant)
	if err != nil {
		return Rule{}, err
	}
	rule := Rule{rules: r, of: keeper{tenant: tenant}}
	if template != "" {
		rule.of = keeper{template: template}
	}
	if s != nil {
		rule.own = s.NodeSelector
	}
	if len(rule.own) > 0 { // once for all nodes
		rule.lacks = fmt.Sprintf("did not have the labels that nodes of this tenant have: %s", rule.own)
	}
	return rule, nil
}

// Anywhere reports whether all nodes run pods of the tenant.
func (r Rule) Anywhere() bool {
	if r.rules == nil {
		return true
	}
	r.rules.mu.RLock()
	defer r.rules.mu.RUnlock()
	return len(r.own) == 0 && len(r.rules.by) == 0
}

// Refusal is why a node with these labels runs no pods of the tenant, "" if it does. What it
// says follows the name of a node.
func (r Rule) Refusal(node map[string]string) string {
	if r.rules == nil {
		return ""
	}
	if !matches(r.own, node) {
		return r.lacks
	}
	if r.rules.keptFrom(r.of, node) {
		return "had been set aside for another tenant"
	}
	return ""
}

// keptFrom reports whether another one has a node for itself alone.
func (r *Rules) keptFrom(of keeper, node map[string]string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.by) == 0 {
		return false
	}
	for key, value := range node {
		for who, wants := range r.kept[label{key, value}] {
			if who != of && matches(wants, node) {
				return true
			}
		}
	}
	return false
}

// KeptFrom reports whether a node with these labels is for others than a tenant alone, whatever nodes the tenant's
// pods run on. The system space has pods on all nodes, and yet nodes of tenants are kept from it here: what is told to
// a node can be read by who breaks out of a pod of it.
func (r *Rules) KeptFrom(ctx context.Context, tenant string, node map[string]string) bool {
	if !r.keptFrom(keeper{}, node) {
		return false
	}
	if space.IsSystem(tenant) {
		return true
	}
	rule, err := r.Of(ctx, tenant)
	return err != nil || r.keptFrom(rule.of, node)
}

// Version changes with what KeptFrom says.
func (r *Rules) Version() uint64 { return r.version.Load() }

// matches reports whether a node has all labels.
func matches(wants labels.Set, node map[string]string) bool {
	for key, value := range wants {
		if has, ok := node[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Conflict says which label a selector of a pod asks for that no node of the tenant has, ""
// for none.
func (r Rule) Conflict(selector map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(r.own)) {
		if asked, ok := selector[key]; ok && asked != r.own[key] {
			return fmt.Sprintf("asks for a node with %s=%s, and the nodes of this tenant have %[1]s=%[3]s", key, asked,
				r.own[key])
		}
	}
	return ""
}

// Anywhere reports whether all nodes run pods of a tenant.
func (r *Rules) Anywhere(ctx context.Context, tenant string) (bool, error) {
	rule, err := r.Of(ctx, tenant)
	return err == nil && rule.Anywhere(), err
}

// Refusal is that of the rule of a tenant.
func (r *Rules) Refusal(ctx context.Context, tenant string, node map[string]string) (string, error) {
	rule, err := r.Of(ctx, tenant)
	return rule.Refusal(node), err
}

// Conflict is that of the rule of a tenant.
func (r *Rules) Conflict(ctx context.Context, tenant string, selector map[string]string) (string, error) {
	rule, err := r.Of(ctx, tenant)
	return rule.Conflict(selector), err
}
