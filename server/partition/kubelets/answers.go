package kubelets

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// answersWithin bounds how long a kubelet may take to say who it is.
const answersWithin = 3 * time.Second

// Answers asks the kubelet of a node who it is, as the API server; it returns an error if
// there is no answer. The kernel of a node whose kubelet hangs does not answer for it.
func Answers(ctx context.Context, server rest.TLSClientConfig, node *corev1.Node) error {
	at, err := kubeletOf(node)
	if err != nil {
		return err
	}
	config, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: server})
	if err != nil {
		return fmt.Errorf("preparing to ask a kubelet: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("asking the kubelet of node %s: %w", node.Name, err)
	}
	return conn.Close()
}
