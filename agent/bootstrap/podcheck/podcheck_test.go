package podcheck

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
)

const minimal = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},` +
	`"spec":{"containers":[{"name":"c","image":"i:1"}]}}`

func newChecker(t *testing.T) *Checker {
	t.Helper()
	c, err := New("node1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func complete(t *testing.T, body string) (*corev1.Pod, error) {
	t.Helper()
	c := newChecker(t)
	pod, err := c.Decode([]byte(body), true)
	if err != nil {
		return nil, err
	}
	return c.Complete(pod, time.Date(2026, 11, 21, 12, 0, 0, 1, time.UTC))
}

func TestSeedNaming(t *testing.T) {
	pod, err := complete(t, minimal)
	if err != nil || pod.Name != "web-node1" {
		t.Errorf("name %q, %v; want web-node1", pod.Name, err)
	}
}

func TestSeedSourceTagging(t *testing.T) {
	for _, body := range []string{minimal, strings.Replace(minimal, `"name":"web"`,
		`"name":"web","annotations":{"kubernetes.io/config.source":"kubelet-api"}`, 1)} {
		pod, err := complete(t, body)
		if err != nil || pod.Annotations["kubernetes.io/config.source"] != "kubelet-api" {
			t.Errorf("annotations %v, %v", pod.Annotations, err)
		}
	}
}

func TestWhatIsAcceptedIsComplete(t *testing.T) {
	pod, err := complete(t, minimal)
	if err != nil {
		t.Fatal(err)
	}
	again, err := complete(t, minimal)
	if err != nil {
		t.Fatal(err)
	}
	if pod.UID == "" || pod.UID == again.UID {
		t.Errorf("UIDs %q and %q", pod.UID, again.UID)
	}
	spec := &pod.Spec
	switch {
	case pod.Namespace != "default", spec.NodeName != "node1", pod.Generation != 1,
		pod.CreationTimestamp.IsZero(), pod.Kind != "Pod":
		t.Errorf("metadata %+v on %q", pod.ObjectMeta, spec.NodeName)
	case spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken, spec.ServiceAccountName != "":
		t.Errorf("service account %q, automount %v", spec.ServiceAccountName, spec.AutomountServiceAccountToken)
	case spec.RestartPolicy != corev1.RestartPolicyAlways, spec.DNSPolicy != corev1.DNSClusterFirst,
		spec.Containers[0].TerminationMessagePath == "", *spec.TerminationGracePeriodSeconds != 30:
		t.Errorf("the API server's defaults are missing: %+v", spec)
	case pod.Status.Phase != corev1.PodPending, pod.Status.QOSClass != corev1.PodQOSBestEffort:
		t.Errorf("status %+v", pod.Status)
	}
}

func TestDecodeRefusesWhatIsNoPod(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"not JSON":        {`{"kind":`, "no pod"},
		"unknown field":   {strings.Replace(minimal, `"spec":{`, `"spec":{"replicas":3,`, 1), "replicas"},
		"duplicate field": {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nmetadata: {name: b}\n", "metadata"},
		"wrong type": {strings.Replace(minimal, `"containers":[`, `"hostNetwork":"yes","containers":[`, 1),
			"hostNetwork"},
		"another kind":     {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`, "ConfigMap"},
		"an unknown kind":  {`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}}`, "Deployment"},
		"a list":           {`[]`, "no pod"},
		"only white space": {" \n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := complete(t, tc.body)
			if !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want a refusal that names %q", err, tc.want)
			}
		})
	}
}

