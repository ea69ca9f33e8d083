package nodebounds

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/server/addons/servicelb"
)

// change is what a node does to its Node.
type change struct {
	ctx      context.Context
	b        *Bounds
	now, was *core.Node
	creates  bool
}

// rule is what a node may do to one field: all, nothing, or what judge says.
type rule struct {
	field string
	free  bool
	// why it is not a node's, as a clause.
	why   string
	judge func(c *change) error
}

func free(field string) rule       { return rule{field: field, free: true} }
func never(field, why string) rule { return rule{field: field, why: why} }
func judged(field string, judge func(c *change) error) rule {
	return rule{field: field, judge: judge}
}

// metaRules are for metadata.
func metaRules() []rule {
	return []rule{
		free("Name"), free("GenerateName"), free("Namespace"), free("SelfLink"), free("UID"), free("ResourceVersion"),
		free("Generation"), free("CreationTimestamp"), free("DeletionTimestamp"), free("DeletionGracePeriodSeconds"),
		free("ManagedFields"),             // all of these the API server keeps, whatever is sent
		judged("Labels", labelsOfTraffic), // NodeRestriction judges the others
		judged("Annotations", annotations),
		never("OwnerReferences", "they can hold up the deletion of what is not the node's"),
		never("Finalizers", "they can hold up the deletion of the Node"),
	}
}

// specRules are for the spec of a Node.
func specRules() []rule {
	return []rule{
		judged("PodCIDRs", podRange),
		judged("ProviderID", providerID),
		judged("Unschedulable", unschedulable),
		judged("Taints", whenMade("taints keep pods off the node, which is for administrators to end")),
		never("ConfigSource", "it names objects of the API, which the node could read then"),
		never("DoNotUseExternalID", "nothing uses it"),
		never("PodPreemptionPolicy", "it is for administrators to say"),
	}
}

// statusRules are for the status of a Node.
func statusRules() []rule {
	return []rule{
		free("Capacity"), free("Allocatable"), free("Conditions"), free("DaemonEndpoints"), free("NodeInfo"),
		free("Images"), free("VolumesInUse"), free("RuntimeHandlers"), free("Features"), free("DeclaredFeatures"),
		judged("Addresses", func(c *change) error { return c.b.judgeAddresses(c.ctx, c.now) }),
		never("Phase", "nothing uses it"),
		never("VolumesAttached", "the controller that attaches volumes keeps it"),
		never("Config", "the kubelet has no configuration in the API"),
	}
}

// judgeNode holds a node to the tables.
func (b *Bounds) judgeNode(ctx context.Context, node string, attr admission.Attributes) error {
	now, ok := attr.GetObject().(*core.Node)
	if !ok {
		return fmt.Errorf("unexpected type %T", attr.GetObject())
	}
	was, _ := attr.GetOldObject().(*core.Node)
	c := &change{ctx: ctx, b: b, now: now, was: was, creates: attr.GetOperation() == admission.Create}
	if c.creates {
		c.was = &core.Node{}
	}
	if c.was == nil {
		return errors.New("there is no Node yet")
	}
	if now.Name != node {
		return nil // NodeRestriction refuses it
	}
	return errors.Join(
		check(c, "metadata", metaRules(), &now.ObjectMeta, &c.was.ObjectMeta),
		check(c, "spec", specRules(), &now.Spec, &c.was.Spec),
		check(c, "status", statusRules(), &now.Status, &c.was.Status))
}

// check compares what two pointers to the same type lead to, by a table of its fields.
func check(c *change, at string, table []rule, now, was any) error {
	rules := map[string]rule{}
	for _, r := range table {
		rules[r.field] = r
	}
	n, w := reflect.ValueOf(now).Elem(), reflect.ValueOf(was).Elem()
	for i := range n.NumField() {
		name := n.Type().Field(i).Name
		if equality.Semantic.DeepEqual(n.Field(i).Interface(), w.Field(i).Interface()) {
			continue
		}
		r, known := rules[name]
		switch {
		case !known:
			r.why = "nothing is known of it"
		case r.free:
			continue
		case r.judge != nil:
			if err := r.judge(c); err != nil {
				return err
			}
			continue
		}
		return fmt.Errorf("%s.%s is not for a node to change: %s", at, lower(name), r.why)
	}
	return nil
}

func lower(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// whenMade lets a node say something when it makes its Node, and never again.
func whenMade(why string) func(c *change) error {
	return func(c *change) error {
		if c.creates {
			return nil
		}
		return errors.New("it is not for a node to change: " + why)
	}
}

// labelsOfTraffic are for administrators to change: a node that takes requests from outside is told the private
// keys of all Ingresses.
func labelsOfTraffic(c *change) error {
	if c.creates {
		return nil
	}
	for _, key := range servicelb.LabelsOfTraffic() {
		now, has := c.now.Labels[key]
		was, had := c.was.Labels[key]
		if now != was || has != had {
			return fmt.Errorf("it is not for a node to change %s: it says which nodes take requests from outside", key)
		}
	}
	return nil
}

// podRange is given by the server. A node that comes back says the one that its pods have; the
// storage judges it as that of everybody.
func podRange(c *change) error {
	if c.creates {
		if back, err := c.b.returns(c.now.Name); back || err != nil {
			return err
		}
	}
	return errors.New("spec.podCIDRs is given by the server, never by a node")
}

// returns reports whether a node that makes its Node comes back: the datastore was restored
// from a snapshot of a time before it joined, and so does not know it.
func (b *Bounds) returns(node string) (bool, error) {
	if b.o.Restored == nil || !b.o.Restored() {
		return false, nil
	}
	if b.o.Known == nil {
		return true, nil
	}
	known, err := b.o.Known(node)
	return !known && err == nil, err
}

// providerID can be told once, when the Node is made, and only one node has it: programs of
// clouds find machines by it.
func providerID(c *change) error {
	if !c.creates && c.was.Spec.ProviderID != "" {
		return errors.New("spec.providerID is not for a node to change: programs of clouds find the machine by it")
	}
	if err := c.b.known(); err != nil {
		return err
	}
	all, err := c.b.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.Name != c.now.Name && n.Spec.ProviderID == c.now.Spec.ProviderID {
			return errors.New("spec.providerID is that of another node")
		}
	}
	return nil
}

// unschedulable can be turned on: what an administrator cordoned stays so.
func unschedulable(c *change) error {
	if c.now.Spec.Unschedulable {
		return nil
	}
	return errors.New("spec.unschedulable is for administrators to turn off: kubectl uncordon " + c.now.Name)
}
