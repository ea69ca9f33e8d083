package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/problem"
)

func nodeCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "node",
		Short: "drain nodes, of the pods of all partitions",
	},
		leaf(&cobra.Command{
			Use:   "drain NODE... [FLAGS]",
			Short: "keep further pods from nodes, and evict those that they have",
			Long: "Does what kubectl drain does, in all partitions of the cluster: kubectl drain evicts the\n" +
				"pods of one partition only. Nothing is evicted before all partitions have answered.\n" +
				"kubectl uncordon lets pods onto a node again.",
			RunE:              action(drainNodes),
			ValidArgsFunction: completeNodes,
		},
			toggle("ignore-daemonsets", "", "leave pods of DaemonSets, which would come back at once"),
			toggle("delete-emptydir-data", "", "evict pods with emptyDir volumes, whose data is lost"),
			toggle("force", "", "evict pods that no controller makes again"),
			toggle("disable-eviction", "", "delete pods instead, which ignores PodDisruptionBudgets"),
			toggle("dry-run", "", "say what would be done"),
			count("grace-period", "", -1, "`SECONDS` that pods have to end; negative for what each pod says"),
			span("timeout", "", 0, "how long the pods of a node may take to end; 0 for any time"),
			text("pod-selector", "", "", "evict only pods with these `LABELS`"),
			adminKubeconfigFlag(),
		),
	)
}

func drainNodes(c *call) error {
	if err := wantArgs(c, 1, -1, "names of nodes"); err != nil {
		return err
	}
	grace, err := c.Flags().GetInt("grace-period")
	if err != nil {
		return err
	}
	if c.Duration("timeout") < 0 {
		return &problem.Input{Source: "--timeout", Value: c.String("timeout"), Err: errors.New("it is negative"),
			Want: "how long to wait, such as 5m, or 0 to wait for any time"}
	}
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	nodes, err := admin.Nodes(c.ctx)
	if err != nil {
		return explainFor(admin.Server(), err)
	}
	o := tenantadmin.DrainOptions{
		Force: c.Bool("force"), IgnoreDaemonSets: c.Bool("ignore-daemonsets"),
		DeleteEmptyDirData: c.Bool("delete-emptydir-data"), DisableEviction: c.Bool("disable-eviction"),
		DryRun: c.Bool("dry-run"), GracePeriod: grace, Timeout: c.Duration("timeout"),
		PodSelector: c.String("pod-selector"), Out: c.out, ErrOut: c.errOut,
	}
	var failed error
	for _, name := range c.args {
		err := nodes.Drain(c.ctx, name, o)
		if errors.Is(err, tenantadmin.ErrNoNode) {
			err = &problem.Input{Source: "NODE", Value: name, Err: err, Want: `one that "kubectl get nodes" prints`}
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
