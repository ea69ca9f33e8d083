package route

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

// TestWhereRequestsGo has the partition and the path of each kind of request.
func TestWhereRequestsGo(t *testing.T) {
	c := newCluster(t, Options{})
	servers := map[string]*partitiontest.Server{"home": c.home, "tp2": c.tp2, "rp": c.rp}
	for _, tc := range []struct{ method, path, want, wantPath string }{
		{"GET", "/api/v1/namespaces/kube-system/secrets/s", "home", ""},
		{"GET", "/api/v1/namespaces/default.t1/secrets/s", "home", ""},
		{"GET", "/api/v1/namespaces/default.t2/secrets/s", "tp2", ""},
		{"GET", "/api/v1/namespaces/other.t2/configmaps/c", "tp2", ""},
		{"GET", "/api/v1/namespaces/kube-system.tp2.system/secrets/s", "tp2",
			"/api/v1/namespaces/kube-system/secrets/s"},
		{"GET", "/api/v1/namespaces/kube-system.tp2.system", "tp2", "/api/v1/namespaces/kube-system"},
		{"GET", "/api/v1/namespaces/default.t2", "tp2", ""},
		{"GET", "/api/v1/namespaces/kube-system", "home", ""},
		{"PATCH", "/api/v1/namespaces/default.t2/pods/web/status", "tp2", ""},
		{"POST", "/api/v1/namespaces/kube-system/pods", "home", ""}, // mirrors of static pods
		{"DELETE", "/api/v1/namespaces/kube-system.tp2.system/pods/agent", "tp2",
			"/api/v1/namespaces/kube-system/pods/agent"},
		{"POST", "/api/v1/namespaces/kube-system.tp2.system/serviceaccounts/a/token", "tp2",
			"/api/v1/namespaces/kube-system/serviceaccounts/a/token"},
		{"GET", "/api/v1/namespaces/default.t2/persistentvolumeclaims/c", "tp2", ""},
		{"GET", "/api/v1/persistentvolumes/pv1.t2.tenant", "tp2", ""},
		{"GET", "/api/v1/persistentvolumes/pv1.tp2.system.tenant", "tp2", "/api/v1/persistentvolumes/pv1"},
		{"GET", "/api/v1/persistentvolumes/pv1", "home", ""},
		{"GET", "/api/v1/nodes/node1", "rp", ""},
		{"GET", "/api/v1/nodes", "home", ""}, // which has copies of all
		{"POST", "/api/v1/nodes", "rp", ""},
		{"PATCH", "/api/v1/nodes/node1/status", "rp", ""},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node1", "rp", ""},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", "home", ""},
		{"GET", "/apis/storage.k8s.io/v1/csinodes/node1", "rp", ""},
		{"DELETE", "/apis/resource.k8s.io/v1/resourceslices", "rp", ""},
		{"POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "rp", ""},
		{"GET", "/version", "rp", ""},
		// Nobody's.
		{"GET", "/api/v1/namespaces/default.t9/secrets/s", "", ""},
		{"GET", "/api/v1/namespaces/kube-system.tp9.system/secrets/s", "", ""},
		{"GET", "/api/v1/namespaces/kube-system.main.system/secrets/s", "", ""},
		{"GET", "/api/v1/namespaces/a.b.tp2.system/secrets/s", "home", ""}, // no such namespace can be
		{"GET", "/api/v1/persistentvolumes/pv1.t9.tenant", "", ""},
		{"GET", "/api/v1/persistentvolumes", "", ""},
		{"GET", "/api/v1/watch/persistentvolumes", "", ""},
		{"GET", "/api/v1/namespaces/kube-system%2Fx/secrets/s", "", ""},
		{"GET", "/apis/networking.k8s.io/v1/networkpolicies", "", ""},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			before := map[string]int{}
			for name, s := range servers {
				before[name] = len(s.Asked(tc.method, "/"))
			}
			r, err := http.NewRequest(tc.method, "http://origin"+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := origin.New(c.node, origin.Options{}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			var got []string
			for name, s := range servers {
				for _, a := range s.Asked(tc.method, "/")[before[name]:] {
					if a.Path != "/api/v1/pods" { // which the node follows all the time
						got = append(got, name+" "+a.Path)
					}
				}
			}
			want := []string{}
			if tc.want != "" {
				path := tc.path
				if tc.wantPath != "" {
					path = tc.wantPath
				}
				want = append(want, tc.want+" "+path)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("it came as %v, want %v", got, want)
			}
			if tc.want == "" && answer.StatusCode != http.StatusServiceUnavailable &&
				answer.StatusCode != http.StatusMethodNotAllowed && answer.StatusCode != http.StatusBadRequest {
				t.Errorf("nobody's request is answered by %s", answer.Status)
			}
		})
	}
}

