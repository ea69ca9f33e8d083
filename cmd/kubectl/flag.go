package kubectl

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/cmd/tenantadmin"
)

const tenantFlag = "tenant"

// completionTimeout bounds what a shell waits for.
const completionTimeout = 2 * time.Second

// addTenantFlag makes --tenant a flag of kubectl's own: for its help, for
// completion, and for --record, which reads the command line once more. Its
// value was taken from the arguments before, but for completion.
func addTenantFlag(root *cobra.Command, run *cmd.KubectlRun, f cmdutil.Factory) error {
	root.PersistentFlags().StringVar(&run.Tenant, tenantFlag, run.Tenant,
		"If present, the space of this tenant is that of the command, with the rights of the kubeconfig")
	return root.RegisterFlagCompletionFunc(tenantFlag,
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			names, err := tenants(run, f)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		})
}

func tenants(run *cmd.KubectlRun, f cmdutil.Factory) ([]string, error) {
	run.Tenant = "" // that is being completed
	cfg, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	admin, err := tenantadmin.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	list, err := admin.List(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}
