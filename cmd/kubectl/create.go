package kubectl

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/kubectl/pkg/cmd/create"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/scheme"
	"k8s.io/kubectl/pkg/util"

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
	o := &createTenant{print: genericclioptions.NewPrintFlags("created").WithTypeSetter(scheme.Scheme),
		streams: streams}
	c := &cobra.Command{
		Use:                   "tenant NAME [--dry-run=server|client|none]",
		DisableFlagsInUseLine: true,
		Aliases:               []string{"te"},
		Short:                 "Create a tenant with the specified name",
		Long: "Create a tenant with the specified name.\n\n" +
			"The command \"a4s tenant create\" waits for the space of the tenant as well, " +
			"and makes a kubeconfig for it.",
		Example: "  # Create a tenant named team-a\n  kubectl create tenant team-a",
		Run: func(c *cobra.Command, args []string) {
			name, err := create.NameFromCommandArgs(c, args)
			cmdutil.CheckErr(err)
			cmdutil.CheckErr(o.run(f, c, name))
		},
	}
	o.print.AddFlags(c)
	cmdutil.AddApplyAnnotationFlags(c)
	cmdutil.AddValidateFlags(c)
	cmdutil.AddDryRunFlag(c)
	cmdutil.AddFieldManagerFlagVar(c, &o.fieldManager, "kubectl-create")
	parent.AddCommand(c)
	return nil
}

// createTenant is "create tenant" with its flags.
type createTenant struct {
	print        *genericclioptions.PrintFlags
	fieldManager string
	streams      genericiooptions.IOStreams
}

func (o *createTenant) run(f cmdutil.Factory, c *cobra.Command, name string) error {
	tenant, err := newTenant(name)
	if err != nil {
		return err
	}
	if err := util.CreateOrUpdateAnnotation(cmdutil.GetFlagBool(c, cmdutil.ApplyAnnotationsFlag), tenant,
		scheme.DefaultJSONEncoder()); err != nil {
		return err
	}
	dryRun, err := cmdutil.GetDryRunStrategy(c)
	if err != nil {
		return err
	}
	cmdutil.PrintFlagsWithDryRunStrategy(o.print, dryRun)
	printer, err := o.print.ToPrinter()
	if err != nil {
		return err
	}
	validation, err := cmdutil.GetValidationDirective(c)
	if err != nil {
		return err
	}
	if dryRun == cmdutil.DryRunClient {
		return printer.PrintObj(tenant, o.streams.Out)
	}
	mapper, err := f.ToRESTMapper()
	if err != nil {
		return err
	}
	mapping, err := mapper.RESTMapping(tenant.GroupVersionKind().GroupKind(), tenant.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	client, err := f.UnstructuredClientForMapping(mapping)
	if err != nil {
		return err
	}
	made, err := resource.NewHelper(client, mapping).DryRun(dryRun == cmdutil.DryRunServer).
		WithFieldManager(o.fieldManager).WithFieldValidation(validation).Create("", false, tenant)
	if err != nil {
		return err
	}
	return printer.PrintObj(made, o.streams.Out)
}

// newTenant is the tenant to make.
func newTenant(name string) (*unstructured.Unstructured, error) {
	if err := space.ValidateTenant(name); err != nil {
		return nil, err
	}
	t := &unstructured.Unstructured{}
	t.SetGroupVersionKind(tenantapi.GroupVersion().WithKind(tenantapi.Kind))
	t.SetName(name)
	return t, nil
}
