package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

func listTenants(c *cli.Context) error {
	if err := wantArgs(c, 0, 0, "none"); err != nil {
		return err
	}
	var write func(io.Writer, *tenantapi.TenantList) error
	switch format := c.String("output"); format {
	case "table", "wide":
		write = func(w io.Writer, list *tenantapi.TenantList) error {
			return writeTenants(w, list.Items, format == "wide", time.Now())
		}
	case "name":
		write = writeTenantNames
	case "json":
		write = func(w io.Writer, list *tenantapi.TenantList) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(list)
		}
	case "yaml":
		write = func(w io.Writer, list *tenantapi.TenantList) error {
			data, err := yaml.Marshal(list)
			if err == nil {
				_, err = w.Write(data)
			}
			return err
		}
	default:
		return &problem.Input{Source: "--output", Value: format, Want: "table, wide, json, yaml or name"}
	}
	admin, _, err := newAdmin(c)
	if err != nil {
		return err
	}
	list, err := admin.List(c.Context)
	if err != nil {
		return tenantError(c.Context, admin, "", err)
	}
	// Clients leave out the kinds of what they decode.
	version := tenantapi.GroupVersion().String()
	list.APIVersion, list.Kind = version, tenantapi.Kind+"List"
	for i := range list.Items {
		list.Items[i].APIVersion, list.Items[i].Kind = version, tenantapi.Kind
	}
	return write(c.App.Writer, list)
}

func writeTenantNames(out io.Writer, list *tenantapi.TenantList) error {
	for i := range list.Items {
		if _, err := fmt.Fprintf(out, "tenant/%s\n", list.Items[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func writeTenants(out io.Writer, tenants []tenantapi.Tenant, wide bool, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0) // Flush reports errors
	fmt.Fprint(w, "NAME\tSTATUS\tAGE")
	if wide {
		fmt.Fprint(w, "\tREADY\tCRD POLICY\tMESSAGE")
	}
	fmt.Fprintln(w)
	for i := range tenants {
		t := &tenants[i]
		fmt.Fprintf(w, "%s\t%s\t%s", t.Name, t.Status.Phase, duration.HumanDuration(now.Sub(t.CreationTimestamp.Time)))
		if wide {
			ready, message := "Unknown", ""
			shown := tenantapi.SpaceReady
			if c := meta.FindStatusCondition(t.Status.Conditions, shown); c != nil {
				ready = string(c.Status)
			}
			if t.Status.Phase == tenantapi.Terminating {
				shown = tenantapi.SpaceEmpty
			}
			if c := meta.FindStatusCondition(t.Status.Conditions, shown); c != nil {
				message = firstLine(c.Message)
			}
			fmt.Fprintf(w, "\t%s\t%s\t%s", ready, t.Spec.CRDPolicy, message)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
