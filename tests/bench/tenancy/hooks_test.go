package tenancy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// BenchmarkSilentHook is how long a tenant waits for what the system does for it,
// beside a tenant whose deployments get no pods because its webhook never answers
// about them, and beside the same deployments without the webhook: the pod of a
// deployment, the service account of a namespace, the status and the binding of a
// pod. It reports the medians and their ratio.
func BenchmarkSilentHook(b *testing.B) {
	rounds := fromEnv(b, "A4S_BENCH_ROUNDS", 40)
	server := startChild(b, complete)
	link, err := netlink.NewHandleAt(server.ns, unix.NETLINK_ROUTE)
	if err != nil {
		b.Fatal(err)
	}
	defer link.Close()
	// Nothing comes back from a bridge without ports.
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "silence"}}
	if err := link.LinkAdd(bridge); err != nil {
		b.Fatal(err)
	}
	address, err := netlink.ParseAddr("198.18.0.1/24")
	if err != nil {
		b.Fatal(err)
	}
	if err := link.AddrAdd(bridge, address); err != nil {
		b.Fatal(err)
	}
	if err := link.LinkSetUp(bridge); err != nil {
		b.Fatal(err)
	}
	if err := link.NeighAdd(&netlink.Neigh{LinkIndex: bridge.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: net.IPv4(198, 18, 0, 2), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2}}); err != nil {
		b.Fatal(err)
	}
	client := func(name string) *kubernetes.Clientset {
		c, err := kubernetes.NewForConfig(server.tenant(b, name))
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	system, err := kubernetes.NewForConfig(server.admin)
	if err != nil {
		b.Fatal(err)
	}
	noisy, quiet := client("noisy"), client("quiet")
	var without, with []waits
	for b.Loop() {
		stop := churn(b, noisy, "without")
		without = append(without, measure(b, quiet, system, rounds)...)
		stop()
		_, err := noisy.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(b.Context(), silentHook(),
			metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		stop = churn(b, noisy, "with")
		with = append(with, measure(b, quiet, system, rounds)...)
		stop()
	}
	b.ReportMetric(0, "ns/op")
	for i, what := range []string{"pod", "account", "status", "binding"} {
		before, after := medianOf(without, i), medianOf(with, i)
		b.ReportMetric(float64(before.Microseconds())/1000, what+"-without-ms")
		b.ReportMetric(float64(after.Microseconds())/1000, what+"-with-ms")
		b.ReportMetric(float64(after)/float64(before), what+"-ratio")
	}
}

// silentHook is asked about everything but what the tenant's own users do.
func silentHook() *admissionregistrationv1.MutatingWebhookConfiguration {
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	url, seconds := "https://198.18.0.2/", int32(30)
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "silent"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "silent.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			SideEffects: &none, FailurePolicy: &fail,
			TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"},
					Resources: []string{"*/*"}},
			}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "others",
				Expression: "request.userInfo.username != 'admin'"}},
		}},
	}
}

func oneOf(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/none"}}}},
	}}
}

// churn makes ten deployments of five pods and a namespace a second, and deletes
// them again, until it is stopped.
func churn(b *testing.B, client kubernetes.Interface, name string) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			at := fmt.Sprintf("%s-%d", name, n)
			_, _ = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at}},
				metav1.CreateOptions{})
			for i := range 10 {
				_, _ = client.AppsV1().Deployments("default").Create(ctx, oneOf(fmt.Sprintf("%s-%d", at, i), 5),
					metav1.CreateOptions{})
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			for i := range 10 {
				_ = client.AppsV1().Deployments("default").Delete(ctx, fmt.Sprintf("%s-%d", at, i),
					metav1.DeleteOptions{})
			}
			_ = client.CoreV1().Namespaces().Delete(ctx, at, metav1.DeleteOptions{})
		}
	}()
	return func() { cancel(); <-ended }
}

// waits are the times of a round: pod, account, status, binding.
type waits [4]time.Duration

// measure does rounds of what the system does for a tenant, one after the other.
func measure(b *testing.B, client, system kubernetes.Interface, rounds int) []waits {
	b.Helper()
	time.Sleep(5 * time.Second) // the load is what it is by then
	var out []waits
	for n := range rounds {
		name := fmt.Sprintf("q-%d-%d", time.Now().Unix(), n)
		var w waits
		timed := func(i int, do func() (bool, error)) {
			began := time.Now()
			for {
				done, err := do()
				if done {
					w[i] = time.Since(began)
					return
				}
				if time.Since(began) > 10*time.Minute {
					b.Fatalf("waiting for %d: %v", i, err)
				}
				time.Sleep(closely)
			}
		}
		ctx := b.Context()
		if _, err := client.AppsV1().Deployments("default").
			Create(ctx, oneOf(name, 1), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		pod := ""
		timed(0, func() (bool, error) {
			pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
			if err != nil || len(pods.Items) == 0 {
				return false, err
			}
			pod = pods.Items[0].Name
			return true, nil
		})
		if _, err := client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		timed(1, func() (bool, error) {
			_, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
			return err == nil, err
		})
		timed(2, func() (bool, error) {
			_, err := system.CoreV1().Pods("default.quiet").Patch(ctx, pod, types.MergePatchType,
				[]byte(`{"status":{"message":"seen"}}`), metav1.PatchOptions{}, "status")
			return err == nil, err
		})
		timed(3, func() (bool, error) {
			err := system.CoreV1().Pods("default.quiet").Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default.quiet"},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
			}, metav1.CreateOptions{})
			return err == nil, err
		})
		out = append(out, w)
		_ = client.AppsV1().Deployments("default").Delete(ctx, name, metav1.DeleteOptions{})
		_ = client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	}
	return out
}

func medianOf(all []waits, i int) time.Duration {
	var of []time.Duration
	for _, w := range all {
		of = append(of, w[i])
	}
	slices.Sort(of)
	return of[len(of)/2]
}
