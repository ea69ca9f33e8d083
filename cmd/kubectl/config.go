package kubectl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/problem"
)

// configureSpaces makes "config set-context --tenant" write the address of the
// space, as a kubeconfig has no field for a tenant, and the other commands that
// write to a kubeconfig say so instead of dropping the flag.
func configureSpaces(root *cobra.Command, run *cmd.KubectlRun) error {
	const set = `"config set-context NAME --cluster=CLUSTER --tenant=%s"`
	for name, want := range map[string]string{
		"set":         set,
		"set-cluster": set + ", or the address of the space, URL/tenants/%[1]s, in --server",
		"set-credentials": set +
			", or a kubeconfig of a user of the tenant, as \"a4s tenant kubeconfig %[1]s\" makes it",
		"use-context": set + " first",
	} {
		if err := wrap(root, func(*cobra.Command, []string) error {
			tenant := run.TenantFlag()
			if tenant == "" {
				return nil
			}
			return &problem.Input{Source: "--" + tenantFlag, Value: tenant,
				Err: fmt.Errorf("config %s writes no tenant", name), Want: fmt.Sprintf(want, tenant)}
		}, "config", name); err != nil {
			return err
		}
	}
	c, err := find(root, "config", "set-context")
	if err != nil {
		return err
	}
	c.Use += " [--" + tenantFlag + "=tenant]"
	c.Example += "\n\n  # Make a context for the space of a tenant, with a cluster entry for its address\n" +
		"  kubectl config set-context team-a --cluster=default --user=default --tenant=team-a"
	return wrap(root, func(c *cobra.Command, args []string) error {
		tenant := run.TenantFlag()
		if tenant == "" {
			return nil
		}
		return setCluster(c.Flags(), args, tenant)
	}, "config", "set-context")
}

// wrap runs a function before a command of kubectl.
func wrap(root *cobra.Command, before func(*cobra.Command, []string) error, path ...string) error {
	c, err := find(root, path...)
	if err != nil {
		return err
	}
	inner := c.Run
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := before(c, args); err != nil {
			return err
		}
		inner(c, args)
		return nil
	}
	return nil
}

// setCluster writes a cluster entry for the address of the space, made from
// the one that the context has or is given, and gives the context that one.
func setCluster(flags *pflag.FlagSet, args []string, tenant string) error {
	paths := clientcmd.NewDefaultPathOptions()
	paths.LoadingRules.ExplicitPath = flags.Lookup(paths.ExplicitFileFlag).Value.String()
	cfg, err := paths.GetStartingConfig()
	if err != nil {
		return err
	}
	cluster, current := flags.Lookup(clientcmd.FlagClusterName), flags.Lookup("current").Value.String() == "true"
	name := cfg.CurrentContext
	if len(args) == 1 && !current {
		name = args[0]
	} else if len(args) > 0 || !current || name == "" {
		return nil // kubectl says what is wrong
	}
	base := cluster.Value.String()
	if known := cfg.Contexts[name]; base == "" && known != nil {
		base = known.Cluster
	}
	if base == "" {
		return &problem.Input{
			Source: "--" + tenantFlag,
			Value:  tenant,
			Err:    fmt.Errorf("the context %q has no cluster yet", name),
			Want:   "--cluster as well, with one that \"config get-clusters\" prints",
		}
	}
	entry := cfg.Clusters[base]
	if entry == nil {
		return &problem.Input{
			Source: "--" + clientcmd.FlagClusterName,
			Value:  base,
			Err:    errors.New("there is no such cluster in the kubeconfig"),
			Want:   "one that \"config get-clusters\" prints",
		}
	}
	server, of := tenantadmin.SplitAddress(entry.Server)
	if of != tenant {
		// What this made for another tenant is not to gather names.
		base = strings.TrimSuffix(base, "-"+of) + "-" + tenant
		address := tenantadmin.Address(server, tenant)
		if made := cfg.Clusters[base]; made != nil && made.Server != address {
			return &problem.Input{
				Source: "cluster " + base,
				Value:  made.Server,
				Err:    errors.New("it is there with another server"),
				Want:   address + ", or another name, by \"config set-cluster\"",
			}
		}
		made := entry.DeepCopy()
		made.Server = address
		cfg.Clusters[base] = made
		if err := clientcmd.ModifyConfig(paths, *cfg, true); err != nil {
			return err
		}
	}
	return cluster.Value.Set(base)
}
