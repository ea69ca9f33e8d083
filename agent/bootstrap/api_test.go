package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/internal/bootstrapapi"
)

// plainChecker does without Kubernetes' validation.
type plainChecker struct{}

func (plainChecker) Decode(body []byte, isYAML bool) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(body, pod); err != nil || isYAML {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("YAML %t, %v", isYAML, err))
	}
	return pod, nil
}

func (plainChecker) Complete(pod *corev1.Pod, now time.Time) (*corev1.Pod, error) {
	pod = pod.DeepCopy()
	pod.Namespace, pod.Name, pod.UID = "default", bootstrapapi.PodName(pod.Name, "node1"), uuid.NewUUID()
	pod.CreationTimestamp = metav1.NewTime(now)
	return pod, nil
}

// served is an API behind its socket.
type served struct {
	*API
	store  *store.Store
	dir    string
	socket string
	client *bootstrapapi.Client
	http   *http.Client
	server map[types.NamespacedName]*corev1.Pod // what Lookup finds
	gone   bool                                 // there is no server
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{dir: filepath.Join(t.TempDir(), "pods"), server: map[types.NamespacedName]*corev1.Pod{}}
	var err error
	if s.store, _, err = store.Open(s.dir); err != nil {
		t.Fatal(err)
	}
	s.API = New(Options{
		Store: s.store, Checker: plainChecker{},
		Live: func(key types.NamespacedName) *corev1.Pod { return s.server[key] },
		Lookup: func(_ context.Context, key types.NamespacedName) (*corev1.Pod, error) {
			if s.gone {
				return nil, origin.ErrNotConnected
			}
			if pod := s.server[key]; pod != nil {
				return pod, nil
			}
			return nil, apierrors.NewNotFound(podResource, key.Name)
		},
	})
	s.socket = filepath.Join(t.TempDir(), bootstrapapi.SocketName)
	s.client = bootstrapapi.NewClient(s.socket)
	s.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
		},
		MaxConnsPerHost: 100,
	}}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Component(s.socket).Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the API ended: %v", err)
		}
	})
	return s
}

func (s *served) create(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := s.client.Create(t.Context(), body(name), "application/json")
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func body(name string) []byte {
	return []byte(`{"metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`)
}

// ask sends any request and returns the refusal.
func (s *served) ask(t *testing.T, method, path, contentType string, body io.Reader) (*http.Response, metav1.Status) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://a4s"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatalf("%s %s: the answer is no JSON: %v", method, path, err)
	}
	return resp, status
}

// isEmpty fails the test if something was created after all.
func (s *served) isEmpty(t *testing.T) {
	t.Helper()
	files, err := os.ReadDir(s.dir)
	if err != nil || len(files) > 0 || len(s.store.List()) > 0 {
		t.Errorf("half created: %v, %v, %v", files, s.store.List(), err)
	}
}

func TestSeedCreation(t *testing.T) {
	s := serve(t)
	pod := s.create(t, "web")
	if pod.Name != "web-node1" || pod.UID == "" || bootstrapapi.IsPersisted(pod) {
		t.Errorf("created %+v", pod.ObjectMeta)
	}
	got, err := s.client.Get(t.Context(), pod.UID)
	if err != nil || got.Name != pod.Name {
		t.Errorf("got %v, %v", got, err)
	}
	list, err := s.client.List(t.Context())
	if err != nil || len(list.Items) != 1 || list.Kind != "PodList" {
		t.Errorf("list %+v, %v", list, err)
	}
}

func TestSeedDeletion(t *testing.T) {
	s := serve(t)
	pod := s.create(t, "web")
	for range 2 { // asking again changes nothing
		got, err := s.client.Delete(t.Context(), pod.UID)
		if err != nil || got.DeletionTimestamp == nil {
			t.Fatalf("deleted %+v, %v", got, err)
		}
	}
	if e, ok := s.store.Get(pod.UID); !ok || e.Pod.DeletionTimestamp == nil {
		t.Error("the kubelet is not asked to end it")
	}
	if _, err := s.client.Delete(t.Context(), "nobody"); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want not found", err)
	}
}

