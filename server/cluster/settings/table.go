package settings

import (
	"slices"
	"strconv"
	"strings"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
)

// rule says what a later start may do with a setting.
type rule int

const (
	// stays is a setting that is part of what the cluster has stored: another value is refused.
	stays rule = iota
	// said is a setting that a start may change, but only by saying the new value: one that is left away would go back
	// to the default in silence.
	said
	// elsewhere is a setting whose own package compares it with what is there.
	elsewhere
)

// decision is what was decided about a setting.
type decision struct {
	name string // of the flag
	rule rule
	// servers says that all servers of a cluster must have the same, partitions that all partitions must.
	servers, partitions bool
	// value is set for those that are compared here.
	value func(*config.Server) string
	why   string
}

// decisions are those that a server compares with others, or with its last start. Each start and each server may have
// all other settings as it likes; the test names them, with the reason.
func decisions() []decision {
	return []decision{
		{name: "cluster-cidr", rule: stays, servers: true,
			value: func(c *config.Server) string { return c.ClusterCIDR }, why: "nodes and pods have addresses of it"},
		{name: "service-cidr", rule: stays, servers: true,
			value: func(c *config.Server) string { return c.ServiceCIDR },
			why:   "Services have addresses of it, and the certificate of the API its first one"},
		{name: "service-node-port-range", rule: said, servers: true,
			value: func(c *config.Server) string { return c.ServiceNodePortRange },
			why:   "Services keep node ports outside of it, and another partition may have the default"},
		{name: "cluster-dns", rule: stays, servers: true,
			value: func(c *config.Server) string { return c.ClusterDNS }, why: "running pods ask it"},
		{name: "cluster-domain", rule: stays, servers: true, partitions: true,
			value: func(c *config.Server) string { return c.ClusterDomain },
			why:   "running pods search it, and tokens and certificates have it"},
		{name: "flannel-backend", rule: said, servers: true,
			value: func(c *config.Server) string { return c.FlannelBackend },
			why:   "nodes that start take it over, and do not reach those with another one"},
		{name: "default-tenant", rule: said, servers: true, partitions: true,
			value: func(c *config.Server) string { return c.DefaultTenant },
			why:   "without it users of no tenant are in the system space"},
		{name: "tenant-group", rule: said, servers: true, partitions: true,
			value: func(c *config.Server) string {
				return strings.Join(slices.Sorted(slices.Values(c.TenantGroups)), " ")
			},
			why: "without it its members lose their tenants, and who has no other is in the system space"},
		{name: "secrets-encryption", rule: elsewhere, servers: true,
			value: func(c *config.Server) string { return strconv.FormatBool(c.SecretsEncryption) },
			why:   "server/cluster/encryption: it can be added, and what is encrypted stays so without it"},

		{name: "datastore-endpoint", rule: elsewhere, why: "server/datastore: the record of the datastore"},
		{name: "disable-etcd", rule: elsewhere, why: "server: the member, or the members of others, that it has"},
		{name: "cluster-init", rule: elsewhere, why: "embedded/etcd: a datastore of several stays one"},
		{name: "token", rule: elsewhere, why: "internal/jointoken: nodes know it"},
		{name: "token-file", rule: elsewhere, why: "as token"},
		{name: "agent-token", rule: elsewhere, why: "internal/jointoken: nodes know it"},
		{name: "agent-token-file", rule: elsewhere, why: "as agent-token"},
		{name: "tenant-partition", rule: elsewhere, why: "server/partition: what the partition began as"},
		{name: "resource-partition", rule: elsewhere, why: "server/partition: what the partition began as"},
		{name: "disable-agent", rule: elsewhere, why: "server/partition: a partition without nodes has none"},
	}
}

// OfServers are the settings on which all servers of a cluster must agree.
func OfServers(c *config.Server) []joinapi.ServerSetting {
	return those(c, func(d decision) bool { return d.servers })
}

// OfServersForGood are those of OfServers that never change.
func OfServersForGood(c *config.Server) []joinapi.ServerSetting {
	return those(c, func(d decision) bool { return d.servers && d.rule == stays })
}

// OfPartitions are the settings on which all partitions of a cluster must agree.
func OfPartitions(c *config.Server) []joinapi.ServerSetting {
	return those(c, func(d decision) bool { return d.partitions })
}

func those(c *config.Server, of func(decision) bool) (out []joinapi.ServerSetting) {
	for _, d := range decisions() {
		if of(d) {
			out = append(out, joinapi.ServerSetting{Flag: config.Dashed(d.name), Value: d.value(c)})
		}
	}
	return out
}
