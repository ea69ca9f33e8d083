package series

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
)

// Names lists the names of all webhooks and policies by a client that sees all spaces.
func Names(cfg *rest.Config) (func(context.Context) (map[string]bool, error), error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client that lists webhooks and policies: %w", err)
	}
	registrations := client.AdmissionregistrationV1()
	known := metav1.ListOptions{ResourceVersion: "0"}
	return func(ctx context.Context) (map[string]bool, error) {
		names := map[string]bool{}
		validating, err := registrations.ValidatingWebhookConfigurations().List(ctx, known)
		if err != nil {
			return nil, err
		}
		for i := range validating.Items {
			for j := range validating.Items[i].Webhooks {
				names[validating.Items[i].Webhooks[j].Name] = true
			}
		}
		mutating, err := registrations.MutatingWebhookConfigurations().List(ctx, known)
		if err != nil {
			return nil, err
		}
		for i := range mutating.Items {
			for j := range mutating.Items[i].Webhooks {
				names[mutating.Items[i].Webhooks[j].Name] = true
			}
		}
		policies, err := registrations.ValidatingAdmissionPolicies().List(ctx, known)
		if err != nil {
			return nil, err
		}
		for i := range policies.Items {
			_, name := space.SplitClusterName(policies.Items[i].Name)
			names[name] = true
		}
		changing, err := registrations.MutatingAdmissionPolicies().List(ctx, known)
		if err != nil {
			return nil, err
		}
		for i := range changing.Items {
			_, name := space.SplitClusterName(changing.Items[i].Name)
			names[name] = true
		}
		return names, nil
	}, nil
}
