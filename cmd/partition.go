package cmd

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/problem"
)

func partitionCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "partition",
		Usage: "look at the partitions of the cluster, remove one, or evict pods from one that is away",
		Description: "A cluster begins with the partition \"main\". Others are begun with --tenant-partition and\n" +
			"--resource-partition of a4s server.",
	},
		leaf(&cli.Command{
			Name:      "list",
			ArgsUsage: "[FLAGS]",
			Usage:     "list the partitions with their roles, tenants, ranges and servers",
			Action:    action(listPartitions),
		},
			asAdmin(outputFlag())...),
		leaf(&cli.Command{
			Name:      "remove",
			ArgsUsage: "NAME [FLAGS]",
			Usage:     "take a partition without tenants out of the cluster",
			Description: "Delete its tenants and stop its servers first. " +
				"Its nodes leave with it, and with them the\n" +
				"pods of other partitions there: while there are any, it needs --force. What its servers\n" +
				"have on disk is good for the whole cluster: destroy it. A partition that was removed does\n" +
				"not come back; its name is free. With --lost, one that does not answer is removed with its\n" +
				"tenants: their names are printed, and free.",
			Before:       takes(1, 1, "the name of one partition"),
			Action:       action(removePartition),
			BashComplete: completeNames(1, partitionNames),
		},
			asAdmin(
				text("identity", "", "", "remove the one with this identity, which home does not know any more "+
					"(a4s doctor tells it)"),
				toggle("force", "", "also while pods of other partitions run on its nodes"),
				toggle("lost", "", "with its tenants, if it does not answer and never will"),
			)...),
		leaf(&cli.Command{
			Name:      "evict",
			ArgsUsage: "NAME [FLAGS]",
			Usage:     "delete the pods on all nodes of a partition that is silent",
			Description: "Nobody can tell whether the pods of a partition still run " +
				"whose servers are all silent, so\n" +
				"they are left alone until this says that they do not. Make sure that the machines are off\n" +
				"or cut off: a pod that runs on would run twice. Controllers make the pods anew on nodes of\n" +
				"other partitions; pods without one, and volumes of the nodes, are lost.",
			Before:       takes(1, 1, "the name of one partition"),
			Action:       action(evictPartition),
			BashComplete: completeNames(1, partitionNames),
		},
			asAdmin(toggle("force", "", "even if the partition answers; its nodes may run what is deleted"))...),
	)
}

func listPartitions(c *call) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	list, err := admin.Partitions(c.ctx)
	if err != nil {
		return tenantError(c.ctx, admin, "", err)
	}
	if format == "json" {
		return encode(c.out, list)
	}
	return tenantadmin.WritePartitions(c.out, list)
}

func removePartition(c *call) error {
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	name, identity := c.arg(0), c.String("identity")
	if identity == "" && !c.Bool("force") && !c.Bool("lost") {
		switch pods, tenants, err := tenantadmin.NewRemoval(admin, name).PodsOn(c.ctx); {
		case err != nil:
			return &problem.Input{Source: "NAME", Value: name, Err: err,
				Want: "partitions that answer, to count the pods on its nodes, or --force"}
		case pods > 0:
			return &problem.Input{Source: "NAME", Value: name,
				Err:  fmt.Errorf("its nodes run %d pods of other partitions, of %d tenants", pods, tenants),
				Want: `a partition whose nodes are drained with "a4s node drain", or --force, which ends these pods`}
		}
	}
	if c.Bool("lost") {
		err := tenantadmin.NewRemoval(admin, name).GiveUp(c.ctx, func(tenant string) {
			_, _ = problem.Show(c.out, "tenant %s is given up\n", tenant) // what counts is that it is done
		})
		switch {
		case errors.Is(err, tenantadmin.ErrAnswers):
			return &problem.Input{Source: "--lost", Value: "true", Err: err,
				Want: `no --lost: delete its tenants with "a4s tenant delete"`}
		case apierrors.IsNotFound(err):
			return &problem.Input{Source: "NAME", Value: name, Err: err, Want: `one that "a4s partition list" prints`}
		case err != nil:
			return explainFor(admin.Server(), err)
		}
	}
	err = admin.RemovePartition(c.ctx, name, identity)
	switch {
	case apierrors.IsNotFound(err):
		return &problem.Input{Source: "NAME", Value: name, Err: err, Want: `one that "a4s partition list" prints`}
	case apierrors.IsConflict(err), apierrors.IsForbidden(err):
		return &problem.Input{Source: "NAME", Value: name, Err: err,
			Want: "a partition without tenants, but main; --lost if its servers are gone for good"}
	case err != nil:
		return explainFor(admin.Server(), err)
	}
	_, err = problem.Show(c.out, "partition %s removed\n", name)
	return err
}

func evictPartition(c *call) error {
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	name := c.arg(0)
	done, err := admin.EvictPartition(c.ctx, name, c.Bool("force"))
	for _, e := range done {
		if _, err := problem.Show(c.out, "partition %s: %d pods on %d nodes deleted, "+
			"%d left that belong to their nodes\n", e.Partition, e.Pods, e.Nodes, e.Kept); err != nil {
			return err
		}
	}
	switch {
	case apierrors.IsNotFound(err) && done == nil:
		return &problem.Input{Source: "NAME", Value: name, Err: err, Want: `one that "a4s partition list" prints`}
	case errors.Is(err, tenantadmin.ErrNoNodes):
		return &problem.Input{Source: "NAME", Value: name, Err: err, Want: "a partition with the role resource"}
	case errors.Is(err, tenantadmin.ErrAnswers):
		return &problem.Input{Source: "NAME", Value: name, Err: err,
			Want: "one that is silent; a4s node drain is for the nodes of others; or use --force"}
	case err != nil:
		return explainFor(admin.Server(), err)
	}
	return nil
}