func TestRefusalsNameTheField(t *testing.T) {
	meta := func(text string) string { return strings.Replace(minimal, `"name":"web"`, `"name":"web",`+text, 1) }
	spec := func(text string) string { return strings.Replace(minimal, `"spec":{`, `"spec":{`+text+`,`, 1) }
	for name, tc := range map[string]struct{ body, field string }{
		"no name": {strings.Replace(minimal, `"name":"web"`, `"labels":{}`, 1), "metadata.name"},
		"a name too long": {strings.Replace(minimal, `"web"`, `"`+strings.Repeat("a", 250)+`"`, 1),
			"metadata.name"},
		"a bad name":           {strings.Replace(minimal, `"web"`, `"Web_"`, 1), "metadata.name"},
		"no containers":        {`{"metadata":{"name":"a"},"spec":{}}`, "spec.containers"},
		"another node":         {spec(`"nodeName":"node2"`), "spec.nodeName"},
		"a tenant's namespace": {meta(`"namespace":"default.t1"`), "metadata.namespace"},
		"generateName":         {meta(`"generateName":"x-"`), "metadata.generateName"},
		"an owner": {meta(`"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]`),
			"metadata.ownerReferences"},
		"a finalizer":        {meta(`"finalizers":["example.com/x"]`), "metadata.finalizers"},
		"a resource version": {meta(`"resourceVersion":"5"`), "metadata.resourceVersion"},
		"a mirror": {meta(`"annotations":{"kubernetes.io/config.mirror":"x"}`),
			"metadata.annotations[kubernetes.io/config.mirror]"},
		"a UID of one's own choice": {meta(`"annotations":{"a4s.io/bootstrap-uid":"x"}`),
			"metadata.annotations[a4s.io/bootstrap-uid]"},
		"an unknown workload type": {meta(`"annotations":{"a4s.io/workload-type":"unikernel"}`),
			"metadata.annotations[a4s.io/workload-type]"},
		"another source": {meta(`"annotations":{"kubernetes.io/config.source":"file"}`),
			"metadata.annotations[kubernetes.io/config.source]"},
		"a service account": {spec(`"serviceAccountName":"robot"`), "spec.serviceAccountName"},
		"its old name":      {spec(`"serviceAccount":"robot"`), "spec.serviceAccountName"},
		"a token": {spec(`"automountServiceAccountToken":true`),
			"spec.automountServiceAccountToken"},
		"a secret volume": {spec(`"volumes":[{"name":"v","secret":{"secretName":"s"}}]`), "spec"},
		"a secret variable": {strings.Replace(minimal, `"image":"i:1"`,
			`"image":"i:1","env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]`, 1),
			"spec"},
		"a pull secret": {spec(`"imagePullSecrets":[{"name":"s"}]`), "spec"},
		"a config map": {strings.Replace(minimal, `"image":"i:1"`,
			`"image":"i:1","envFrom":[{"configMapRef":{"name":"s"}}]`, 1), "spec"},
		"a claim": {spec(`"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"s"}}]`), "spec"},
		"a projected token": {spec(`"volumes":[{"name":"v",` +
			`"projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]`), "spec"},
		"a resource claim":     {spec(`"resourceClaims":[{"name":"r","resourceClaimName":"x"}]`), "spec"},
		"a runtime class":      {spec(`"runtimeClassName":"vm"`), "spec.runtimeClassName"},
		"a scheduling gate":    {spec(`"schedulingGates":[{"name":"example.com/g"}]`), "spec.schedulingGates"},
		"a priority class":     {spec(`"priorityClassName":"mine"`), "spec.priorityClassName"},
		"a priority":           {spec(`"priority":5`), "spec.priority"},
		"another priority":     {spec(`"priority":5,"priorityClassName":"system-node-critical"`), "spec.priority"},
		"an overhead":          {spec(`"overhead":{"cpu":"1"}`), "spec.overhead"},
		"what upstream checks": {spec(`"restartPolicy":"Sometimes"`), "spec.restartPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := complete(t, tc.body)
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != 422 || status.Status().Details == nil {
				t.Fatalf("error %v, want a refusal with causes", err)
			}
			for _, cause := range status.Status().Details.Causes {
				if cause.Field == tc.field {
					return
				}
			}
			t.Errorf("causes %v, want one of %s", status.Status().Details.Causes, tc.field)
		})
	}
}

func TestWhatASelfHostedControlPlaneNeedsIsAllowed(t *testing.T) {
	pod, err := complete(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: plane, namespace: kube-system, annotations: {%s: %s}}
spec:
  hostNetwork: true
  hostPID: true
  nodeName: node1
  serviceAccountName: default
  priorityClassName: system-node-critical
  containers:
  - name: c
    image: docker.io/a4s/a4s:1
    securityContext: {privileged: true}
    env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
    ports: [{containerPort: 6443}]
    volumeMounts: [{name: data, mountPath: /var/lib/a4s}]
  volumes:
  - {name: data, hostPath: {path: /var/lib/a4s, type: DirectoryOrCreate}}
  - {name: tmp, emptyDir: {}}
`, bootstrapapi.SourceAnnotation, bootstrapapi.Source))
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.ServiceAccountName != "" || pod.Spec.DeprecatedServiceAccount != "" ||
		*pod.Spec.Priority != 2000001000 || pod.Spec.Containers[0].Ports[0].HostPort != 6443 {
		t.Errorf("spec %+v", pod.Spec)
	}
}
