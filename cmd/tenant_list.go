package cmd

import (
	"cmp"
	"fmt"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/problem"
)

func listTenants(c *call) error {
	format := c.String("output")
	write, known := tenantadmin.Writer(format)
	if !known {
		return &problem.Input{Source: "--output", Value: format, Want: "table, wide, json, yaml or name"}
	}
	admin, _, inSpace, err := clusterFrom(cmp.Or(c.String("kubeconfig"), c.String(formerKubeconfig)))
	if err != nil {
		return err
	}
	list, err := admin.List(c.ctx)
	if names := tenantadmin.Memberships(err); names != nil {
		return listMemberships(c, format, names)
	}
	if inSpace != nil {
		return inSpace
	}
	if err != nil {
		return tenantError(c.ctx, admin, "", err)
	}
	if err := write(c.out, list); err != nil || format != "table" && format != "wide" {
		return err
	}
	if hint := admin.Elsewhere(c.ctx, list); hint != "" {
		_, err = fmt.Fprintln(c.errOut, hint)
	}
	return err
}

// listMemberships writes the tenants of which somebody is a member.
func listMemberships(c *call, format string, names []string) error {
	if err := tenantadmin.WriteMemberships(c.out, format, names); err != nil || format != "table" && format != "wide" {
		return err
	}
	_, err := fmt.Fprintln(c.errOut, "You are a member of these tenants. "+
		"Choose one by \"a4s kubectl --tenant NAME\", or by "+
		"/tenants/NAME behind the address of the server in your kubeconfig.")
	return err
}
