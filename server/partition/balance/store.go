package balance

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// movedAnnotation is on configurations, with when the last proposal was stored.
const movedAnnotation = "a4s.io/moved-at"

// Store is where proposals are read from and stored.
type Store struct {
	Configs *partitionapi.Client
	Tenants *tenantapi.Client
}

// Read returns the configurations, and what each tenant has.
func (s Store) Read(ctx context.Context) ([]partitionapi.DataPartitionConfig, Loads, error) {
	configs, err := s.Configs.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the configurations of service groups: %w", err)
	}
	loads := Loads{}
	for options := (metav1.ListOptions{}); ; {
		page, err := s.Tenants.List(ctx, options)
		if err != nil {
			return nil, nil, fmt.Errorf("reading what tenants have: %w", err)
		}
		for i := range page.Items {
			loads[page.Items[i].Name] = objects(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return configs.Items, loads, nil
		}
	}
}

// objects are how many a tenant has.
func objects(t *tenantapi.Tenant) int64 {
	for _, u := range t.Status.Usage {
		if u.Name == tenantapi.LimitObjects {
			return u.Used.Value()
		}
	}
	return 0
}

// Apply stores the configurations of a proposal in their order. It fails with a conflict
// if one has changed since it was read; what was stored until then stays, and leaves no
// tenant without an owner.
func (s Store) Apply(ctx context.Context, p *Proposal) error {
	versions := map[string]string{}
	for _, c := range p.Configs {
		c = c.DeepCopy()
		if v, again := versions[c.Name]; again {
			c.ResourceVersion = v
		}
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, movedAnnotation, time.Now().UTC().Format(time.RFC3339))
		stored, err := s.Configs.Update(ctx, c, metav1.UpdateOptions{FieldManager: "a4s"})
		if err != nil {
			return fmt.Errorf("storing the configuration %s of service group %s: %w", c.Name, c.ServiceGroupID, err)
		}
		versions[c.Name] = stored.ResourceVersion
	}
	return nil
}

// moved is when a proposal was stored last, zero for never.
func moved(configs []partitionapi.DataPartitionConfig) time.Time {
	var last time.Time
	for i := range configs {
		at, err := time.Parse(time.RFC3339, configs[i].Annotations[movedAnnotation])
		if err == nil && at.After(last) {
			last = at
		}
	}
	return last
}
