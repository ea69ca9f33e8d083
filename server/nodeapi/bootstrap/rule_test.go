package bootstrap

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	uid      = "6f0b1c9e-3d1c-4b1e-9a52-0d5f2f6f7a01"
	otherUID = "0c7d9b1e-52a1-4a6e-8f7c-1f6a5b4c3d02"
	ownerUID = "2a1f4d5c-7b8e-4c9d-a0b1-c2d3e4f5a603"
	ownUID   = "1b2c3d4e-0000-4000-8000-000000000004" // what upstream would give
)

// server is what a pod passes through, without the rest of an API server:
// upstream's plugin in ours, and the storage's hook.
type server struct {
	client *fake.Clientset
	pods   *Pods
	plugin *plugin
}

func newServer(t *testing.T, existing ...*corev1.Pod) *server {
	t.Helper()
	client := fake.NewClientset()
	for _, pod := range existing {
		if _, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f := informers.NewSharedInformerFactory(client, 0)
	s := &server{client: client, pods: New()}
	s.pods.know(f.Core().V1().Pods())
	upstream := noderestriction.NewPlugin(nodeidentifier.NewDefaultNodeIdentifier())
	upstream.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	upstream.SetExternalKubeInformerFactory(f)
	s.plugin = &plugin{Interface: upstream}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	t.Cleanup(f.Shutdown)
	return s
}

// creation is one request.
type creation struct {
	user      user.DefaultInfo
	namespace string
	verb      string
	headers   http.Header
	dryRun    []string
	pod       *core.Pod
}

// offer is what a node sends.
func offer() *creation {
	return &creation{
		user:      user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup, user.AllAuthenticated}},
		namespace: "kube-system", verb: "create", headers: http.Header{},
		pod: &core.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "etcd-n1", Namespace: "kube-system", UID: ownUID,
				Annotations: map[string]string{bootstrapapi.SourceAnnotation: bootstrapapi.Source,
					bootstrapapi.UIDAnnotation: uid, "keep": "me"},
			},
			Spec: core.PodSpec{NodeName: "n1", Containers: []core.Container{{Name: "c", Image: "i"}},
				Volumes: []core.Volume{
					{Name: "data",
						VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/data"}}},
				}},
		},
	}
}

// answer is what admission and storage say to a request, and how the storage
// ends it.
type answer struct {
	admitted, begun error
	finish          func(stored bool)
}

func (s *server) send(t *testing.T, c *creation) answer {
	t.Helper()
	ctx := t.Context()
	req := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/x/pods", nil).WithContext(ctx)
	req.Header = c.headers
	Mark(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx = r.Context()
	})).ServeHTTP(httptest.NewRecorder(), req)
	ctx = request.WithUser(request.WithNamespace(ctx, c.namespace), &c.user)
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Verb: c.verb, Resource: "pods", Namespace: c.namespace,
		IsResourceRequest: true})
	attr := admission.NewAttributesRecord(c.pod, nil, core.Kind("Pod").WithVersion("v1"), c.namespace, c.pod.Name,
		core.Resource("pods").WithVersion("v1"), "",
		admission.Create, &metav1.CreateOptions{DryRun: c.dryRun}, len(c.dryRun) > 0, &c.user)
	a := answer{admitted: s.plugin.Admit(ctx, attr, nil)}
	end, err := s.pods.begin(ctx, c.pod, &metav1.CreateOptions{DryRun: c.dryRun})
	a.begun, a.finish = err, func(stored bool) { end(ctx, stored) }
	return a
}

