package cmd

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/joinapi"
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
	// Tenants is how many tenants the partition of the server has, TenantsError why it is unknown.
	Tenants      *int64 `json:"tenants,omitempty"`
	TenantsError string `json:"tenantsError,omitempty"`
	// BootstrapPods are pods that nodes ran before they had a server.
	BootstrapPods      []bootstrapPod `json:"bootstrapPods,omitempty"`
	BootstrapPodsError string         `json:"bootstrapPodsError,omitempty"`
	// Groups are the service groups, if the server is of one, GroupsError why they are
	// unknown.
	Groups      *tenantadmin.Groups `json:"serviceGroups,omitempty"`
	GroupsError string              `json:"serviceGroupsError,omitempty"`
	// Partitions are those of the cluster, if it has several, PartitionsError why they are
	// unknown.
	Partitions      []tenantadmin.Partition `json:"partitions,omitempty"`
	PartitionsError string                  `json:"partitionsError,omitempty"`
}

// nodeReady is the state of a node that is ready; what is said besides comes after a comma.
const nodeReady = "Ready"

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
			format, err := outputFormat(c, "wide")
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
			return writeStatus(c.out, s, format == "wide", time.Now())
		}),
	},
		outputFlag("wide"),
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
	s.askAdmin(ctx, cl)
	return s, nil
}

// askAdmin asks what the commands about tenants, groups and partitions ask.
func (s *status) askAdmin(ctx context.Context, cl *client) {
	admin, err := tenantadmin.New(cl.cfg)
	if err != nil {
		s.TenantsError = err.Error()
		return
	}
	if n, err := admin.Count(ctx); err != nil {
		s.TenantsError = err.Error()
	} else {
		s.Tenants = &n
	}
	if s.ServiceGroup != "" {
		if s.Groups, err = admin.Groups(ctx); err != nil {
			s.GroupsError = err.Error()
		}
	}
	if s.Partition != "" {
		if s.Partitions, err = admin.Partitions(ctx); err != nil {
			s.PartitionsError = err.Error()
		}
	}
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
			out.State = nodeReady
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
