package cmd

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
)

// podsPage is how many pods are asked for at once.
const podsPage = 500

// bootstrapPod is a pod that a node ran before it had a server.
type bootstrapPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	State     string `json:"state"`
	// Owner is what has adopted it, "ReplicaSet/web", "" if nothing has.
	Owner    string    `json:"owner,omitempty"`
	Restarts int32     `json:"restarts"`
	Created  time.Time `json:"created"`
}

// bootstrapPods finds those that the API server has. They are of the system
// space, so those of tenants need not be looked at.
func bootstrapPods(ctx context.Context, cl *client) ([]bootstrapPod, error) {
	out := []bootstrapPod{}
	for opts := (metav1.ListOptions{Limit: podsPage}); ; {
		list := &corev1.PodList{}
		if err := cl.kube.CoreV1().RESTClient().Get().AbsPath("tenants", space.System, "api/v1/pods").
			VersionedParams(&opts, scheme.ParameterCodec).Do(ctx).Into(list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			if pod := &list.Items[i]; bootstrapapi.IsBootstrap(pod) {
				out = append(out, describePod(pod))
			}
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return out, nil
		}
	}
}

func describePod(pod *corev1.Pod) bootstrapPod {
	out := bootstrapPod{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName,
		State: string(pod.Status.Phase), Created: pod.CreationTimestamp.Time}
	if pod.DeletionTimestamp != nil {
		out.State = "Terminating"
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		out.Owner = owner.Kind + "/" + owner.Name
	}
	for _, c := range pod.Status.ContainerStatuses {
		out.Restarts += c.RestartCount
	}
	return out
}

// writeBootstrapPods writes nothing in a cluster that has none.
func writeBootstrapPods(out io.Writer, s *status, now time.Time) error {
	if s.BootstrapPodsError != "" {
		_, err := problem.Show(out, "\nBootstrap pods: unknown: %s\n", firstLine(s.BootstrapPodsError))
		return err
	}
	if len(s.BootstrapPods) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprint(w, "\nBOOTSTRAP POD\tNODE\tSTATE\tRESTARTS\tOWNER\tAGE\n")
	for _, p := range s.BootstrapPods {
		owner := p.Owner
		if owner == "" {
			owner = "none"
		}
		problem.Show(w, "%s/%s\t%s\t%s\t%d\t%s\t%s\n", p.Namespace, p.Name, p.Node, p.State, p.Restarts, owner,
			duration.HumanDuration(now.Sub(p.Created)))
	}
	return w.Flush()
}