// TestRule: a pod of a node gets the UID it asks for; of everything else that
// could be asked, nothing does.
func TestRule(t *testing.T) {
	const (
		kept    = "kept"    // the UID is the one asked for
		refused = "refused" // by the storage at the latest
		limited = "limited" // by admission, and by the storage should admission be off
		ignored = "ignored" // the pod has a UID of the server and no mark
	)
	annotate := func(key, value string) func(*creation) {
		return func(c *creation) { c.pod.Annotations[key] = value }
	}
	spec := func(change func(*core.PodSpec)) func(*creation) {
		return func(c *creation) { change(&c.pod.Spec) }
	}
	volume := func(source core.VolumeSource) func(*creation) {
		return spec(func(s *core.PodSpec) {
			s.Volumes = append(s.Volumes, core.Volume{Name: "v", VolumeSource: source})
		})
	}
	by := func(name string, groups ...string) func(*creation) {
		return func(c *creation) { c.user.Name, c.user.Groups = name, groups }
	}
	for what, tc := range map[string]struct {
		change func(*creation)
		want   string
	}{
		"the pod of a node": {func(*creation) {}, kept},
		"in another namespace": {func(c *creation) { c.namespace, c.pod.Namespace = "default", "default" },
			kept},
		"no service account token": {spec(func(s *core.PodSpec) { no := false; s.AutomountServiceAccountToken = &no }),
			kept},
		"tried only":                   {func(c *creation) { c.dryRun = []string{metav1.DryRunAll} }, kept},
		"an administrator":             {by("admin", user.SystemPrivilegedGroup), refused},
		"a user called like a node":    {by("system:node:n1", user.AllAuthenticated), refused},
		"a user in the group of nodes": {by("n1", user.NodesGroup), refused},
		"a node without a name":        {by("system:node:", user.NodesGroup), refused},
		"a service account":            {by("system:serviceaccount:kube-system:x", user.NodesGroup), refused},
		"a tenant's user called so": {func(c *creation) { c.user.Extra = map[string][]string{space.Extra: {"t1"}} },
			refused},
		"one who impersonates a node": {func(c *creation) { c.headers.Set("Impersonate-User", "system:node:n1") },
			refused},
		"one who impersonates by UID": {func(c *creation) { c.headers["impersonate-uid"] = []string{"x"} },
			refused},
		"a node that is somebody else": {by("system:node:n2", user.NodesGroup), limited},
		"server-side apply":            {func(c *creation) { c.verb = "patch" }, refused},
		"an update that creates":       {func(c *creation) { c.verb = "update" }, refused},
		"the UID without the mark": {func(c *creation) { delete(c.pod.Annotations, bootstrapapi.SourceAnnotation) },
			refused},
		"the UID with another mark": {annotate(bootstrapapi.SourceAnnotation, "file"), refused},
		"the mark without the UID": {func(c *creation) { delete(c.pod.Annotations, bootstrapapi.UIDAnnotation) },
			refused},
		"a user's mark without the UID": {
			func(c *creation) { by("bob")(c); delete(c.pod.Annotations, bootstrapapi.UIDAnnotation) }, ignored,
		},
		"no UUID":            {annotate(bootstrapapi.UIDAnnotation, "1"), refused},
		"an empty UID":       {annotate(bootstrapapi.UIDAnnotation, ""), refused},
		"a UUID in capitals": {annotate(bootstrapapi.UIDAnnotation, strings.ToUpper(uid)), refused},
		"a UUID and more":    {annotate(bootstrapapi.UIDAnnotation, uid+"\n"), refused},
		"the zero UUID": {annotate(bootstrapapi.UIDAnnotation,
			"00000000-0000-0000-0000-000000000000"), refused},
		"the UID of another pod": {annotate(bootstrapapi.UIDAnnotation, otherUID), refused},
		"the UID of an owner":    {annotate(bootstrapapi.UIDAnnotation, ownerUID), refused},
		"a mirror pod":           {annotate(core.MirrorPodAnnotationKey, "x"), limited},
		"on another node":        {spec(func(s *core.PodSpec) { s.NodeName = "n2" }), limited},
		"on no node":             {spec(func(s *core.PodSpec) { s.NodeName = "" }), limited},
		"in a tenant's namespace": {func(c *creation) { c.namespace, c.pod.Namespace = "default.t1", "default.t1" },
			limited},
		"with an owner": {
			func(c *creation) { c.pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n1"}} }, limited,
		},
		"with a service account": {spec(func(s *core.PodSpec) { s.ServiceAccountName = "x" }), limited},
		"with the default service account": {spec(func(s *core.PodSpec) { s.ServiceAccountName = "default" }),
			limited},
		"with a pull secret": {spec(
			func(s *core.PodSpec) { s.ImagePullSecrets = []core.LocalObjectReference{{Name: "x"}} }), limited},
		"with a resource claim": {spec(
			func(s *core.PodSpec) { s.ResourceClaims = []core.PodResourceClaim{{Name: "x"}} }), limited},
		"with a variable from a Secret": {spec(func(s *core.PodSpec) {
			s.Containers[0].Env = []core.EnvVar{{Name: "E", ValueFrom: &core.EnvVarSource{
				SecretKeyRef: &core.SecretKeySelector{LocalObjectReference: core.LocalObjectReference{Name: "x"},
					Key: "k"},
			}}}
		}), limited},
		"with variables from a ConfigMap": {spec(func(s *core.PodSpec) {
			s.InitContainers = []core.Container{{Name: "i", EnvFrom: []core.EnvFromSource{
				{ConfigMapRef: &core.ConfigMapEnvSource{LocalObjectReference: core.LocalObjectReference{Name: "x"}}},
			}}}
		}), limited},
		"with a Secret": {volume(core.VolumeSource{Secret: &core.SecretVolumeSource{SecretName: "x"}}),
			limited},
		"with a ConfigMap": {volume(core.VolumeSource{ConfigMap: &core.ConfigMapVolumeSource{}}), limited},
		"with a claim": {volume(core.VolumeSource{PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{}}),
			limited},
		"with an ephemeral claim": {volume(core.VolumeSource{Ephemeral: &core.EphemeralVolumeSource{}}), limited},
		"with a CSI volume":       {volume(core.VolumeSource{CSI: &core.CSIVolumeSource{}}), limited},
		"with a projected token": {volume(core.VolumeSource{Projected: &core.ProjectedVolumeSource{
			Sources: []core.VolumeProjection{{ServiceAccountToken: &core.ServiceAccountTokenProjection{}}},
		}}), limited},
		"with an unknown volume":    {volume(core.VolumeSource{}), limited},
		"a user's pod without both": {func(c *creation) { by("bob")(c); c.pod.Annotations = nil }, ignored},
	} {
		t.Run(what, func(t *testing.T) {
			s := newServer(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: "web", Namespace: "default.t1", UID: otherUID,
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: ownerUID}},
			}})
			c := offer()
			tc.change(c)
			a := s.send(t, c)
			admitted, begun := a.admitted, a.begun
			got := kept
			switch {
			case begun != nil && admitted != nil && tc.want == limited:
				got = limited
			case begun != nil:
				got = refused
			case c.pod.UID == ownUID:
				got = ignored
			}
			if got != tc.want {
				t.Fatalf("%s, want %s: admission says %v, the storage %v", got, tc.want, admitted, begun)
			}
			for _, err := range []error{admitted, begun} {
				if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
					t.Errorf("a refusal that is none: %v", err)
				}
			}
			if begun != nil {
				return
			}
			_, marked := c.pod.Annotations[bootstrapapi.SourceAnnotation]
			if _, left := c.pod.Annotations[bootstrapapi.UIDAnnotation]; left || marked != (got == kept) {
				t.Errorf("stored with the annotations %v", c.pod.Annotations)
			}
			if got == kept &&
				(c.pod.UID != uid || c.pod.Annotations["keep"] != "me" || c.pod.Spec.ServiceAccountName != "") {
				t.Errorf("stored as %+v", c.pod)
			}
		})
	}
}

