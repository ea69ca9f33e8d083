package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/tests/hosts"
)

var paramCodec = scheme.ParameterCodec

// testboxPod is a pod of one container "box" that runs testbox with args, by
// default its server on port 8080.
func testboxPod(name string, args ...string) *corev1.Pod {
	if len(args) == 0 {
		args = []string{"serve"}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(5)),
			Containers: []corev1.Container{{
				Name: "box", Image: testboxImage, Args: args,
				// No registry has it: it runs only if the import worked.
				ImagePullPolicy: corev1.PullNever,
			}},
		},
	}
	if args[0] == "serve" {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
		pod.Spec.Containers[0].ReadinessProbe = httpProbe("/readyz")
	}
	return pod
}

func httpProbe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
			Port: intstr.FromInt32(8080)}},
		PeriodSeconds:    1,
		FailureThreshold: 2,
		TimeoutSeconds:   5,
	}
}

// passingTaint keeps the pods of other tests away from a node that is in the shared
// cluster for one test only.
const passingTaint = "example.com/passing"

// on binds a pod to a node.
func on(node string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: passingTaint, Operator: corev1.TolerationOpExists}}
	return pod
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	pod := testboxPod(name)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}
}

// service selects the pods of an app by name. Port 80 goes to its server.
func service(name, app string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

func (c *cluster) createPod(t *testing.T, ns string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	if c.class != "" && pod.Spec.RuntimeClassName == nil {
		pod.Spec.RuntimeClassName = &c.class
	}
	c.takesPods(t, ns)
	made, err := c.client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// runPod creates a pod and waits until it is ready.
func (c *cluster) runPod(t *testing.T, ns string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	c.createPod(t, ns, pod)
	return c.waitPodReady(t, ns, pod.Name)
}

func (c *cluster) waitPodReady(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	return c.waitPod(t, ns, name, "is ready", podIsReady)
}

func podIsReady(p *corev1.Pod) bool {
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waitPod waits until a pod fulfils a condition that what names.
func (c *cluster) waitPod(t *testing.T, ns, name, what string, condition func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	hosts.Until(t, podTimeout, "pod "+name+" "+what, func(ctx context.Context) error {
		p, err := c.client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !condition(p) {
			return fmt.Errorf("phase %s, on node %q, conditions %+v, containers %+v",
				p.Status.Phase, p.Spec.NodeName, p.Status.Conditions, p.Status.ContainerStatuses)
		}
		pod = p
		return nil
	})
	return pod
}

// finishPod runs a pod to its end and returns what it printed.
func (c *cluster) finishPod(t *testing.T, ns string, pod *corev1.Pod) string {
	t.Helper()
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	c.createPod(t, ns, pod)
	done := c.waitPod(t, ns, pod.Name, "has ended", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	out := c.logs(t, ns, pod.Name)
	if done.Status.Phase != corev1.PodSucceeded {
		t.Fatalf("pod %s failed: %s", pod.Name, out)
	}
	return out
}

func (c *cluster) logs(t *testing.T, ns, pod string) string {
	t.Helper()
	b, err := c.client.CoreV1().Pods(ns).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("logs of pod %s: %v", pod, err)
	}
	return string(b)
}

// said is what a pod has logged, which it waits for: a pod without a probe is ready before it
// says anything.
func (c *cluster) said(t *testing.T, ns, pod string) (out string) {
	t.Helper()
	hosts.Until(t, podTimeout, "pod "+pod+" has said something", func(context.Context) error {
		if out = c.logs(t, ns, pod); out == "" {
			return errors.New("its log is empty")
		}
		return nil
	})
	return out
}

// runDeployment creates a Deployment, waits until all replicas are available
// and returns its pods.
func (c *cluster) runDeployment(t *testing.T, ns string, d *appsv1.Deployment) []corev1.Pod {
	t.Helper()
	if _, err := c.client.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c.waitDeployment(t, ns, d.Name, *d.Spec.Replicas)
}

func (c *cluster) waitDeployment(t *testing.T, ns, name string, replicas int32) []corev1.Pod {
	t.Helper()
	hosts.Until(t, podTimeout, "deployment "+name+" is available", func(ctx context.Context) error {
		d, err := c.client.AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.AvailableReplicas != replicas ||
			s.Replicas != replicas {
			return fmt.Errorf("%d of %d replicas are available: %v", s.AvailableReplicas, replicas, s.Conditions)
		}
		return nil
	})
	pods, err := c.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func (c *cluster) createService(t *testing.T, ns string, s *corev1.Service) *corev1.Service {
	t.Helper()
	made, err := c.client.CoreV1().Services(ns).Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
