package cmd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/workload"
)

// status is what `a4s status -o json` prints.
type status struct {
	// URL is the server that was asked.
	URL string `json:"url"`
	joinapi.ServerStatus
	// Ready is the answer of /readyz, NotReady its reason if it is no.
	Ready    bool   `json:"ready"`
	NotReady string `json:"notReady,omitempty"`
	// Nodes are the nodes of the cluster, NodesError why they are unknown.
	Nodes      []nodeStatus `json:"nodes"`
	NodesError string       `json:"nodesError,omitempty"`
	// BootstrapPods are pods that nodes ran before they had a server.
	BootstrapPods      []bootstrapPod `json:"bootstrapPods,omitempty"`
	BootstrapPodsError string         `json:"bootstrapPodsError,omitempty"`
	// Groups are the service groups, if the server is of one, GroupsError why they are
	// unknown.
	Groups      *tenantadmin.Groups `json:"serviceGroups,omitempty"`
	GroupsError string              `json:"serviceGroupsError,omitempty"`
}

type nodeStatus struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`
	Address string    `json:"address"`
	Version string    `json:"version"`
	Created time.Time `json:"created"`
	// Runtimes are those that the node has, by type of workload.
	Runtimes []runtimeStatus `json:"runtimes"`
}

// runtimeStatus is a condition of a node about the runtime of a type.
type runtimeStatus struct {
	WorkloadType workload.Type `json:"workloadType"`
	// Primary says that the readiness of the node follows it.
	Primary bool                   `json:"primary"`
	Ready   corev1.ConditionStatus `json:"ready"`
	Reason  string                 `json:"reason"`
	// Message names the runtimes and their versions.
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

func statusCommand() *cli.Command {
	return leaf(&cli.Command{
		Name:      "status",
		ArgsUsage: "[FLAGS]",
		Usage:     "show the state of the server, its components and its nodes",
		Action: action(func(c *call) error {
			format, err := outputFormat(c)
			if err != nil {
				return err
			}
			cl, err := newClient(c)
			if err != nil {
				return err
			}
			s, err := getStatus(c.ctx, cl)
			if err != nil {
				return err
			}
			if format == "json" {
				return encode(c.out, s)
			}
			return writeStatus(c.out, s, time.Now())
		}),
	},
		outputFlag(),
		kubeconfigFlag(),
	)
}

// getStatus asks the server. Only the server itself has to answer: an API
// that is not ready yet is a state to show, not an error.
func getStatus(ctx context.Context, cl *client) (*status, error) {
	s := &status{URL: cl.url, Nodes: []nodeStatus{}}
	if err := cl.do(ctx, http.MethodGet, joinapi.PathStatus, nil, &s.ServerStatus); err != nil {
		return nil, err
	}
	if err := cl.do(ctx, http.MethodGet, "/readyz", nil, nil); err != nil {
		s.NotReady = err.Error()
	}
	s.Ready = s.NotReady == ""
	list, err := cl.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		s.NodesError = err.Error()
		return s, nil
	}
	for i := range list.Items {
		s.Nodes = append(s.Nodes, describeNode(&list.Items[i]))
	}
	if s.BootstrapPods, err = bootstrapPods(ctx, cl); err != nil {
		s.BootstrapPodsError = err.Error()
	}
	if s.ServiceGroup != "" {
		if s.Groups, err = serviceGroups(ctx, cl); err != nil {
			s.GroupsError = err.Error()
		}
	}
	return s, nil
}

func serviceGroups(ctx context.Context, cl *client) (*tenantadmin.Groups, error) {
	admin, err := tenantadmin.New(cl.cfg)
	if err != nil {
		return nil, err
	}
	return admin.Groups(ctx)
}

func describeNode(n *corev1.Node) nodeStatus {
	out := nodeStatus{Name: n.Name, State: "NotReady", Version: n.Status.NodeInfo.KubeletVersion,
		Created: n.CreationTimestamp.Time, Runtimes: runtimesOf(n)}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		switch c.Status {
		case corev1.ConditionTrue:
			out.State = "Ready"
		case corev1.ConditionUnknown:
			out.State = "Unknown"
		}
	}
	if n.Spec.Unschedulable {
		out.State += ",SchedulingDisabled"
	}
	if i := slices.IndexFunc(n.Status.Addresses,
		func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP }); i >= 0 {
		out.Address = n.Status.Addresses[i].Address
	}
	return out
}

func runtimesOf(n *corev1.Node) []runtimeStatus {
	out := []runtimeStatus{}
	for _, t := range workload.Types() {
		for _, c := range n.Status.Conditions {
			if c.Type == t.Condition() {
				out = append(out, runtimeStatus{
					WorkloadType: t, Primary: t == workload.PrimaryOf(n),
					Ready: c.Status, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
				})
			}
		}
	}
	return out
}

func writeStatus(out io.Writer, s *status, now time.Time) error {
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
	if err := w.Flush(); err != nil {
		return err
	}

	if err := writeServerProblems(out, s.Problems, now); err != nil {
		return err
	}

	fmt.Fprint(w, "\nCOMPONENT\tSTATE\tSINCE\tRESTARTS\tLAST ERROR\n")
	for _, c := range s.Components {
		state := "ready"
		if !c.Ready {
			state = "not ready"
		}
		since := "unknown"
		if at, err := time.Parse(time.RFC3339, c.Since); err == nil {
			since = duration.HumanDuration(now.Sub(at))
		}
		problem.Show(w, "%s\t%s\t%s\t%d\t%s\n", c.Name, state, since, c.Restarts, firstLine(c.LastError))
	}
	if err := w.Flush(); err != nil {
		return err
	}

	if err := writeServiceGroups(out, s); err != nil {
		return err
	}

	if s.NodesError != "" {
		_, err := problem.Show(out, "\nNodes: unknown: %s\n", firstLine(s.NodesError))
		return err
	}
	fmt.Fprint(w, "\nNODE\tSTATE\tADDRESS\tVERSION\tAGE\n")
	for _, n := range s.Nodes {
		problem.Show(w, "%s\t%s\t%s\t%s\t%s\n", n.Name, n.State, n.Address, n.Version,
			duration.HumanDuration(now.Sub(n.Created)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := writeRuntimes(out, s, now); err != nil {
		return err
	}
	return writeBootstrapPods(out, s, now)
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

// writeRuntimes prints which types of workload each node can run.
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