// TestMirrorPodsAreUpstreams: what is not offered is judged by the plugin of
// upstream, which lets nodes make mirror pods only.
func TestMirrorPodsAreUpstreams(t *testing.T) {
	s := newServer(t)
	c := offer()
	c.pod.Annotations = nil
	a := s.send(t, c)
	if !apierrors.IsForbidden(a.admitted) || !strings.Contains(a.admitted.Error(), core.MirrorPodAnnotationKey) ||
		a.begun != nil || c.pod.UID != ownUID {
		t.Errorf("admission says %v, the storage %v, UID %s", a.admitted, a.begun, c.pod.UID)
	}
}

// TestValidationSeesWhatWebhooksMade: when pods are validated the UID is set
// and its annotation gone.
func TestValidationSeesWhatWebhooksMade(t *testing.T) {
	for what, tc := range map[string]struct {
		account string
		refused bool
	}{"as it was": {"", false}, "with a service account": {"default", true}} {
		c := offer()
		delete(c.pod.Annotations, bootstrapapi.UIDAnnotation)
		c.pod.Spec.ServiceAccountName = tc.account
		attr := admission.NewAttributesRecord(c.pod, nil, core.Kind("Pod").WithVersion("v1"), c.namespace, c.pod.Name,
			core.Resource("pods").WithVersion("v1"), "", admission.Create, nil, false, &c.user)
		if err := (&plugin{Interface: refuses{}}).Validate(t.Context(), attr, nil); (err != nil) != tc.refused ||
			err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// refuses is a plugin of upstream that must not be asked.
type refuses struct{ admission.Interface }

// Validate implements admission.ValidationInterface.
func (refuses) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return context.Canceled
}

// TestOneUIDOnce: a UID that a pod gets is taken before the lister knows it,
// and free again if the pod was not stored.
func TestOneUIDOnce(t *testing.T) {
	again := func(name string) *creation {
		c := offer()
		c.pod.Name = name
		return c
	}
	s := newServer(t)
	first := s.send(t, again("a-n1"))
	if first.begun != nil {
		t.Fatal(first.begun)
	}
	if err := s.send(t, again("b-n1")).begun; !apierrors.IsInvalid(err) {
		t.Errorf("a second pod at the same time: %v", err)
	}
	first.finish(false)
	second := s.send(t, again("b-n1"))
	if second.begun != nil {
		t.Fatalf("after a pod that was not stored: %v", second.begun)
	}
	second.finish(true)
	if err := s.send(t, again("a-n1")).begun; !apierrors.IsInvalid(err) {
		t.Errorf("a second pod after the first: %v", err)
	}
	// The answer was lost, say: the storage knows the pod by its name.
	same := s.send(t, again("b-n1"))
	if same.begun != nil {
		t.Errorf("the same pod again: %v", same.begun)
	}
	same.finish(false)
	if err := s.send(t, again("a-n1")).begun; !apierrors.IsInvalid(err) {
		t.Errorf("a second pod after the same was refused: %v", err)
	}
	tried := again("c-n1")
	tried.dryRun, tried.pod.Annotations[bootstrapapi.UIDAnnotation] = []string{metav1.DryRunAll}, otherUID
	if a := s.send(t, tried); a.begun != nil {
		t.Fatal(a.begun)
	} else {
		a.finish(true)
	}
	last := again("d-n1")
	last.pod.Annotations[bootstrapapi.UIDAnnotation] = otherUID
	if err := s.send(t, last).begun; err != nil {
		t.Errorf("after a pod that was only tried: %v", err)
	}
}

// TestDeletedPodsAreForgotten: what is remembered of UIDs does not grow with
// the pods that come and go.
func TestDeletedPodsAreForgotten(t *testing.T) {
	s := newServer(t)
	for _, id := range []types.UID{uid, otherUID} {
		if err := s.pods.take(id, "kube-system", string(id)); err != nil {
			t.Fatal(err)
		}
	}
	s.pods.settle(uid, "kube-system", uid, true) // the other one is being stored
	pods := s.client.CoreV1().Pods("kube-system")
	for _, id := range []types.UID{uid, otherUID} {
		if _, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system",
			Name: string(id), UID: id}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []types.UID{otherUID, uid} {
		if err := pods.Delete(t.Context(), string(id), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	known := func(id types.UID) bool {
		s.pods.mu.Lock()
		defer s.pods.mu.Unlock()
		_, ok := s.pods.taken[id]
		return ok
	}
	for deadline := time.Now().Add(2 * time.Minute); known(uid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a deleted pod is remembered")
		}
	}
	if !known(otherUID) {
		t.Error("a pod that is being stored is forgotten")
	}
}

// TestManyAtOnce: of many pods with one UID one gets it.
func TestManyAtOnce(t *testing.T) {
	s := newServer(t)
	var won sync.Map
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			name := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
			if s.pods.take(types.UID(uid), "kube-system", name) == nil {
				won.Store(name, true)
				s.pods.settle(types.UID(uid), "kube-system", name, true)
			}
		})
	}
	all.Wait()
	n := 0
	won.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d pods have the UID", n)
	}
}

// TestUnknownPods: as long as the other pods are not known, none is stored.
func TestUnknownPods(t *testing.T) {
	s := &server{pods: New(),
		plugin: &plugin{Interface: noderestriction.NewPlugin(nodeidentifier.NewDefaultNodeIdentifier())}}
	if err := s.send(t, offer()).begun; !apierrors.IsServerTimeout(err) {
		t.Errorf("%v", err)
	}
}
