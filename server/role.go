package server

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// roleLabel marks nodes that run a control plane. A kubelet may not set it on
// itself, so the server does.
const roleLabel = "node-role.kubernetes.io/control-plane"

// MarkControlPlane labels the node of this process as one that runs a control
// plane.
func (r *Running) MarkControlPlane(ctx context.Context, node string) error {
	client, err := kubernetes.NewForConfig(r.Admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, roleLabel)
	if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "a4s"}); err != nil {
		return fmt.Errorf("labelling node %s: %w", node, err)
	}
	return nil
}
