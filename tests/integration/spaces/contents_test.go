package spaces_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestNamesInContents: names are native also where an object keeps them in
// something that is no field of its own.
func TestNamesInContents(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.tenant(t, "a")
	a.namespace(t, "other", nil)
	t.Run("revisions", func(t *testing.T) { testRevisions(t, a) })
	t.Run("tokens", func(t *testing.T) { testTokenSecret(t, p, a) })
	t.Run("pages", func(t *testing.T) { testPages(t, p, a) })
	t.Run("parameters", func(t *testing.T) { testParameters(t, a, p.tenant(t, "b")) })
}

// testRevisions rolls a StatefulSet back, as kubectl does: by sending what a
// revision has.
func testRevisions(t *testing.T, s *space) {
	ctx := t.Context()
	labels := map[string]string{"app": "db"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: "db",
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "one"}},
			Affinity: &corev1.Affinity{
				PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
						TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
						Namespaces: []string{"other"}, NamespaceSelector: &metav1.LabelSelector{},
					}},
				},
			},
		}},
	}}
	set, err := s.client.AppsV1().StatefulSets("default").Create(ctx, set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := set.Spec.Template
	var first *appsv1.ControllerRevision
	eventually(t, "the first revision", func(ctx context.Context) (bool, error) {
		list, err := s.client.AppsV1().ControllerRevisions("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		first = &list.Items[0]
		return true, nil
	})
	binary := rest.CopyConfig(s.config)
	binary.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(binary)
	if err != nil {
		t.Fatal(err)
	}
	inProtobuf, err := client.AppsV1().ControllerRevisions("default").Get(ctx, first.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for form, r := range map[string]*appsv1.ControllerRevision{"JSON": first, "protobuf": inProtobuf} {
		if data := string(r.Data.Raw); strings.Contains(data, "other.a") || strings.Contains(data, "a4s.io") ||
			!strings.Contains(data, `"other"`) {
			t.Errorf("the revision in %s: %s", form, data)
		}
	}
	if _, err := s.client.AppsV1().StatefulSets("default").Patch(ctx, "db", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"affinity":null,"containers":[{"name":"c","image":"two"}]}}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	back, err := s.client.AppsV1().StatefulSets("default").Patch(ctx, "db", types.StrategicMergePatchType,
		first.Data.Raw, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := back.Spec.Template; got.Spec.Containers[0].Image != "one" ||
		got.Spec.Affinity.String() != want.Spec.Affinity.String() {
		t.Errorf("rolled back to %v, not %v", got.Spec, want.Spec)
	}
}

// testTokenSecret: the namespace in a Secret with a token is the native one,
// and the token is good.
func testTokenSecret(t *testing.T, p *plane, s *space) {
	if _, err := s.client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var secret *corev1.Secret
	eventually(t, "the token", func(ctx context.Context) (bool, error) {
		var err error
		secret, err = s.client.CoreV1().Secrets("default").Get(ctx, "token", metav1.GetOptions{})
		return err == nil && len(secret.Data["token"]) > 0, err
	})
	// The kubelet reads the composite view.
	inside, err := p.admin.CoreV1().Secrets("default.a").Get(t.Context(), "token", metav1.GetOptions{})
	if err != nil || string(secret.Data["namespace"]) != "default" || string(inside.Data["namespace"]) != "default" {
		t.Errorf("namespace %q, for the kubelet %q, %v", secret.Data["namespace"], inside.Data["namespace"], err)
	}
	cfg := rest.AnonymousClientConfig(s.config)
	cfg.BearerToken = string(secret.Data["token"])
	if code, body := do(t, cfg, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`,
		nil); code != http.StatusCreated || !strings.Contains(body, `"system:serviceaccount:default:default"`) {
		t.Errorf("who has the token: %d %s", code, body)
	}
}

// testPages: a page says how many objects come after it.
func testPages(t *testing.T, p *plane, s *space) {
	for _, name := range []string{"p1", "p2", "p3"} {
		for _, client := range []kubernetes.Interface{s.client, p.admin} {
			if _, err := client.CoreV1().PodTemplates("default").Create(t.Context(),
				&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Template: corev1.PodTemplateSpec{
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		what, namespace string
		client          kubernetes.Interface
		want            int64
	}{
		{"a namespace of the system", "default", p.admin, 2},
		{"the whole cluster", "", p.admin, 5},
		{"a namespace of a tenant", "default", s.client, 2},
		{"a tenant", "", s.client, 2},
	} {
		list, err := c.client.CoreV1().PodTemplates(c.namespace).List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil || list.RemainingItemCount == nil || *list.RemainingItemCount != c.want {
			t.Errorf("%s: %+v, %v", c.what, list.ListMeta, err)
		}
	}
}

// testParameters: the parameter of a policy can be a cluster-scoped object of
// the space, by its native name.
func testParameters(t *testing.T, spaces ...*space) {
	for _, s := range spaces {
		v := netVolume("parameter")
		v.Labels = map[string]string{"word": "word-" + s.name}
		if _, err := s.client.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		post(t, s.config, registration+"validatingadmissionpolicies",
			`{"metadata":{"name":"parameter"},"spec":{`+configMapConstraints+`,
			"paramKind":{"apiVersion":"v1","kind":"PersistentVolume"},
			"validations":[{"expression":"!has(object.data) || !object.data.exists(k, object.data[k] == params.metadata.labels.word)",
				"messageExpression":"'no ' + params.metadata.labels.word + ' by ' + params.metadata.name"}]}}`)
		post(t, s.config, registration+"validatingadmissionpolicybindings",
			`{"metadata":{"name":"parameter"},"spec":{"policyName":"parameter",
			"validationActions":["Deny"],"paramRef":{"name":"parameter","parameterNotFoundAction":"Deny"}}}`)
	}
	for _, s := range spaces {
		s.refusesWord(t, "word-"+s.name, "no word-"+s.name+" by parameter")
		if _, err := s.say(t.Context(), "another"); err != nil {
			t.Errorf("tenant %s: %v", s.name, err)
		}
		code, body := get(t, s.config, registration+"validatingadmissionpolicybindings/parameter")
		if code != http.StatusOK || !strings.Contains(body, `"paramRef":{"name":"parameter"`) {
			t.Errorf("the binding: %d %s", code, body)
		}
	}
}