// TestSecretsOfEqualNames is what a pod of each partition gets.
func TestSecretsOfEqualNames(t *testing.T) {
	c := newCluster(t, Options{})
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s"},
			Data: map[string][]byte{"of": []byte(value)}}
	}
	c.home.Put(t, "secrets", secret("home"))
	c.tp2.Put(t, "secrets", secret("tp2"))
	const qualified = "kube-system.tp2.system"
	for namespace, value := range map[string]string{"kube-system": "home", qualified: "tp2"} {
		got, err := c.api.CoreV1().Secrets(namespace).Get(t.Context(), "s", metav1.GetOptions{})
		if err != nil || got.Namespace != namespace || string(got.Data["of"]) != value {
			t.Errorf("in %s: %v, %v", namespace, got, err)
		}
	}
	byName := metav1.ListOptions{FieldSelector: "metadata.name=s"}
	list, err := c.api.CoreV1().Secrets(qualified).List(t.Context(), byName)
	if err != nil || len(list.Items) != 1 || list.Items[0].Namespace != qualified || list.ResourceVersion == "" {
		t.Fatal(list, err)
	}
	byName.ResourceVersion = list.ResourceVersion
	w, err := c.api.CoreV1().Secrets(qualified).Watch(t.Context(), byName)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	c.home.Put(t, "secrets", secret("home again"))
	c.tp2.Put(t, "secrets", secret("tp2 again"))
	got, ok := (<-w.ResultChan()).Object.(*corev1.Secret)
	if !ok || got.Namespace != qualified || string(got.Data["of"]) != "tp2 again" {
		t.Errorf("the watch says %v", got)
	}
	if _, err := c.api.CoreV1().Secrets("default.t2").Get(t.Context(), "s", metav1.GetOptions{}); !apierrors.
		IsNotFound(err) {
		t.Errorf("what a partition does not have: %v", err)
	}
}

// TestBodiesOfRequests looks at what a partition gets.
func TestBodiesOfRequests(t *testing.T) {
	c := newCluster(t, Options{})
	const qualified, status = "kube-system.tp2.system", "/api/v1/namespaces/kube-system/pods/agent/status"
	c.tp2.Answer("PATCH", status, ok(&corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent"}}))
	patch := `{"metadata":{"namespace":"kube-system.tp2.system","uid":"4"},` +
		`"status":{"message":"kube-system.tp2.system"}}`
	got, err := c.api.CoreV1().Pods(qualified).Patch(t.Context(), "agent", types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}, "status")
	if err != nil || got.Namespace != qualified {
		t.Fatal(got, err)
	}
	body := string(one(t, c.tp2, "PATCH", status).Body)
	if !strings.Contains(body, `"namespace":"kube-system"`) || !strings.Contains(body, `"uid":"4"`) ||
		!strings.Contains(body, `"message":"kube-system.tp2.system"`) {
		t.Errorf("the partition got %s", body)
	}

	const token = "/api/v1/namespaces/kube-system/serviceaccounts/a/token"
	c.tp2.Answer("POST", token, ok(&authenticationv1.TokenRequest{
		TypeMeta:   metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "a"},
		Status:     authenticationv1.TokenRequestStatus{Token: "of tp2"}}))
	request := &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: qualified}}
	answer, err := c.api.CoreV1().ServiceAccounts(qualified).CreateToken(t.Context(), "a", request,
		metav1.CreateOptions{})
	if err != nil || answer.Status.Token != "of tp2" || answer.Namespace != qualified {
		t.Fatal(answer, err)
	}
	if body := string(one(t, c.tp2, "POST", token).Body); strings.Contains(body, qualified) ||
		!strings.Contains(body, "kube-system") {
		t.Errorf("the partition got %q", body)
	}
}

