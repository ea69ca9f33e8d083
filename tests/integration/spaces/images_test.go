package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/nstest"
)

// foreignImage is one that is in no list.
const foreignImage = "evil.example.com/app:1"

// withImage is a pod that runs it.
func withImage(image string) string {
	return strings.Replace(podBody("", ""), `"image":"i"`, fmt.Sprintf(`"image":%q`, image), 1)
}

// TestImagesOfATenant: with spec.images, pods run and mount images of these registries only,
// whoever makes the pod and whichever way the image comes into it.
func TestImagesOfATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	s := p.bareTenant(t, "t1")
	lists := func(list string) error { return p.specify(t, "t1", `{"images":`+list+`}`) }
	for _, wrong := range []string{`["nginx"]`, `["registry.example.com/app:1"]`} {
		if err := lists(wrong); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.images[0]") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	code, answer, early := s.makesPod(t, "", withImage(foreignImage))
	if code != http.StatusCreated {
		t.Fatalf("without a list: %d %.300s", code, answer)
	}
	if err := lists(`["registry.example.com/team","docker.io/library"]`); err != nil {
		t.Fatal(err)
	}
	const says = "this space has images of registry.example.com/team, docker.io/library"
	eventually(t, "the list to hold", func(context.Context) (bool, error) {
		_, answer, _ := s.makesPod(t, asDryRun, withImage(foreignImage))
		return strings.Contains(answer, says), nil
	})
	p.allow(t, "t1", allowances.PodSecurity, "privileged")
	eventually(t, "the other rules to be lifted", func(context.Context) (bool, error) {
		code, _, _ := s.makesPod(t, asDryRun, podBody("", `"hostPID":true,`))
		return code == http.StatusCreated, nil
	})
	for what, body := range map[string]string{
		"a container":  withImage(foreignImage),
		"another path": withImage("registry.example.com/team-evil/app"),
		"one before":   podBody("", `"initContainers":[{"name":"i","image":"`+foreignImage+`"}],`),
		"a volume": podBody("", `"volumes":[{"name":"v","image":{"reference":"`+foreignImage+
			`"}}],`),
		"a digest": withImage("sha256:" + strings.Repeat("0", 64)),
	} {
		for who, at := range map[string]func() (int, string){
			"the tenant": func() (int, string) { return do(t, s.config, http.MethodPost, inPods, body, nil) },
			"an administrator": func() (int, string) {
				return do(t, p.Admin, http.MethodPost, "/tenants/t1"+inPods, body, nil)
			},
		} {
			if code, answer := at(); code != http.StatusForbidden || !strings.Contains(answer, "spec.") {
				t.Errorf("%s by %s: %d %.300s", what, who, code, answer)
			}
		}
	}
	code, answer, pod := s.makesPod(t, "",
		withImage("registry.example.com/team/app@sha256:"+strings.Repeat("0", 64)))
	if code != http.StatusCreated {
		t.Fatalf("one in the list: %d %.300s", code, answer)
	}
	// Later, and what was there.
	const merge = "Content-Type: application/strategic-merge-patch+json"
	patch := func(name, sub, body string) (int, string) {
		return do(t, s.config, http.MethodPatch, inPods+"/"+name+sub, body, []string{merge})
	}
	debug := `{"spec":{"ephemeralContainers":[{"name":"d","image":"` + foreignImage + `"}]}}`
	change := `{"spec":{"containers":[{"name":"c","image":"` + foreignImage + `"}]}}`
	for _, sub := range []string{"/ephemeralcontainers", ""} {
		body := debug
		if sub == "" {
			body = change
		}
		code, answer := patch(pod.Name, sub, body)
		if code != http.StatusForbidden || !strings.Contains(answer, says) {
			t.Errorf("%s of a pod: %d %.300s", body, code, answer)
		}
	}
	if code, answer := patch(early.Name, "", `{"spec":{"activeDeadlineSeconds":9}}`); code != http.StatusOK {
		t.Errorf("something else of a pod that was there: %d %.300s", code, answer)
	}
	s.templatesOfImages(t, says)
	s.mutates(t, "pods", "has(object.metadata.labels)",
		`Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', image: '`+foreignImage+`'}]}}`)
	eventually(t, "what a policy makes of a pod to be judged", func(context.Context) (bool, error) {
		_, answer, made := s.makesPod(t, asDryRun, podBody(`"labels":{"marked":""},`, ""))
		if len(made.Spec.Containers) > 0 && made.Spec.Containers[0].Image == foreignImage {
			t.Fatal("a policy has put the image in")
		}
		return strings.Contains(answer, says), nil
	})
}

// templatesOfImages: nothing comes of a template, and its object says why.
func (s *space) templatesOfImages(t *testing.T, says string) {
	t.Helper()
	of := deployment("foreign")
	of.Spec.Template.Spec.Containers[0].Image = foreignImage
	if _, err := s.client.AppsV1().Deployments("default").Create(t.Context(), of, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment to say why it has no pods", func(ctx context.Context) (bool, error) {
		got, err := s.client.AppsV1().Deployments("default").Get(ctx, of.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range got.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && strings.Contains(c.Message, says) {
				return true, nil
			}
		}
		return false, nil
	})
}
