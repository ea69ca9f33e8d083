package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	createTimeout = time.Minute
	deleteTimeout = 5 * time.Minute
	year          = 365 * 24 * time.Hour
	// noRole is the value of --role for no binding.
	noRole = "none"
)

func tenantCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "tenant",
		Usage: "manage tenants and the access to their spaces",
		Description: "A tenant has a space: namespaces and cluster-scoped objects of its own, which its\n" +
			"users see as a cluster of their own.",
	},
		leaf(&cli.Command{
			Name:      "create",
			ArgsUsage: "NAME [FLAGS]",
			Usage:     "make a tenant, and a kubeconfig for it",
			Description: "A tenant that exists stays as it is, so the command can be run again. The user\n" +
				"\"admin\" has all rights in the space; others get them by a ClusterRoleBinding.",
			Before: takes(1, 1, "the name of one tenant"),
			Action: action(createTenant),
		},
			asAdmin(append(accessFlags(),
				text("role", "", tenantadmin.AdminRole,
					"ClusterRole in the space for a user other than admin, `NAME` or none"),
				text("partition", "", "", "tenant partition of the cluster that gets the tenant, by `NAME`",
					"the one with the fewest tenants"),
				text("output", "o", "",
					"write a kubeconfig of the user to `FILE`; - is standard output", "none is written"),
				span("timeout", "", createTimeout, "`DURATION` to wait for the space", "1m"),
			)...)...),
		leaf(&cli.Command{
			Name:      "list",
			ArgsUsage: "[FLAGS]",
			Usage:     "list tenants",
			Description: "Who is a member of several tenants, and no administrator, sees the names of theirs;\n" +
				"--kubeconfig is their own then.",
			Action: action(listTenants),
		},
			asAdmin(text("output", "o", "table", "`FORMAT` of the output: table, wide, json, yaml or name"))...),
		leaf(&cli.Command{
			Name:      "delete",
			ArgsUsage: "NAME [FLAGS]",
			Usage:     "delete a tenant and everything in its space",
			Description: "Run again while the space is being emptied, it only waits. What operators of the\n" +
				"tenant have to finalize goes first, and says what holds it; --force drops finalizers\n" +
				"instead, and prints each. If standard input is a terminal and pods run in the tenant, its\n" +
				"name has to be typed once more. One with spec.deletionProtection is not deleted.",
			Before:       takes(1, 1, "the name of one tenant"),
			Action:       action(deleteTenant),
			BashComplete: completeNames(1, tenantNames),
		},
			asAdmin(
				enabled("wait", "wait until everything is gone; --wait=false returns at once"),
				toggle("force", "", "drop the finalizers that hold objects of the space, and print each"),
				toggle("yes", "", "do not ask for the name of the tenant when pods run in it"),
				span("timeout", "", deleteTimeout, "`DURATION` to wait; 0 is as long as it takes", "5m"),
			)...),
		leaf(&cli.Command{
			Name:      "kubeconfig",
			ArgsUsage: "NAME [FLAGS]",
			Usage:     "make a kubeconfig for a user of a tenant",
			Description: "The file has a new client certificate. The user \"admin\" has all rights in the\n" +
				"space; others have those of the role bindings in it. With --oidc it has none: all who\n" +
				"are users of the tenant at the provider log in by it, with the plugin oidc-login of\n" +
				"kubectl (https://github.com/int128/kubelogin).",
			Before:       takes(1, 1, "the name of one tenant"),
			Action:       action(tenantKubeconfig),
			BashComplete: completeNames(1, tenantNames),
		},
			asAdmin(append(append(accessFlags(), loginFlags()...),
				text("output", "o", "-", "write to `FILE`; - is standard output"),
				span("timeout", "", createTimeout, "`DURATION` to wait for the certificate", "1m"),
			)...)...),
	)
}

// formerKubeconfig is what --kubeconfig of commands with asAdmin was called once.
const formerKubeconfig = "admin-kubeconfig"

// asAdmin are the flags of a command that works with the rights of an administrator.
func asAdmin(flags ...cli.Flag) []cli.Flag {
	return append(flags,
		text("kubeconfig", "", "", "kubeconfig of an administrator of the cluster at `PATH`",
			"KUBECONFIG, else the one that the server of this machine writes"),
		&cli.StringFlag{Name: formerKubeconfig, Usage: "former name of --kubeconfig", Hidden: true})
}

// newAdmin is adminFrom for a command with asAdmin.
func newAdmin(c *call) (admin *tenantadmin.Admin, path string, err error) {
	return adminFrom(cmp.Or(c.String("kubeconfig"), c.String(formerKubeconfig)))
}

// adminFrom makes a client from the kubeconfig at a path, from another one if that is empty.
// path is the file, empty if the configuration comes from the files of KUBECONFIG.
func adminFrom(given string) (admin *tenantadmin.Admin, path string, err error) {
	admin, path, inSpace, err := clusterFrom(given)
	if err == nil {
		err = inSpace
	}
	if err != nil {
		return nil, "", err
	}
	return admin, path, nil
}

