package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// Partition is the partition that this server is told to begin, "" for none, and the
// roles that it has.
func (s *Server) Partition() (name string, roles []partitionapi.Role) {
	if s.TenantPartition != "" {
		roles = append(roles, partitionapi.RoleTenant)
	}
	if s.ResourcePartition != "" {
		roles = append(roles, partitionapi.RoleResource)
	}
	return cmp.Or(s.TenantPartition, s.ResourcePartition), roles
}

// partition checks the flags of a partition.
func (c *serverChecker) partition() {
	s := c.server
	for setting, name := range map[string]string{
		"tenant-partition": s.TenantPartition, "resource-partition": s.ResourcePartition,
	} {
		const want = "a name such as tp2"
		if name == "" {
			continue
		}
		switch problems := validation.IsDNS1123Label(name); {
		case len(problems) > 0:
			c.fail(setting, name, errors.New(strings.Join(problems, "; ")), want)
		case name == partitionapi.Home:
			c.fail(setting, name, errors.New("the partition that a cluster begins with has this name; its servers "+
				"are started without the flag"), "another name such as tp2")
		case name == space.System || name == space.All:
			c.fail(setting, name, errors.New("the name is reserved"), want)
		}
	}
	name, _ := s.Partition()
	flag := "tenant-partition"
	if s.TenantPartition == "" {
		flag = "resource-partition"
	}
	switch {
	case s.TenantPartition != "" && s.ResourcePartition != "" && s.TenantPartition != s.ResourcePartition:
		c.fail("resource-partition", s.ResourcePartition,
			fmt.Errorf("this server is of one partition, and %s names %q", c.source("tenant-partition"),
				s.TenantPartition), "the same name, for a partition with tenants and nodes")
	case name != "" && len(s.ClusterURLs) == 0 && len(s.JoinURLs) == 0:
		c.fail(flag, name, errors.New("it is not said which cluster the partition belongs to"),
			c.source("cluster")+" with the address of a server of the cluster, and its token, or "+
				c.source("server")+" with that of a server of the partition")
	case name == "" && len(s.ClusterURLs) > 0 && len(s.JoinURLs) == 0:
		c.fail("cluster", s.ClusterURLs[0], errors.New("this server begins no partition"),
			c.source("tenant-partition")+" or "+c.source("resource-partition")+" as well; to join as another "+
				"server, "+c.source("server"))
	}
	for _, url := range s.ClusterURLs {
		c.urlOf("cluster", url)
	}
}
