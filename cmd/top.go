package cmd

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

func topCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "top",
		Usage: "show what makes the server busy",
	},
		leaf(&cli.Command{
			Name:      "tenants",
			ArgsUsage: "[FLAGS]",
			Usage:     "show which tenants made the server busy in the last minute, and by what",
			Description: "A request computes in a seat, of which there are two for each processor, and waits for\n" +
				"one while others have them. The tenant whose requests computed longest is the first. What\n" +
				"controllers ask about a tenant's objects has no seat: it is counted. Each server tells of\n" +
				"itself alone: ask another one with a kubeconfig that names it. Clients that nobody knows\n" +
				"are (unknown), and tenants that used little are (other) where there are many.",
			Action: action(topTenants),
		},
			count("limit", "n", 20, "show the first `N` tenants; 0 shows all"),
			outputFlag(), kubeconfigFlag(),
		),
	)
}

func topTenants(c *call) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	most := c.Int("limit")
	if most < 0 {
		return &problem.Input{Source: "--limit", Value: strconv.Itoa(most), Want: "a number of tenants, or 0 for all"}
	}
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	var use joinapi.TenantUse
	if err := cl.do(c.ctx, http.MethodGet, joinapi.PathTenantUse, nil, &use); err != nil {
		return err
	}
	if most == 0 {
		most = len(use.Tenants)
	}
	if format == "json" {
		use.Tenants = use.Tenants[:min(most, len(use.Tenants))]
		return encode(c.out, use)
	}
	return writeTenantUse(c.out, cl.url, &use, most)
}

func writeTenantUse(out io.Writer, url string, use *joinapi.TenantUse, most int) error {
	all := 0.0
	for _, t := range use.Tenants {
		all += t.SeatSeconds
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0) // Flush reports the errors of all writes
	server := url
	if use.Server != "" {
		server = use.Server + " (" + url + ")"
	}
	problem.Show(w, "Server:\t%s\n", server)
	if use.Partition != "" {
		problem.Show(w, "Partition:\t%s\n", use.Partition)
	}
	problem.Show(w, "Seat time:\t%.1f s in the last %.0f s, on %d processors\n", all, use.Seconds, use.Processors)
	if len(use.Tenants) == 0 {
		problem.Show(w, "Tenants:\tnone has asked for anything\n")
		return w.Flush()
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "\nTENANT\tSHARE\tSEAT TIME\tREQUESTS\tWAITED\tREFUSED\tMOSTLY BY\n")
	for _, t := range use.Tenants[:min(most, len(use.Tenants))] {
		problem.Show(w, "%s\t%s\t%.1fs\t%d\t%.1fs\t%s\t%s\n", t.Tenant, percent(t.SeatSeconds, all), t.SeatSeconds,
			t.Requests, t.WaitedSeconds, refusedOf(t.Refused), mostlyBy(&t))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if left := len(use.Tenants) - most; left > 0 {
		_, err := problem.Show(out, "\n%d more used less; --limit 0 shows all.\n", left)
		return err
	}
	return nil
}

func percent(part, of float64) string {
	if of <= 0 {
		return "0%"
	}
	return fmt.Sprintf("%.0f%%", 100*part/of)
}

// refusedOf is how many requests were refused, with the reasons.
func refusedOf(by map[string]int64) string {
	var reasons []string
	sum := int64(0)
	for why, n := range by {
		sum += n
		reasons = append(reasons, why)
	}
	if sum == 0 {
		return "0"
	}
	slices.Sort(reasons)
	return fmt.Sprintf("%d %s", sum, strings.Join(reasons, ","))
}

// mostlyBy are the kinds of work that a tenant used at least a tenth of its time for, three
// at most, and what controllers did for it, which has no seat, if that is a tenth of its requests.
func mostlyBy(t *joinapi.UseOfTenant) string {
	var kinds []string
	for i, w := range t.Work {
		if i == 0 || i < 3 && w.SeatSeconds >= t.SeatSeconds/10 && w.SeatSeconds > 0 {
			kinds = append(kinds, w.Work+" "+percent(w.SeatSeconds, t.SeatSeconds))
		}
	}
	for _, w := range t.Work {
		if w.Work == joinapi.WorkOfControllers && w.Requests >= t.Requests/10 {
			kinds = append(kinds, fmt.Sprintf("%s %d requests", w.Work, w.Requests))
		}
	}
	return strings.Join(kinds, ", ")
}
