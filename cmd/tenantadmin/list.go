package tenantadmin

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Writer returns what writes a list of tenants in a format of `a4s tenant list`;
// false for an unknown one.
func Writer(format string) (write func(io.Writer, *tenantapi.TenantList) error, known bool) {
	switch format {
	case "table", "wide":
		return func(w io.Writer, list *tenantapi.TenantList) error {
			return writeTable(w, list.Items, format == "wide", time.Now())
		}, true
	case "name":
		return writeNames, true
	case "json":
		return func(w io.Writer, list *tenantapi.TenantList) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(named(list))
		}, true
	case "yaml":
		return func(w io.Writer, list *tenantapi.TenantList) error {
			data, err := json.Marshal(named(list))
			if err != nil {
				return err
			}
			// YAML has no control characters; in JSON they can be said by numbers.
			if data, err = yaml.JSONToYAML([]byte(problem.Text(string(data)))); err == nil {
				_, err = w.Write(data)
			}
			return err
		}, true
	}
	return nil, false
}

// WriteMemberships writes the tenants of which somebody is a member in a format that Writer knows.
// Their names are all that they can see of them.
func WriteMemberships(out io.Writer, format string, names []string) error {
	if format == "table" || format == "wide" {
		_, err := fmt.Fprintln(out, "NAME")
		for i := 0; i < len(names) && err == nil; i++ {
			_, err = problem.Show(out, "%s\n", names[i])
		}
		return err
	}
	list := &tenantapi.TenantList{Items: make([]tenantapi.Tenant, len(names))}
	for i, name := range names {
		list.Items[i].Name = name
	}
	write, _ := Writer(format)
	return write(out, list)
}

// named adds the kinds, which clients leave out of what they decode.
func named(list *tenantapi.TenantList) *tenantapi.TenantList {
	version := tenantapi.GroupVersion().String()
	list.APIVersion, list.Kind = version, tenantapi.Kind+"List"
	for i := range list.Items {
		list.Items[i].APIVersion, list.Items[i].Kind = version, tenantapi.Kind
	}
	return list
}

func writeNames(out io.Writer, list *tenantapi.TenantList) error {
	for i := range list.Items {
		if _, err := problem.Show(out, "tenant/%s\n", list.Items[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func writeTable(out io.Writer, tenants []tenantapi.Tenant, wide bool, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0) // Flush reports errors
	fmt.Fprint(w, "NAME\tSTATUS\tAGE")
	if wide {
		fmt.Fprint(w, "\tREADY\tPROTECTED\tCRD POLICY\tMESSAGE")
	}
	fmt.Fprintln(w)
	for i := range tenants {
		t := &tenants[i]
		problem.Show(w, "%s\t%s\t%s", t.Name, t.Shown(),
			duration.HumanDuration(now.Sub(t.CreationTimestamp.Time)))
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
				message, _, _ = strings.Cut(c.Message, "\n")
			}
			problem.Show(w, "\t%s\t%t\t%s\t%s", ready, t.Protected(), t.Spec.CRDPolicy, message)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