func TestPersistedPodBelongsToTheServer(t *testing.T) {
	s := serve(t)
	pod := s.create(t, "web")
	key := store.Key(pod)
	if _, err := s.store.MarkPersisted(pod.UID, pod.UID, "5"); err != nil {
		t.Fatal(err)
	}
	s.server[key] = pod.DeepCopy()
	s.server[key].Status.Phase = corev1.PodRunning
	got, err := s.client.Get(t.Context(), pod.UID)
	if err != nil || !bootstrapapi.IsPersisted(got) || got.Status.Phase != corev1.PodRunning {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := s.client.Delete(t.Context(), pod.UID); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), "kubectl delete pod --namespace default web-node1") {
		t.Errorf("error %v, want a conflict that says what to do", err)
	}
	s.gone = true
	if _, err := s.client.Delete(t.Context(), pod.UID); !apierrors.IsConflict(err) {
		t.Errorf("without a server: %v, want a conflict", err)
	}
	s.gone = false
	delete(s.server, key)
	if _, err := s.client.Delete(t.Context(), pod.UID); err != nil {
		t.Errorf("gone from the server: %v", err)
	}
	s.isEmpty(t)
}

func TestDeletionAfterAnOfferWithoutAnswerAsksTheServer(t *testing.T) {
	s := serve(t)
	pod := s.create(t, "web")
	if _, err := s.store.BeginOffer(pod.UID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Delete(t.Context(), pod.UID); !apierrors.IsConflict(err) {
		t.Errorf("during an offer: %v, want a conflict", err)
	}
	if _, err := s.store.EndOffer(pod.UID, "timeout", true); err != nil {
		t.Fatal(err)
	}
	s.gone = true
	if _, err := s.client.Delete(t.Context(), pod.UID); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error %v, want 503", err)
	}
	s.gone = false
	s.server[store.Key(pod)] = pod
	if _, err := s.client.Delete(t.Context(), pod.UID); !apierrors.IsConflict(err) {
		t.Errorf("the server has it: %v, want a conflict", err)
	}
	if e, _ := s.store.Get(pod.UID); e.State != store.Persisted || e.Pod.DeletionTimestamp != nil {
		t.Errorf("entry %+v", e)
	}
}

func TestSecurityOtherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to be somebody else")
	}
	s := serve(t)
	if info, err := os.Stat(s.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// Somebody opened it for everybody; who asks counts all the same.
	if err := os.Chmod(s.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(s.socket); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(filepath.Dir(s.socket), "other")
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, data, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied, "-test.run=^TestAsOtherUser$")
	cmd.Env, cmd.Dir = append(os.Environ(), "A4S_TEST_SOCKET="+s.socket), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	s.isEmpty(t)
}

// TestAsOtherUser is what TestSecurityOtherUserIsRefused runs as nobody.
func TestAsOtherUser(t *testing.T) {
	socket := os.Getenv("A4S_TEST_SOCKET")
	if socket == "" {
		t.Skip("part of another test")
	}
	client := bootstrapapi.NewClient(socket)
	if _, err := client.Create(t.Context(), body("web"), "application/json"); !apierrors.IsForbidden(err) {
		t.Errorf("create: %v, want 403", err)
	}
	if _, err := client.List(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("list: %v, want 403", err)
	}
}

func TestSecurityUnknownPeerIsRefused(t *testing.T) {
	s := serve(t)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, bootstrapapi.PathPods, nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("code %d, want 403", w.Code)
	}
}

