package balance

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// moveAnnotation is on each configuration that a proposal stores but its last, with what is
// still to be stored. It is of use until the next one is stored or somebody changes one of
// the two, and stays as it is then.
const moveAnnotation = "a4s.io/move"

// content is what a configuration says of tenants.
type content struct {
	Start   *string  `json:"rangeStart,omitempty"`
	End     *string  `json:"rangeEnd,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
	Drained string   `json:"drained,omitempty"`
}

// step is one configuration that is to be stored.
type step struct {
	Name string `json:"name"`
	// Version is the resource version that the configuration has until then, empty for the
	// configuration that the annotation is on: nothing knows that before it is stored.
	Version string  `json:"version,omitempty"`
	To      content `json:"to"`
}

// unstored is what is left of a proposal.
type unstored struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Stored is what the configuration that the annotation is on says.
	Stored content `json:"stored"`
	Steps  []step  `json:"steps"`
}

func contentOf(c *partitionapi.DataPartitionConfig) content {
	out := content{Tenants: c.Tenants, Drained: c.Annotations[drainedAnnotation]}
	if c.IsRangeStartValid {
		out.Start = &c.RangeStart
	}
	if c.IsRangeEndValid {
		out.End = &c.RangeEnd
	}
	return out
}

// put has a configuration say this.
func (c content) put(into *partitionapi.DataPartitionConfig) {
	into.RangeStart, into.IsRangeStartValid = value(c.Start)
	into.RangeEnd, into.IsRangeEndValid = value(c.End)
	into.Tenants = c.Tenants
	if delete(into.Annotations, drainedAnnotation); c.Drained != "" {
		metav1.SetMetaDataAnnotation(&into.ObjectMeta, drainedAnnotation, c.Drained)
	}
}

// is reports whether a configuration has these tenants.
func (c content) is(o *partitionapi.DataPartitionConfig) bool {
	now := contentOf(o)
	return ptr.Equal(c.Start, now.Start) && ptr.Equal(c.End, now.End) && slices.Equal(c.Tenants, now.Tenants)
}

// note writes on a configuration that is about to be stored what comes after it.
// version is the resource version that a configuration has then.
func (p *Proposal) note(
	c *partitionapi.DataPartitionConfig, after []*partitionapi.DataPartitionConfig,
	version func(*partitionapi.DataPartitionConfig) string,
) error {
	delete(c.Annotations, moveAnnotation)
	if len(after) == 0 {
		return nil
	}
	r := unstored{From: p.From, To: p.To, Stored: contentOf(c)}
	for _, next := range after {
		s := step{Name: next.Name, To: contentOf(next)}
		if next.Name != c.Name {
			s.Version = version(next)
		}
		r.Steps = append(r.Steps, s)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("noting what is still to be stored: %w", err)
	}
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, moveAnnotation, string(text))
	return nil
}

// Interrupted is what is left of a proposal of which only a part was stored, nil for none.
// One is left as it is when somebody has changed one of its configurations since: what a
// person says counts.
func Interrupted(configs []partitionapi.DataPartitionConfig) *Proposal {
	for i := range configs {
		if p := interruptedAt(&configs[i], configs); p != nil {
			return p
		}
	}
	return nil
}

func interruptedAt(c *partitionapi.DataPartitionConfig, configs []partitionapi.DataPartitionConfig) *Proposal {
	var r unstored
	if json.Unmarshal([]byte(c.Annotations[moveAnnotation]), &r) != nil || !r.Stored.is(c) || len(r.Steps) == 0 {
		return nil
	}
	p := &Proposal{From: r.From, To: r.To, Interrupted: true}
	for _, s := range r.Steps {
		i := slices.IndexFunc(configs, func(o partitionapi.DataPartitionConfig) bool { return o.Name == s.Name })
		if i < 0 || s.Name != c.Name && s.Version != configs[i].ResourceVersion {
			return nil
		}
		next := configs[i].DeepCopy()
		s.To.put(next)
		p.Configs = append(p.Configs, next)
	}
	return p
}
