package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// mostSaid is how long what is said of an Ingress is at most.
const mostSaid = 900

// writer writes what is not decided by one server alone.
type writer struct {
	client kubernetes.Interface
	log    *logrus.Entry
}

// ensureClass makes the class, which is the default one if it is the only one.
func (w writer) ensureClass(ctx context.Context) error {
	client := w.client.NetworkingV1().IngressClasses()
	all, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing IngressClasses: %w", err)
	}
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: ClassName},
		Spec: networkingv1.IngressClassSpec{Controller: ControllerName}}
	for i := range all.Items {
		if all.Items[i].Name == ClassName {
			if is := all.Items[i].Spec.Controller; is != ControllerName {
				w.log.Warnf("The IngressClass %s is of the controller %s: Ingresses of it are not served here",
					ClassName, is)
			}
			return nil
		}
	}
	// Where there is another, Ingresses without a class may be its controller's, whatever it says of itself.
	if len(all.Items) == 0 {
		class.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	}
	if _, err := client.Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the IngressClass %s: %w", ClassName, err)
	}
	return nil
}

// statusPatch changes the addresses of the very Ingress that was looked at.
type statusPatch struct {
	Metadata struct {
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Status struct {
		LoadBalancer struct {
			Ingress []networkingv1.IngressLoadBalancerIngress `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

// writeStatus writes the addresses of an Ingress where they are others.
func (w writer) writeStatus(
	ctx context.Context, ingress *networkingv1.Ingress, addresses []corev1.LoadBalancerIngress,
) error {
	var patch statusPatch
	patch.Metadata.UID = ingress.UID
	for _, at := range addresses {
		patch.Status.LoadBalancer.Ingress = append(patch.Status.LoadBalancer.Ingress,
			networkingv1.IngressLoadBalancerIngress{IP: at.IP})
	}
	was, now := ingress.Status.LoadBalancer.Ingress, patch.Status.LoadBalancer.Ingress
	if len(was) == 0 && len(now) == 0 || reflect.DeepEqual(was, now) {
		return nil
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding the status of Ingress %s: %w", ingressKey(ingress), err)
	}
	_, err = w.client.NetworkingV1().Ingresses(ingress.Namespace).Patch(ctx, ingress.Name, types.MergePatchType, text,
		metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is another one by now, which is looked at by itself
	}
	if err != nil {
		return fmt.Errorf("writing the status of Ingress %s: %w", ingressKey(ingress), err)
	}
	return nil
}

// tell says what is wrong with an Ingress in Events, one for each reason.
func (l *Leader) tell(ingress *networkingv1.Ingress, problems []problem) {
	reasons, messages := []string{}, map[string][]string{}
	for _, p := range problems {
		if messages[p.reason] == nil {
			reasons = append(reasons, p.reason)
		}
		messages[p.reason] = append(messages[p.reason], p.message)
	}
	for _, reason := range reasons {
		text := strings.Join(messages[reason], "; ")
		l.events.Event(ingress, corev1.EventTypeWarning, reason, text[:min(len(text), mostSaid)])
	}
}