func TestSecurityWrongRequests(t *testing.T) {
	s := serve(t)
	for name, tc := range map[string]struct {
		method, path, contentType string
		body                      io.Reader
		code                      int
		allow                     string
	}{
		"wrong method": {"PUT", "/pods", "application/json", bytes.NewReader(body("a")), 405, "GET, POST"},
		"wrong method of a pod": {"PATCH", "/pods/x", "application/json", bytes.NewReader(body("a")),
			405, "DELETE, GET"},
		"delete everything": {"DELETE", "/pods", "", nil, 405, "GET, POST"},
		"wrong path":        {"GET", "/api/v1/pods", "", nil, 404, ""},
		"no pod":            {"GET", "/pods/", "", nil, 404, ""},
		"path in a pod":     {"GET", "/pods/x/log", "", nil, 404, ""},
		"unknown pod":       {"GET", "/pods/x", "", nil, 404, ""},
		"traversal":         {"DELETE", "/pods/..%2f..%2fetc", "", nil, 404, ""},
		"oversized body": {"POST", "/pods", "application/json",
			bytes.NewReader(make([]byte, bootstrapapi.MaxBody+1)), 413, ""},
		"oversized stream":       {"POST", "/pods", "application/json", io.LimitReader(endless{}, 64<<20), 413, ""},
		"malformed pod":          {"POST", "/pods", "application/json", strings.NewReader(`{"metadata":`), 400, ""},
		"empty body":             {"POST", "/pods", "application/json", strings.NewReader(""), 400, ""},
		"another content type":   {"POST", "/pods", "text/html", bytes.NewReader(body("a")), 415, ""},
		"a content type of junk": {"POST", "/pods", ";;", bytes.NewReader(body("a")), 415, ""},
	} {
		t.Run(name, func(t *testing.T) {
			resp, status := s.ask(t, tc.method, tc.path, tc.contentType, tc.body)
			if resp.StatusCode != tc.code || int(status.Code) != tc.code || status.Message == "" ||
				status.Kind != "Status" || status.Status != metav1.StatusFailure {
				t.Errorf("%s with %+v, want %d and a reason", resp.Status, status, tc.code)
			}
			if got := resp.Header.Get("Allow"); got != tc.allow {
				t.Errorf("Allow is %q, want %q", got, tc.allow)
			}
		})
	}
	s.isEmpty(t)
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestSecurityDuplicateName(t *testing.T) {
	s := serve(t)
	pod := s.create(t, "web")
	if _, err := s.client.Create(t.Context(), body("web"), "application/json"); !apierrors.IsAlreadyExists(err) {
		t.Errorf("error %v, want already exists", err)
	}
	key := store.Key(pod)
	key.Name = "api-node1"
	s.server[key] = pod
	if _, err := s.client.Create(t.Context(), body("api"), "application/json"); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a name of the server's pods on this node: %v, want already exists", err)
	}
	if n := len(s.store.List()); n != 1 {
		t.Errorf("%d pods", n)
	}
}

func TestSecurityThousandConcurrentCreates(t *testing.T) {
	s := serve(t)
	var wg sync.WaitGroup
	errs := make(chan error, 2000)
	for i := range 1000 {
		wg.Go(func() {
			// every name twice
			resp, err := s.http.Post("http://a4s/pods", "application/json",
				bytes.NewReader(body(fmt.Sprintf("p%d", i/2))))
			if err != nil {
				errs <- err
				return
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				errs <- err
			}
			if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusConflict {
				errs <- errors.New(resp.Status)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil || len(files) != 500 || len(s.store.List()) != 500 {
		t.Errorf("%d files, %d pods, %v; want 500 of each", len(files), len(s.store.List()), err)
	}
	if all, err := os.ReadDir(s.dir); err != nil || len(all) != 500 {
		t.Errorf("%d files of any kind, %v", len(all), err)
	}
}

func TestSecurityFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	s := serve(t)
	if err := syscall.Mount("tmpfs", s.dir, "tmpfs", 0, "size=8k,mode=0700"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(s.dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	big := fmt.Appendf(nil, `{"metadata":{"name":"big","annotations":{"a":%q}},"spec":{"containers":[{"name":"c",`+
		`"image":"i:1"}]}}`, strings.Repeat("x", 32<<10))
	resp, status := s.ask(t, http.MethodPost, bootstrapapi.PathPods, "application/json", bytes.NewReader(big))
	if resp.StatusCode != http.StatusInsufficientStorage || !strings.Contains(status.Message, "no space left") {
		t.Errorf("%s: %+v", resp.Status, status)
	}
	s.isEmpty(t)
	s.create(t, "small") // the API goes on
}
