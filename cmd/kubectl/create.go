package kubectl

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/create"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// addCreateTenant adds "create tenant" to kubectl's commands that make an
// object from its name.
func addCreateTenant(root *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams) error {
	parent, err := find(root, "create")
	if err != nil {
		return err
	}
	o := create.NewCreateSubcommandOptions(streams)
	c := &cobra.Command{
		Use:                   "tenant NAME [--dry-run=server|client|none]",
		DisableFlagsInUseLine: true,
		Aliases:               []string{"te"},
		Short:                 "Create a tenant with the specified name",
		Long: "Create a tenant with the specified name.\n\n" +
			"The command \"a4s tenant create\" waits for the space of the tenant as well, and makes a kubeconfig for it.",
		Example: "  # Create a tenant named team-a\n  kubectl create tenant team-a",
		Run: func(c *cobra.Command, args []string) {
			name, err := create.NameFromCommandArgs(c, args)
			cmdutil.CheckErr(err)
			cmdutil.CheckErr(o.Complete(f, c, args, tenantNamed(name)))
			o.EnforceNamespace = false // it is in none, whatever --namespace says
			cmdutil.CheckErr(o.Run())
		},
	}
	o.PrintFlags.AddFlags(c)
	cmdutil.AddApplyAnnotationFlags(c)
	cmdutil.AddValidateFlags(c)
	cmdutil.AddDryRunFlag(c)
	cmdutil.AddFieldManagerFlagVar(c, &o.FieldManager, "kubectl-create")
	parent.AddCommand(c)
	return nil
}

// tenantNamed is the name of a tenant to make.
type tenantNamed string

// StructuredGenerate implements generate.StructuredGenerator.
func (name tenantNamed) StructuredGenerate() (runtime.Object, error) {
	if err := space.ValidateTenant(string(name)); err != nil {
		return nil, err
	}
	t := &unstructured.Unstructured{}
	t.SetGroupVersionKind(tenantapi.GroupVersion().WithKind(tenantapi.Kind))
	t.SetName(string(name))
	return t, nil
}
