package balance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/groups/load"
)

// Configs are where configurations are kept.
type Configs interface {
	List(context.Context, metav1.ListOptions) (*partitionapi.DataPartitionConfigList, error)
	Update(context.Context, *partitionapi.DataPartitionConfig, metav1.UpdateOptions) (
		*partitionapi.DataPartitionConfig, error)
}

// Store is where proposals are read from and stored.
type Store struct {
	Configs Configs
	Tenants *tenantapi.Client
	Kube    kubernetes.Interface
}

// NewStore makes a store with the rights of a configuration. A nil http means one by the
// configuration.
func NewStore(config *rest.Config, http *http.Client) (*Store, error) {
	if http == nil {
		var err error
		if http, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("making a client: %w", err)
		}
	}
	configs, err := partitionapi.NewClient(config, http)
	if err != nil {
		return nil, err
	}
	tenants, err := tenantapi.NewClient(config, http)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfigAndClient(config, http)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Store{Configs: configs, Tenants: tenants, Kube: kube}, nil
}

// State is what proposals depend on.
type State struct {
	Configs []partitionapi.DataPartitionConfig
	Loads   Loads
	Servers []servers.Server
}

// Groups are the groups in the order of their ranges.
func (s *State) Groups() []Group { return Groups(s.Configs, s.Loads) }

// Suggest proposes to go on with what was interrupted, else the move that helps most, nil
// for none.
func (s *State) Suggest() *Proposal {
	if p := Interrupted(s.Configs); p != nil {
		return p
	}
	return Suggest(s.Configs, s.Loads, s.runs)
}

// Drain proposes to give everything that a group owns to a neighbour.
func (s *State) Drain(group string) (*Proposal, error) { return Drain(s.Configs, s.Loads, group) }

// Undrain proposes to give a drained group back what it had.
func (s *State) Undrain(group string) (*Proposal, error) { return Undrain(s.Configs, s.Loads, group) }

// Runs reports whether a server of a group is ready.
func (s *State) Runs(group string) bool { return s.runs(group) }

// runs reports whether a server of a group is ready.
func (s *State) runs(group string) bool {
	return slices.ContainsFunc(s.Servers, func(o servers.Server) bool { return o.Ready && o.Group == group })
}

// Revision is that of the newest configuration, 0 if there is none. What a deleted one
// had is not known.
func (s *State) Revision() int64 {
	newest := int64(0)
	for i := range s.Configs {
		if rev, err := strconv.ParseInt(s.Configs[i].ResourceVersion, 10, 64); err == nil {
			newest = max(newest, rev)
		}
	}
	return newest
}

// Read returns what proposals depend on. The system is no tenant that could move: all
// groups hold it.
func (s *Store) Read(ctx context.Context) (*State, error) {
	configs, err := s.Configs.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the configurations of service groups: %w", err)
	}
	state := &State{Configs: configs.Items, Loads: Loads{}}
	if state.Servers, err = servers.List(ctx, s.Kube); err != nil {
		return nil, err
	}
	rates, err := load.Read(ctx, s.Kube, time.Now())
	if err != nil {
		return nil, err
	}
	for options := (metav1.ListOptions{}); ; {
		page, err := s.Tenants.List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("reading what tenants have: %w", err)
		}
		for i := range page.Items {
			if t := &page.Items[i]; t.Name != space.System {
				state.Loads[t.Name] = Load{Objects: objects(t), Rate: rates[t.Name]}
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return state, nil
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
// tenant without an owner. Each one that is stored says what comes after it: where this
// process ends in between, Interrupted finds the rest, and whoever looks at the groups next
// goes on, a person by Settle and Suggest or Automatic.
func (s *Store) Apply(ctx context.Context, p *Proposal) error {
	versions := map[string]string{}
	version := func(c *partitionapi.DataPartitionConfig) string {
		if v, again := versions[c.Name]; again {
			return v
		}
		return c.ResourceVersion
	}
	for i, c := range p.Configs {
		c = c.DeepCopy()
		c.ResourceVersion = version(c)
		if err := p.note(c, p.Configs[i+1:], version); err != nil {
			return err
		}
		stored, err := s.Configs.Update(ctx, c, metav1.UpdateOptions{FieldManager: "a4s"})
		if err != nil {
			return fmt.Errorf("storing the configuration %s of service group %s: %w", c.Name, c.ServiceGroupID, err)
		}
		versions[c.Name] = stored.ResourceVersion
	}
	return nil
}

// Settle goes on with what was interrupted and returns it, nil for nothing, and the state
// after that.
func (s *Store) Settle(ctx context.Context, state *State) (*State, *Proposal, error) {
	p := Interrupted(state.Configs)
	if p == nil {
		return state, nil, nil
	}
	if err := s.Apply(ctx, p); err != nil {
		return nil, nil, fmt.Errorf("going on with a move from service group %s to %s that was interrupted: %w",
			p.From, p.To, err)
	}
	state, err := s.Read(ctx)
	return state, p, err
}
