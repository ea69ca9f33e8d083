package tenantapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/space"
)

// systemGroups begin the names of the groups of Kubernetes itself.
const systemGroups = "system:"

// Groups are the tenants of which members of a group are members, by the group as an identity provider
// says it.
type Groups map[string][]string

var errGroup = errors.New("it is not a group, = and tenants with commas between them")

// ParseGroups reads settings, "group=tenant,tenant" each; "" is none.
func ParseGroups(settings []string) (Groups, error) {
	out := Groups{}
	for _, s := range settings {
		if s == "" {
			continue
		}
		at := strings.LastIndex(s, "=") // a group may have one in its name, a tenant may not
		if at <= 0 {
			return nil, errGroup
		}
		group, tenants := s[:at], strings.Split(s[at+1:], ",")
		switch {
		case group != strings.TrimSpace(group):
			return nil, fmt.Errorf("the group %q begins or ends with a space", group)
		case strings.HasPrefix(group, systemGroups):
			return nil, fmt.Errorf("groups that begin with %s are those of Kubernetes itself", systemGroups)
		case out[group] != nil:
			return nil, fmt.Errorf("the group %s is there twice", group)
		}
		for i, name := range tenants {
			if err := space.ValidateTenant(name); err != nil {
				return nil, err // of the system, too: that is no tenant
			}
			if slices.Contains(tenants[:i], name) {
				return nil, fmt.Errorf("the tenant %s is there twice", name)
			}
		}
		out[group] = tenants
	}
	return out, nil
}

// Of are the tenants of which somebody is a member who is in these groups, in order.
func (g Groups) Of(groups []string) (tenants []string) {
	if len(g) == 0 {
		return nil
	}
	for _, group := range groups {
		tenants = append(tenants, g[group]...)
	}
	slices.Sort(tenants)
	return slices.Compact(tenants)
}
