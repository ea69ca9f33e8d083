package cmd

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/problem"
)

func groupsCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "groups",
		Usage: "look at service groups, and move tenants between them",
		Description: "The servers of a service group (--service-group-id) cache the tenants of the group's\n" +
			"DataPartitionConfig; every server answers for all tenants.",
	},
		leaf(&cli.Command{
			Name:      "list",
			ArgsUsage: "[FLAGS]",
			Usage:     "list the groups with their ranges, tenants, load and servers",
			Description: "The load of a group is the part that its tenants have of all objects, writes and bytes\n" +
				"to watches. A change of ranges is complete when every server has applied its revision.",
			Action: action(listGroups),
		},
			asAdmin(outputFlag())...),
		leaf(&cli.Command{
			Name:      "suggest",
			ArgsUsage: "[FLAGS]",
			Usage:     "say which tenants to move so that two neighbours have about the same load",
			Description: "Changes nothing. The load of a tenant is its part of all objects, writes and bytes to\n" +
				"watches; the last two are averages of about ten minutes, published every minute.",
			Action: action(suggestGroups),
		},
			asAdmin()...),
		leaf(&cli.Command{
			Name:      "apply",
			ArgsUsage: "[FLAGS]",
			Usage:     "move the tenants that suggest names",
			Action:    action(applyGroups),
		},
			asAdmin()...),
		leaf(&cli.Command{
			Name:      "drain",
			ArgsUsage: "GROUP [FLAGS]",
			Usage:     "give all tenants of a group to a neighbour, so that its servers can stop",
			Description: "The group keeps a configuration without tenants. Delete that when its servers have\n" +
				"stopped: a server of a group without a configuration caches all tenants. Until then\n" +
				"--undo gives the group back what it had.",
			Before: takes(1, 1, "the ID of one service group"),
			Action: action(drainGroup),
		},
			asAdmin(toggle("undo", "", "give a drained group back what it had"))...),
	)
}

func listGroups(c *call) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	groups, err := admin.Groups(c.ctx)
	if err != nil {
		return err
	}
	if format == "json" {
		return encode(c.out, groups)
	}
	return groups.Write(c.out)
}

func suggestGroups(c *call) error { return proposal(c, "would move", (*tenantadmin.Admin).SuggestMove) }

func applyGroups(c *call) error { return proposal(c, "move", (*tenantadmin.Admin).ApplyMove) }

func proposal(
	c *call, verb string, propose func(*tenantadmin.Admin, context.Context) (*tenantadmin.Move, error),
) error {
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	move, err := propose(admin, c.ctx)
	if err != nil {
		return err
	}
	return move.Write(c.out, verb)
}

func drainGroup(c *call) error {
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	undo := c.Bool("undo")
	move, err := admin.Drain(c.ctx, c.arg(0), undo)
	var cannot *tenantadmin.DrainError
	if errors.As(err, &cannot) {
		want := `a group with a range next to that of another one, as "a4s groups list" prints them`
		if undo {
			want = "a group that was drained, while the range of its neighbour still ends with its own; " +
				"set the ranges with kubectl edit datapartitionconfigs otherwise"
		}
		return &problem.Input{Source: "GROUP", Value: c.arg(0), Err: cannot.Err, Want: want}
	}
	if err != nil {
		return err
	}
	return move.Write(c.out, "move")
}
