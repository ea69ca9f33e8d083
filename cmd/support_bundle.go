package cmd

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

// bundleTimeout is how long support-bundle asks a server.
const bundleTimeout = 2 * time.Minute

// SupportBundle is what `a4s support-bundle` collects, and where to.
type SupportBundle struct {
	// Output is the file, which must not exist; "" is one named after the time.
	Output string
	// Tenant is the tenant whose objects are taken besides those of the cluster, "" for none.
	Tenant string
	// ConfigMaps says that their data is taken.
	ConfigMaps bool
	// Timeout bounds the whole.
	Timeout time.Duration
	// Local are the settings of this machine.
	Local *config.Local
	// Config is that of an administrator of the cluster, nil if there is none: NoConfig says why.
	Config   *rest.Config
	NoConfig error
	// Reports are what other commands say.
	Reports []SupportReport
	// Out is told what was written.
	Out io.Writer
}

// SupportReport is what another command says, as it would be in JSON.
type SupportReport struct {
	Name string
	Ask  func(ctx context.Context) (any, error)
}

func supportBundleCommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:      "support-bundle",
		ArgsUsage: "[FLAGS]",
		Usage:     "collect logs, status and objects in one file for the report of a bug",
		Description: "Changes nothing but the file that it writes. No Secret is in it, and of what may be secret\n" +
			"in other objects only its length. It prints what it left out, and works without a\n" +
			"server, too: with what this machine has.",
		Action: action(func(c *call) error {
			b, err := readBundle(c, m)
			if err != nil {
				return err
			}
			return m.SupportBundle(c.ctx, b)
		}),
	},
		append(localFlags(), kubeconfigFlag(),
			text("tenant", "", "", "take the objects in the space of the tenant `NAME`, too"),
			toggle("config-maps", "", "take the data of ConfigMaps, too"),
			text("output", "o", "", "write to `FILE`, which must not exist", "a4s-support-TIME.tar.gz"),
			span("timeout", "", bundleTimeout, "`DURATION` after which what is there is enough", "2m"),
		)...)
}

func readBundle(c *call, m Modes) (*SupportBundle, error) {
	l, err := local(c)
	if err != nil {
		return nil, err
	}
	b := &SupportBundle{Output: c.String("output"), Tenant: c.String("tenant"), ConfigMaps: c.Bool("config-maps"),
		Timeout: c.Duration("timeout"), Local: l, Out: c.out}
	if b.Timeout <= 0 {
		return nil, &problem.Input{Source: "--timeout", Value: b.Timeout.String(), Want: `a duration such as "2m"`}
	}
	if b.Tenant != "" {
		if err := checkTenant("--tenant", b.Tenant); err != nil {
			return nil, err
		}
	}
	cl, err := newClient(c)
	switch {
	case err == nil:
		b.Config = cl.cfg
	case c.IsSet("kubeconfig"):
		return nil, err
	default:
		b.NoConfig = err // this is a node, or somebody who may not read it
	}
	b.Reports = []SupportReport{
		{"versions", func(context.Context) (any, error) { return versions(), nil }},
		{"doctor", func(ctx context.Context) (any, error) {
			return doctorOf(l, m).examine(ctx)
		}},
	}
	if cl != nil {
		b.Reports = append(b.Reports,
			SupportReport{"status", func(ctx context.Context) (any, error) { return getStatus(ctx, cl) }},
			SupportReport{"top-tenants", func(ctx context.Context) (any, error) {
				var use joinapi.TenantUse
				return &use, cl.do(ctx, http.MethodGet, joinapi.PathTenantUse, nil, &use)
			}})
	}
	return b, nil
}
