package wire

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// jsonPods is what a list of n pods looks like.
func jsonPods(tb testing.TB, n int) []byte {
	tb.Helper()
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: "5"}}
	for i := range n {
		list.Items = append(list.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("web-%d", i), Namespace: "default.t1", UID: "0a1b2c3d-0000-0000-0000-000000000000",
				Labels: map[string]string{"app": "web", "pod-template-hash": "5d4f8c"},
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d4f8c",
						UID: "0a1b2c3d-0000-0000-0000-000000000001"},
				},
				ManagedFields: []metav1.ManagedFieldsEntry{{
					Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},` +
						`"f:pod-template-hash":{}},"f:ownerReferences":{".":{},` +
						`"k:{\"uid\":\"0a1b2c3d-0000-0000-0000-000000000001\"}":{}}},"f:spec":{"f:containers":{"k:{` +
						`\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},` +
						`"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},` +
						`"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},` +
						`"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`),
				}},
			},
			Spec: corev1.PodSpec{
				ServiceAccountName: "default", NodeName: "node-1", SchedulerName: "default-scheduler",
				Containers: []corev1.Container{{
					Name: "web", Image: "registry/web:1", Command: []string{"/web", "--verbose"},
					Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "POD", ValueFrom: &corev1.EnvVarSource{
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
					}}},
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU:    resource.MustParse("100m"),
						corev1.ResourceMemory: resource.MustParse("64Mi"),
					}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
						HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)},
					}},
					VolumeMounts: []corev1.VolumeMount{{Name: "token",
						MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
				}},
				Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists",
					Effect: "NoExecute"}},
			},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: "10.42.0.9", HostIP: "192.168.0.1",
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
					Message: "all is well"}},
				ContainerStatuses: []corev1.ContainerStatus{{
					Name: "web", Ready: true, Image: "registry/web:1", ImageID: "sha256:0123456789",
					ContainerID: "containerd://0123456789",
					State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				}},
			},
		})
	}
	b, err := json.Marshal(list)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func BenchmarkJSONPodList(b *testing.B) {
	body := jsonPods(b, 1000)
	p := protoProjector("t1")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.JSON(Out, podKind(), body); err != nil {
			b.Fatal(err)
		}
	}
}