// clusterFrom is adminFrom for somebody who may be no administrator: inSpace is what is wrong
// with a kubeconfig for the space of a tenant, whose path the client does without.
func clusterFrom(given string) (admin *tenantadmin.Admin, path string, inSpace, err error) {
	var cfg *rest.Config
	path, source, shown := given, "--kubeconfig", ""
	switch env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); {
	case path != "":
		shown = path
		cfg, err = readKubeconfig(path)
	case env != "":
		source, shown = clientcmd.RecommendedConfigPathEnvVar, env
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.WarnIfAllMissing = false
		cfg, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
		if err == nil {
			err = complete(cfg)
		}
	default:
		path = adminKubeconfig()
		source, shown = "admin kubeconfig", path
		cfg, err = readKubeconfig(path)
	}
	bad := func(err error) error {
		return &problem.Input{Source: source, Value: shown, Err: err,
			Want: "the file that a4s server writes at its first start, which only root can read, " +
				"or another one of an administrator in --kubeconfig"}
	}
	if err != nil {
		return nil, "", nil, bad(err)
	}
	if admin, err = tenantadmin.New(cfg); err != nil {
		return nil, "", nil, bad(err)
	}
	if cluster, tenant := tenantadmin.SplitAddress(admin.Server()); tenant != "" {
		inSpace = bad(fmt.Errorf("it is for the tenant %s, whose users cannot manage tenants", tenant))
		cfg.Host = cluster
		if admin, err = tenantadmin.New(cfg); err != nil {
			return nil, "", nil, bad(err)
		}
	}
	return admin, path, inSpace, nil
}

// tenantArg is the tenant that a command is about.
func tenantArg(c *call) (string, error) {
	name := c.arg(0)
	return name, checkTenant("tenant", name)
}

func checkTenant(source, name string) error {
	if err := space.ValidateTenant(name); err != nil {
		return &problem.Input{Source: source, Value: name, Err: err, Want: "the name of a tenant such as team-a"}
	}
	return nil
}

// tenantError says what an error of the API means for somebody who manages
// the tenant with this name.
func tenantError(ctx context.Context, admin *tenantadmin.Admin, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case isUnknown(err, name):
		return unknownTenant(ctx, admin, "tenant", name)
	case errors.Is(err, tenantadmin.ErrTerminating):
		return &problem.Input{Source: "tenant", Value: name, Err: err,
			Want: fmt.Sprintf(`to wait until it is gone, with "a4s tenant delete %s"`, name)}
	case tenantadmin.IsProtected(err):
		return &problem.Input{Source: "tenant " + name, Err: err} // it says what to do
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return &problem.Input{Source: "admin kubeconfig", Err: err,
			Want: "that of an administrator of the cluster, in --kubeconfig"}
	}
	return explainFor(admin.Server(), err)
}

// isUnknown reports whether the API says that there is no such tenant, or that
// it knows no tenants at all.
func isUnknown(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d == nil || d.Name == name && (d.Kind == "" || d.Kind == "tenants") || d.Name == ""
}

// unknownTenant names the tenant that was probably meant.
func unknownTenant(ctx context.Context, admin *tenantadmin.Admin, source, name string) error {
	in := &problem.Input{Source: source, Value: name, Err: errUnknownTenant, Want: `one that "a4s tenant list" prints`}
	list, err := admin.List(ctx)
	if apierrors.IsNotFound(err) {
		return &problem.Input{Source: source, Value: name,
			Err: fmt.Errorf("the server %s knows no tenants", admin.Server()), Want: "a server of a4s"}
	}
	if err != nil {
		return in // who may not list tenants gets no suggestion
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if near := config.Nearest(name, names); near != "" {
		in.Want = fmt.Sprintf("%q, or %s", near, in.Want)
	}
	return in
}

var errUnknownTenant = errors.New("no such tenant")

func deleteTenant(c *call) error {
	name, err := tenantArg(c)
	if err != nil {
		return err
	}
	timeout := c.Duration("timeout")
	if timeout < 0 {
		return &problem.Input{Source: "--timeout", Value: timeout.String(),
			Want: `a duration such as "5m", or 0 for no limit`}
	}
	force := c.Bool("force")
	if force && !c.Bool("wait") {
		return &problem.Input{Source: "--force", Value: "true", Err: errors.New("it needs to wait"),
			Want: "no --wait=false: finalizers are dropped while the command waits"}
	}
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	if err := confirm(c, admin, name); err != nil {
		return err
	}
	uid, marked, err := admin.Delete(c.ctx, name)
	if err != nil {
		return tenantError(c.ctx, admin, name, err)
	}
	state := "is being deleted"
	if !marked {
		state += " already"
	}
	if !c.Bool("wait") {
		_, err := problem.Show(c.out, "tenant %s %s\n", name, state)
		return err
	}
	ctx := c.ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if _, err := problem.Show(c.errOut, "tenant %s %s\n", name, state); err != nil {
		return err
	}
	var drop func(context.Context) error
	if force {
		say := func(what string) { _, _ = problem.Show(c.errOut, "%s\n", what) } // only to be read
		drop = tenantadmin.NewDropper(admin, name, say).Drop
	}
	err = admin.WaitGone(ctx, name, uid, func(what string) {
		_, _ = problem.Show(c.errOut, "waiting for %s\n", what) // only to be looked at
	}, drop)
	if err != nil {
		return tenantError(c.ctx, admin, name, err)
	}
	_, err = problem.Show(c.out, "tenant %s deleted\n", name)
	return err
}
