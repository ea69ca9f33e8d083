package kubectl

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a4s-io/a4s/cmd"
)

// copyInSpaces lets the files of cp be in TENANT/NAMESPACE/POD:PATH.
func copyInSpaces(root *cobra.Command, run *cmd.KubectlRun) error {
	c, err := find(root, "cp")
	if err != nil {
		return err
	}
	c.Example += "\n\n  # Copy /tmp/foo from a pod of a tenant to /tmp/bar locally\n" +
		"  kubectl cp <some-tenant>/<some-namespace>/<some-pod>:/tmp/foo /tmp/bar"
	inner := c.Run
	c.Run = func(c *cobra.Command, args []string) {
		args = slices.Clone(args)
		for i, arg := range args {
			n := cmd.Named{Typed: true}
			if n.Tenant, args[i] = splitFileSpec(arg); n.Tenant != "" {
				n.Source = "file " + arg + ": tenant"
				run.Name(n)
			}
		}
		inner(c, args)
	}
	return nil
}

// splitFileSpec takes the tenant out of the name of a file in a pod.
func splitFileSpec(arg string) (tenant, rest string) {
	pod, _, remote := strings.Cut(arg, ":")
	const parts = 3
	if names := strings.Split(pod, "/"); !remote || len(names) != parts || names[0] == "" {
		return "", arg // kubectl's own
	}
	tenant, rest, _ = strings.Cut(arg, "/")
	return tenant, rest
}
