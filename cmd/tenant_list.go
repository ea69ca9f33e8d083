package cmd

import (
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
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	list, err := admin.List(c.ctx)
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
