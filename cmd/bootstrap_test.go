package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/problem"
)

// fakeBootstrap is the API of bootstrap pods with two pods of one name.
type fakeBootstrap struct {
	socket  string
	created []string // content types and bodies
	deleted []string
}

func (f *fakeBootstrap) pods() []corev1.Pod {
	pod := func(namespace, uid, persisted string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-node1", UID: types.UID(uid),
				Annotations: map[string]string{
					bootstrapapi.PersistedAnnotation: persisted,
					bootstrapapi.MessageAnnotation:   map[string]string{"false": "connection refused"}[persisted],
				}},
			Spec: corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "c"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning,
				ContainerStatuses: []corev1.ContainerStatus{{Ready: true, RestartCount: 2}}},
		}
	}
	return []corev1.Pod{pod("default", "u1", "false"), pod("kube-system", "u2", "true")}
}

func (f *fakeBootstrap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var out any
	code := http.StatusOK
	switch r.Method {
	case http.MethodGet:
		out = &corev1.PodList{Items: f.pods()}
	case http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		f.created = append(f.created, r.Header.Get("Content-Type")+" "+strings.TrimSpace(string(body)))
		out, code = f.pods()[0], http.StatusCreated
		if strings.Contains(string(body), "bad") {
			out, code = apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "bad", nil).
				Status(), http.StatusUnprocessableEntity
		}
	case http.MethodDelete:
		f.deleted = append(f.deleted, r.URL.Path)
		pod := f.pods()[0]
		pod.DeletionTimestamp = &metav1.Time{}
		now := metav1.Now()
		pod.DeletionTimestamp = &now
		out = pod
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(out)
}

func newFakeBootstrap(t *testing.T) *fakeBootstrap {
	t.Helper()
	f := &fakeBootstrap{socket: filepath.Join(t.TempDir(), "s")}
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return f
}

func (f *fakeBootstrap) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	app := NewApp(Modes{})
	var out bytes.Buffer
	app.Stdout = &out
	err := app.RunContext(t.Context(), append(append([]string{"a4s", "bootstrap"}, args...), "--socket", f.socket))
	return out.String(), err
}

func TestBootstrapApplySendsEachDocument(t *testing.T) {
	f := newFakeBootstrap(t)
	file := filepath.Join(t.TempDir(), "pods.yaml")
	if err := os.WriteFile(file,
		[]byte("# two\n---\nmetadata: {name: a}\n---\n# nothing\n---\nmetadata: {name: bad}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := f.run(t, "apply", "-f", file)
	if len(f.created) != 2 || f.created[0] != "application/yaml metadata: {name: a}" {
		t.Errorf("sent %q", f.created)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !strings.Contains(err.Error(), "document 2 of") ||
		!strings.Contains(out, "web-node1") {
		t.Errorf("error %v, output %q", err, out)
	}
	if err := os.WriteFile(file, []byte(" {\"metadata\": {}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.run(t, "apply", "-f", file, "-o", "json"); err != nil ||
		f.created[2] != `application/json {"metadata": {}}` {
		t.Errorf("sent %q, %v", f.created, err)
	}
}

func TestBootstrapListShowsWhoHasThePod(t *testing.T) {
	out, err := newFakeBootstrap(t).run(t, "list")
	want := "NAMESPACE     NAME        UID   STATE     READY   RESTARTS   PERSISTED                AGE\n"
	if err != nil || !strings.HasPrefix(out, want) ||
		!strings.Contains(out, "1/1     2          no: connection refused") || !strings.Contains(out, "yes") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestBootstrapDeleteFindsThePod(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"uid":                {[]string{"u2"}, "/pods/u2"},
		"name and namespace": {[]string{"web-node1", "-n", "kube-system"}, "/pods/u2"},
		"short name":         {[]string{"web", "--namespace", "default"}, "/pods/u1"},
		"ambiguous":          {[]string{"web"}, ""},
		"unknown":            {[]string{"api"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeBootstrap(t)
			out, err := f.run(t, append([]string{"delete"}, tc.args...)...)
			var in *problem.Input
			switch {
			case tc.want == "" && (!errors.As(err, &in) || len(f.deleted) > 0):
				t.Errorf("error %v, deleted %q", err, f.deleted)
			case tc.want != "" && (err != nil || len(f.deleted) != 1 || f.deleted[0] != tc.want ||
				!strings.Contains(out, "is being ended")):
				t.Errorf("error %v, deleted %q, output %q", err, f.deleted, out)
			}
		})
	}
}

func TestBootstrapWithoutAPISaysHowToTurnItOn(t *testing.T) {
	f := &fakeBootstrap{socket: filepath.Join(t.TempDir(), "none")}
	_, err := f.run(t, "list")
	var pre *problem.Precondition
	if !errors.As(err, &pre) || !strings.Contains(err.Error(), "--bootstrap-pod-api") {
		t.Errorf("error %v", err)
	}
	var in *problem.Input
	if _, err := f.run(t, "apply", "-f", "/nonexistent"); !errors.As(err, &in) || in.Source != "--filename" {
		t.Errorf("error %v", err)
	}
	if _, err := f.run(t, "list", "-o", "yaml"); !errors.As(err, &in) || in.Source != "--output" {
		t.Errorf("error %v", err)
	}
}
