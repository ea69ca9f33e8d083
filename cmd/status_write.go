package cmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

// briefNodes is how many nodes are shown that have nothing wrong, without -o wide.
const briefNodes = 30

// writeStatus prints what the server is, how much it has and what is wrong with it. Wide is
// everything: all components, all nodes and what their runtimes say.
func writeStatus(out io.Writer, s *status, wide bool, now time.Time) error {
	for _, part := range []func() error{
		func() error { return writeSummary(out, s, now) },
		func() error { return writeServerProblems(out, s.Problems, now) },
		func() error { return writeComponents(out, s, wide, now) },
		func() error { return writeServiceGroups(out, s) },
		func() error { return writePartitions(out, s) },
		func() error { return writeNodes(out, s, wide, now) },
		func() error { return writeBootstrapPods(out, s, now) },
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func writeSummary(out io.Writer, s *status, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0) // Flush reports the errors of all writes
	ready := "ready"
	if !s.Ready {
		ready = "not ready: " + firstLine(s.NotReady)
	}
	problem.Show(w, "Server:\t%s\n", s.URL)
	problem.Show(w, "Version:\ta4s %s, Kubernetes %s\n", s.Version, s.Kubernetes)
	problem.Show(w, "API:\t%s\n", ready)
	if s.Datastore != "" {
		problem.Show(w, "Datastore:\t%s\n", s.Datastore)
	}
	if s.Partition != "" {
		problem.Show(w, "Partition:\t%s (%s)\n", s.Partition, strings.Join(s.Roles, ", "))
	}
	if s.ServiceGroup != "" {
		problem.Show(w, "Service group:\t%s\n", s.ServiceGroup)
		if s.ServiceGroupRevision != 0 {
			problem.Show(w, "Ranges applied:\trevision %d\n", s.ServiceGroupRevision)
		}
	}
	fine := 0
	for _, c := range s.Components {
		if c.Ready {
			fine++
		}
	}
	problem.Show(w, "Components:\t%s\n", readyOf(fine, len(s.Components)))
	if s.NodesError == "" {
		fine = 0
		for _, n := range s.Nodes {
			if n.ready() {
				fine++
			}
		}
		problem.Show(w, "Nodes:\t%s\n", readyOf(fine, len(s.Nodes)))
	}
	switch {
	case s.TenantsError != "":
		problem.Show(w, "Tenants:\tunknown: %s\n", firstLine(s.TenantsError))
	case s.Tenants != nil:
		problem.Show(w, "Tenants:\t%d\n", *s.Tenants)
	}
	return w.Flush()
}

// readyOf says how many are ready of all.
func readyOf(ready, all int) string {
	switch {
	case all == 0:
		return "none"
	case ready == all:
		return strconv.Itoa(all) + " ready"
	}
	return fmt.Sprintf("%d ready, %d not", ready, all-ready)
}

// writeServerProblems prints what is wrong, in short; a4s doctor says more.
func writeServerProblems(out io.Writer, problems []joinapi.Problem, now time.Time) error {
	if len(problems) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprint(w, "\nPROBLEM\tSEVERITY\tSINCE\tABOUT\tFIX\n")
	for _, p := range problems {
		problem.Show(w, "%s\t%s\t%s\t%s\t%s\n", p.Title, p.Severity,
			duration.HumanDuration(now.Sub(p.Since)), p.Subject, p.Fix)
	}
	return w.Flush()
}

// writeComponents prints the components that are not ready, or all.
func writeComponents(out io.Writer, s *status, wide bool, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	head := "\nCOMPONENT\tSTATE\tSINCE\tRESTARTS\tLAST ERROR\n"
	for _, c := range s.Components {
		if c.Ready && !wide {
			continue
		}
		state := "ready"
		if !c.Ready {
			state = "not ready"
		}
		since := "unknown"
		if at, err := time.Parse(time.RFC3339, c.Since); err == nil {
			since = duration.HumanDuration(now.Sub(at))
		}
		fmt.Fprint(w, head)
		head = ""
		problem.Show(w, "%s\t%s\t%s\t%d\t%s\n", c.Name, state, since, c.Restarts, firstLine(c.LastError))
	}
	return w.Flush()
}

// writeServiceGroups prints the groups and what their servers have applied.
func writeServiceGroups(out io.Writer, s *status) error {
	switch {
	case s.GroupsError != "":
		_, err := problem.Show(out, "\nService groups: unknown: %s\n", firstLine(s.GroupsError))
		return err
	case s.Groups == nil:
		return nil
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return s.Groups.Write(out)
}

// writePartitions prints the partitions of a cluster that has several.
func writePartitions(out io.Writer, s *status) error {
	switch {
	case s.PartitionsError != "":
		_, err := problem.Show(out, "\nPartitions: unknown: %s\n", firstLine(s.PartitionsError))
		return err
	case len(s.Partitions) < 2:
		return nil
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return tenantadmin.WritePartitions(out, s.Partitions)
}

// writeNodes prints the nodes: of many, those that have something wrong, or all.
func writeNodes(out io.Writer, s *status, wide bool, now time.Time) error {
	if s.NodesError != "" {
		_, err := problem.Show(out, "\nNodes: unknown: %s\n", firstLine(s.NodesError))
		return err
	}
	shown := s.Nodes
	if !wide && len(shown) > briefNodes {
		shown = slices.DeleteFunc(slices.Clone(shown), func(n nodeStatus) bool { return n.fine() })
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	if len(shown) > 0 {
		fmt.Fprint(w, "\nNODE\tSTATE\tADDRESS\tVERSION\tAGE\tRUNTIMES\n")
	}
	for _, n := range shown {
		problem.Show(w, "%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, n.State, n.Address, n.Version,
			duration.HumanDuration(now.Sub(n.Created)), n.runtimes())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if n := len(s.Nodes) - len(shown); n > 0 {
		if _, err := problem.Show(out, "\n%d nodes that have nothing wrong are not shown; -o wide shows them.\n",
			n); err != nil {
			return err
		}
	}
	if !wide {
		return nil
	}
	return writeRuntimes(out, s, now)
}

func (n *nodeStatus) ready() bool {
	return n.State == nodeReady || strings.HasPrefix(n.State, nodeReady+",")
}

// fine reports whether there is nothing to say about the node.
func (n *nodeStatus) fine() bool {
	return n.State == nodeReady && len(n.Runtimes) > 0 && !slices.ContainsFunc(n.Runtimes, func(r runtimeStatus) bool {
		return r.Ready != corev1.ConditionTrue
	})
}

// runtimes are the types of workload that the node runs, the one that its readiness follows
// first.
func (n *nodeStatus) runtimes() string {
	if len(n.Runtimes) == 0 {
		return "none"
	}
	sorted := slices.SortedStableFunc(slices.Values(n.Runtimes), func(a, b runtimeStatus) int {
		return cmp.Compare(fmt.Sprint(b.Primary), fmt.Sprint(a.Primary))
	})
	var words []string
	for _, r := range sorted {
		word := string(r.WorkloadType)
		if r.Primary {
			word += " (primary)"
		}
		if r.Ready != corev1.ConditionTrue {
			word += " not ready: " + r.Reason
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// writeRuntimes prints what the runtimes of each node say.
func writeRuntimes(out io.Writer, s *status, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprint(w, "\nNODE\tRUNTIME OF\tREADY\tSINCE\tMESSAGE\n")
	for _, n := range s.Nodes {
		if len(n.Runtimes) == 0 {
			problem.Show(w, "%s\tnothing\t\t\tno runtime has been reported\n", n.Name)
		}
		for _, r := range n.Runtimes {
			problem.Show(w, "%s\t%s\t%s\t%s\t%s\n", n.Name, r.WorkloadType, r.Ready,
				duration.HumanDuration(now.Sub(r.Since)), firstLine(r.Message))
		}
	}
	return w.Flush()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
