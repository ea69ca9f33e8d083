package cmd

import (
	"fmt"
	"net/http"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

func etcdMemberCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "etcd-member",
		Usage: "list and remove the members of the datastore, one on each server",
		Description: "Deleting the Node of a server removes its member as well; these are for servers\n" +
			"without a node.",
	},
		leaf(&cli.Command{
			Name:      "list",
			ArgsUsage: "[FLAGS]",
			Usage:     "list the members",
			Action:    action(listMembers),
		},
			kubeconfigFlag(),
		),
		leaf(&cli.Command{
			Name:        "remove",
			ArgsUsage:   "NAME|ID [FLAGS]",
			Usage:       "remove a member; its server ends and does not start on its old data",
			Description: "It is refused when too few of the others are healthy.",
			Before:      takes(1, 1, `one member, by the name or ID that "a4s etcd-member list" prints`),
			Action:      action(removeMember),
		},
			kubeconfigFlag(),
		),
	)
}

func listMembers(c *call) error {
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	var resp joinapi.Members
	if err := cl.do(c.ctx, http.MethodGet, joinapi.PathMembers, nil, &resp); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tID\tADDRESS\tSTATE")
	for _, m := range resp.Members {
		name, state := m.Name, "votes"
		switch {
		case name == "":
			name, state = "-", "never started"
		case m.Learner:
			state = "catches up"
		}
		problem.Show(w, "%s\t%s\t%s\t%s\n", name, m.ID, m.Address, state)
	}
	return w.Flush()
}

func removeMember(c *call) error {
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	name := c.arg(0)
	if err := cl.do(c.ctx, http.MethodPost, joinapi.PathRemoveMember,
		joinapi.MemberRequest{Member: name}, nil); err != nil {
		return err
	}
	_, err = problem.Show(c.out, "member %s removed\n", name)
	return err
}