func TestVolumesOfPartitions(t *testing.T) {
	c := newCluster(t, Options{})
	const qualified = "kube-system.tp2.system"
	for s, driver := range map[*partitiontest.Server]string{c.home: "of-home", c.tp2: "of-tp2"} {
		s.Put(t, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv1"}})
		s.Put(t, "persistentvolumes", &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv1"},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "kube-system", Name: "c"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver:               driver,
					NodePublishSecretRef: &corev1.SecretReference{Namespace: "kube-system", Name: "s"}}}}})
	}
	c.tp2.Put(t, "volumeattachments", &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}})
	for _, tc := range []struct{ namespace, driver string }{{"kube-system", "of-home"}, {qualified, "of-tp2"}} {
		claim, err := c.api.CoreV1().PersistentVolumeClaims(tc.namespace).Get(t.Context(), "c", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pv, err := c.api.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pv.Name != claim.Spec.VolumeName || pv.Spec.CSI.Driver != tc.driver ||
			pv.Spec.ClaimRef.Namespace != tc.namespace || pv.Spec.CSI.NodePublishSecretRef.Namespace != tc.namespace {
			t.Errorf("of the claim in %s: %+v", tc.namespace, pv)
		}
	}
	attachments := c.api.StorageV1().VolumeAttachments()
	if _, err := attachments.Get(t.Context(), "csi-1", metav1.GetOptions{}); err != nil {
		t.Errorf("an attachment of the second partition: %v", err)
	}
	if _, err := attachments.Get(t.Context(), "csi-2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an attachment of nobody: %v", err)
	}
	w, err := attachments.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=csi-1",
		ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != "ADDED" {
		t.Errorf("the watch of it says %v", e)
	}
	c.home.Away.Store(true)
	if _, err := attachments.Get(t.Context(), "csi-2", metav1.GetOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("an attachment that the partition may have that is away: %v", err)
	}
}

// TestVolumeOfATenantWithASystemSecret reads a volume whose StorageClass named a Secret of
// the system space: it is that of the tenant's partition, not of home.
func TestVolumeOfATenantWithASystemSecret(t *testing.T) {
	c := newCluster(t, Options{})
	for tenant, s := range map[string]*partitiontest.Server{"t1": c.home, "t2": c.tp2} {
		s.Put(t, "persistentvolumes", &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
			Name: "pv1." + tenant + ".tenant"},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{
				Namespace: "default." + tenant, Name: "c"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					NodePublishSecretRef: &corev1.SecretReference{Namespace: "kube-system", Name: "s"}}}}})
		s.Put(t, "secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s"},
			StringData: map[string]string{"of": tenant}})
	}
	for _, tenant := range []string{"t1", "t2"} {
		pv, err := c.api.CoreV1().PersistentVolumes().Get(t.Context(), "pv1."+tenant+".tenant", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pv.Name != "pv1."+tenant+".tenant" || pv.Spec.ClaimRef.Namespace != "default."+tenant {
			t.Errorf("the volume of %s is %+v", tenant, pv)
		}
		ref := pv.Spec.CSI.NodePublishSecretRef
		secret, err := c.api.CoreV1().Secrets(ref.Namespace).Get(t.Context(), ref.Name, metav1.GetOptions{})
		if err != nil || secret.StringData["of"] != tenant {
			t.Errorf("the Secret %v of the volume of %s: %v, %v", ref, tenant, secret, err)
		}
	}
}

// TestVersionsStayHere sends resource versions of merged lists back.
func TestVersionsStayHere(t *testing.T) {
	c := newCluster(t, Options{})
	list, err := c.api.CoreV1().Pods("").List(t.Context(), ownPods)
	if err != nil {
		t.Fatal(err)
	}
	version := list.Items[0].ResourceVersion
	c.tp2.Answer("DELETE", "/api/v1/namespaces/default.t2/pods/web", ok(&metav1.Status{Status: metav1.StatusSuccess}))
	pods := c.api.CoreV1().Pods("default.t2")
	changed := pod("default.t2", "web", "2")
	changed.ResourceVersion = version
	patches := map[types.PatchType]string{
		types.StrategicMergePatchType: `{"metadata":{"resourceVersion":"` + version + `"}}`,
		types.JSONPatchType:           `[{"op":"test","path":"/metadata/resourceVersion","value":"` + version + `"}]`,
	}
	_, errUpdate := pods.Update(t.Context(), changed, metav1.UpdateOptions{})
	errDelete := pods.Delete(t.Context(), "web",
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	errs := []error{errUpdate, errDelete}
	for kind, patch := range patches {
		_, err := pods.Patch(t.Context(), "web", kind, []byte(patch), metav1.PatchOptions{}, "status")
		errs = append(errs, err)
	}
	for i, err := range errs {
		if !apierrors.IsConflict(err) {
			t.Errorf("precondition %d: %v", i, err)
		}
	}
	if _, err := pods.Get(t.Context(), "web", metav1.GetOptions{ResourceVersion: version}); err != nil {
		t.Error(err)
	}
	_, err = pods.List(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a list in a namespace: %v", err)
	}
	uid := types.UID("2")
	if err := pods.Delete(t.Context(), "web",
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Errorf("a deletion by UID: %v", err)
	}
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
		for _, a := range c.tp2.Asked(method, "/") {
			if strings.Contains(a.Query.Encode()+string(a.Body), version) {
				t.Errorf("a version of this node came to a server: %v", a)
			}
		}
	}
}
