package cmd

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

func nodeCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "node",
		Usage: "drain nodes, of the pods of all partitions, and revoke their credentials",
	},
		leaf(&cli.Command{
			Name:      "drain",
			ArgsUsage: "NODE... [FLAGS]",
			Usage:     "keep further pods from nodes, and evict those that they have",
			Description: "Does what kubectl drain does, in all partitions of the cluster: kubectl drain evicts the\n" +
				"pods of one partition only. Nothing is evicted before all partitions have answered.\n" +
				"kubectl uncordon lets pods onto a node again.",
			Before:       takes(1, -1, "names of nodes"),
			Action:       action(drainNodes),
			BashComplete: completeNames(-1, nodeNames),
		},
			asAdmin(
				toggle("ignore-daemonsets", "", "leave pods of DaemonSets, which would come back at once"),
				toggle("delete-emptydir-data", "", "evict pods with emptyDir volumes, whose data is lost"),
				toggle("force", "", "evict pods that no controller makes again"),
				toggle("disable-eviction", "", "delete pods instead, which ignores PodDisruptionBudgets"),
				toggle("dry-run", "", "say what would be done"),
				count("grace-period", "", -1, "`SECONDS` that pods have to end; negative for what each pod says"),
				span("timeout", "", 0, "how long the pods of a node may take to end; 0 for any time"),
				text("pod-selector", "", "", "evict only pods with these `LABELS`"),
			)...),
		leaf(&cli.Command{
			Name:      "revoke",
			ArgsUsage: "NODE... [FLAGS]",
			Usage:     "end the certificates of nodes, as of machines that were stolen or broken into",
			Description: "From then on no server takes a certificate that a node of this name has, and what it is\n" +
				"being told ends. The Node stays, and its pods are taken for lost when it is silent for long\n" +
				"enough. A machine with a token of the cluster and the node password can join under the name\n" +
				"again, so replace the token, too, if that was on the machine: a4s token rotate.\n" +
				"kubectl delete node ends them as well, and frees the name for another machine.",
			Before:       takes(1, -1, "names of nodes"),
			Action:       action(revokeNodes),
			BashComplete: completeNames(-1, nodeNames),
		},
			toggle("delete", "", "delete the Node, too, and with it its pods and its password"),
			kubeconfigFlag(),
		),
	)
}

func drainNodes(c *call) error {
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
		DryRun: c.Bool("dry-run"), GracePeriod: c.Int("grace-period"), Timeout: c.Duration("timeout"),
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

func revokeNodes(c *call) error {
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	var failed error
	for _, name := range c.args {
		failed = errors.Join(failed, revokeNode(c, cl, name))
	}
	return failed
}

func revokeNode(c *call, cl *client, name string) error {
	var resp joinapi.RevokeResponse
	if err := cl.do(c.ctx, http.MethodPost, joinapi.PathRevokeNode, joinapi.RevokeRequest{NodeName: name},
		&resp); err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	what := "all its certificates are dead; a machine with a token of the cluster can join under the name again"
	if !c.Bool("delete") {
		if resp.Registered {
			what += "; the Node is still there"
		}
	} else if err := cl.kube.CoreV1().Nodes().Delete(c.ctx, name, metav1.DeleteOptions{}); err == nil {
		what += "; the Node is deleted"
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("node %s: its certificates are dead, but deleting it failed: %w", name, err)
	}
	_, err := problem.Show(c.out, "node %s revoked: %s\n", name, what)
	return err
}
