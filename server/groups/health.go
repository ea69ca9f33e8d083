package groups

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/groups/balance"
)

// check finds tenants without a group and groups without servers.
func check(registry *servers.Registry, client balance.Configs) health.Check {
	return func(ctx context.Context, r *health.Registry) {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return // of the API server others tell
		}
		var configs []ownership.Config
		ready, alone := map[string]bool{}, []string{}
		for _, s := range registry.All() {
			ready[s.Group] = ready[s.Group] || s.Ready
		}
		for i := range list.Items {
			c := ownership.NewConfig(&list.Items[i], list.Items[i].CreationTimestamp.Unix())
			configs = append(configs, c)
			if !ready[c.Group] && !(c.Span.Empty() && len(c.Tenants) == 0) {
				alone = append(alone, c.Group)
				r.Set(health.ServiceGroupNoOne, c.Group, "its configuration is "+c.Name)
			}
		}
		r.Keep(health.ServiceGroupNoOne, alone)
		gaps := ownership.NewTable(configs).Gaps()
		r.Report(len(gaps) > 0, health.ServiceGroupGap, "", fmt.Sprintf("%d ranges: %s", len(gaps), gaps))
		if p := balance.Interrupted(list.Items); p != nil {
			r.Set(health.ServiceGroupInterrupted, "", "from service group "+p.From+" to "+p.To)
		} else {
			r.Clear(health.ServiceGroupInterrupted, "")
		}
		var overlaps []string
		for _, pair := range ownership.Overlaps(configs) {
			name := pair[0] + " and " + pair[1]
			overlaps = append(overlaps, name)
			r.Set(health.ServiceGroupOverlap, name, "")
		}
		r.Keep(health.ServiceGroupOverlap, overlaps)
	}
}

// metrics are of what this server holds for its group.
func (g *group) metrics(s Spaces) health.Metrics {
	return func(add func(name, help string, value float64, labels map[string]string)) {
		p, ok := s.Progress()
		if !ok {
			return
		}
		tenants, objects := 0, int64(0)
		for _, tenant := range s.Tenants() {
			if tenant != space.System && p.Table.Holds(g.o.ID, tenant) {
				tenants++
				objects += s.Objects(tenant)
			}
		}
		of := map[string]string{"group": g.o.ID}
		add("service_group_tenants", "How many tenants this server caches.", float64(tenants), of)
		add("service_group_objects", "How many objects the tenants have that this server caches.",
			float64(objects), of)
		add("service_group_revision", "The revision of the newest change of DataPartitionConfigs that all caches "+
			"of this server have met.", float64(p.Revision), of)
		add("service_group_moves", "How many changes of DataPartitionConfigs have brought tenants to this server "+
			"or taken them since its start.", float64(p.Moves), of)
	}
}
