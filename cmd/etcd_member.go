package cmd

import (
	"fmt"
	"net/http"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func etcdMemberCommand() *cli.Command {
	return leaf(&cli.Command{
		Name:  "etcd-member",
		Usage: "list and remove the members of the datastore, one on each server",
		Description: "Deleting the Node of a server removes its member as well; these are for servers\n" +
			"without a node.",
		Subcommands: []*cli.Command{
			leaf(&cli.Command{
				Name:      "list",
				Usage:     "list the members",
				ArgsUsage: "[FLAGS]",
				Flags:     []cli.Flag{kubeconfigFlag()},
				Action:    listMembers,
			}),
			leaf(&cli.Command{
				Name:        "remove",
				Usage:       "remove a member; its server ends and does not start on its old data",
				ArgsUsage:   "NAME|ID [FLAGS]",
				Description: "It is refused when too few of the others are healthy.",
				Flags:       []cli.Flag{kubeconfigFlag()},
				Action:      removeMember,
			}),
		},
	})
}

func listMembers(c *cli.Context) error {
	if err := wantArgs(c, 0, 0, "none"); err != nil {
		return err
	}
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	var resp joinapi.Members
	if err := cl.do(c.Context, http.MethodGet, joinapi.PathMembers, nil, &resp); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tID\tADDRESS\tSTATE")
	for _, m := range resp.Members {
		name, state := m.Name, "votes"
		switch {
		case name == "":
			name, state = "-", "never started"
		case m.Learner:
			state = "catches up"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, m.ID, m.Address, state)
	}
	return w.Flush()
}

func removeMember(c *cli.Context) error {
	if err := wantArgs(c, 1, 1, `one member, by the name or ID that "a4s etcd-member list" prints`); err != nil {
		return err
	}
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	name := c.Args().First()
	if err := cl.do(c.Context, http.MethodPost, joinapi.PathRemoveMember,
		joinapi.MemberRequest{Member: name}, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "member %s removed\n", name)
	return err
}
