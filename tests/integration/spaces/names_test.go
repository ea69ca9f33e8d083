package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

const (
	// marker is in every name that a tenant chooses here.
	marker = "zqx"
	// quietAfter is after how long everything that belongs to a name has ended: informers
	// of kinds that are gone end after some minutes.
	quietAfter = 6 * time.Minute
	// quietFor is how long the log is read when everything has ended.
	quietFor = 40 * time.Second
)

// naming is a control plane with a tenant who chooses many names.
type naming struct {
	*plane
	s     *space
	hooks *hooks
}

// TestNamesThatComeAndGo makes and removes many of what a tenant gives names to. Nothing
// of it stays: no goroutine, no series of a metric, no line of the log, and no memory.
// By default it makes a few of each and does not wait for what ends after minutes.
func TestNamesThatComeAndGo(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	many, wait := 12, false
	if text := os.Getenv("A4S_TEST_NAMES"); text != "" {
		var err error
		if many, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		wait = true
	}
	p := start(t, nil)
	n := &naming{p, p.bareTenant(t, "a"), newHooks(t)}
	n.keep(t, p.as(t, "system", p.Admin))
	n.keep(t, n.s)
	n.round(t, "warm", 4, n.soon())
	before := holds(t, p)
	n.round(t, "many", many, n.soon())
	n.settles(t, before, many*len(n.soon()), 3*time.Minute)
	n.round(t, "warm", 4, n.late())
	if wait {
		time.Sleep(quietAfter) // what the first ones have begun ends
	}
	before = holds(t, p)
	n.round(t, "many", many, n.late())
	t.Run("series", n.series)
	if wait {
		n.settles(t, before, many*len(n.late()), quietAfter)
		n.quiet(t)
	}
}

// givenName makes, uses and removes something to which a tenant gives a name.
type givenName struct {
	kind string
	once func(t *testing.T, name string) error
}

// soon are those of which nothing is left after a moment.
func (n *naming) soon() []givenName {
	return []givenName{
		{"user", n.user}, {"account", n.account}, {"path", n.path}, {"manager", n.manager}, {"webhook", n.webhook},
		{"policy", n.policy}, {"namespace", n.namespace}, {"quota", n.quota}, {"pod", n.pod}, {"event", n.event},
		{"tenant", n.tenantOf},
	}
}

// late are those of which something ends after minutes.
func (n *naming) late() []givenName { return []givenName{{"crd", n.crd}} }

func (n *naming) round(t *testing.T, which string, many int, of []givenName) {
	t.Helper()
	for _, one := range of {
		before := holds(t, n.plane)
		n.rounds(t, one.kind+"-"+which, many, one.once)
		after := holds(t, n.plane)
		t.Logf("%d of %s: goroutines %+d, series %+d, heap %+d KiB", many, one.kind,
			after.goroutines-before.goroutines, after.series-before.series, (after.heap-before.heap)>>10)
	}
}

// rounds does something with as many names, some at a time.
func (n *naming) rounds(t *testing.T, kind string, many int, once func(*testing.T, string) error) {
	t.Helper()
	var work errgroup.Group
	work.SetLimit(6)
	for i := range many {
		work.Go(func() error {
			name := fmt.Sprintf("%s-%s-%d", marker, kind, i)
			if err := once(t, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
}

// held is what the process holds.
type held struct {
	goroutines, series int
	heap               int64
}

func holds(t *testing.T, p *plane) held {
	t.Helper()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return held{runtime.NumGoroutine(), len(seriesOf(t, p)), int64(m.HeapAlloc)}
}

func seriesOf(t *testing.T, p *plane) []string {
	t.Helper()
	code, body := get(t, p.Admin, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("metrics: %d", code)
	}
	var out []string
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// settles waits until there are about as many goroutines as before, and says what stayed.
func (n *naming) settles(t *testing.T, before held, many int, patience time.Duration) {
	t.Helper()
	slack := 20 + many/10 // what else begins and ends meanwhile
	var now held
	for late := time.Now().Add(patience); ; time.Sleep(time.Second) {
		if now = holds(t, n.plane); now.goroutines <= before.goroutines+slack || time.Now().After(late) {
			break
		}
	}
	grown := now.heap - before.heap
	t.Logf("%d names: goroutines %+d, heap %+d KiB, %d B each", many, now.goroutines-before.goroutines, grown>>10,
		grown/int64(many))
	if now.goroutines > before.goroutines+slack {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Errorf("%d goroutines are left of %d names:\n%.20000s", now.goroutines-before.goroutines, many,
			stacks.String())
	}
	// Caches of recent changes have a bounded size, whatever it is.
	if most := int64(32<<20 + many*(16<<10)); grown > most {
		t.Errorf("the heap grew by %d KiB with %d names, more than %d", grown>>10, many, most>>10)
	}
	profile(t, fmt.Sprint("names-", many))
}

// profile writes down what the heap has, if somebody wants to see it.
func profile(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("A4S_TEST_PROFILES")
	if dir == "" {
		return
	}
	f, err := os.Create(filepath.Join(dir, name+".heap"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is for whoever asked
	_ = pprof.Lookup("heap").WriteTo(f, 0)
}

var markers = regexp.MustCompile(marker + `-[a-z]+-`)

// series: no metric names what is gone, and what is there is not forgotten.
func (n *naming) series(t *testing.T) {
	found := map[string]int{}
	for late := time.Now().Add(deadline); ; time.Sleep(time.Second) {
		clear(found)
		for _, line := range seriesOf(t, n.plane) {
			if of := markers.FindString(line); of != "" {
				name, _, _ := strings.Cut(line, "{")
				found[name+" of "+of]++
			}
		}
		if len(found) == 0 || time.Now().After(late) {
			break
		}
	}
	for what, many := range found {
		t.Errorf("%d series %s", many, what)
	}
	left := strings.Join(seriesOf(t, n.plane), "\n")
	for _, name := range []string{`name="kept-system.example.com"`, `name="kept-a.example.com"`,
		`policy="kept-system"`, `policy="kept-a"`, `group="kept-system.example.com"`, `group="kept-a.example.com"`} {
		if !strings.Contains(left, name) {
			t.Errorf("no series has %s any more", name)
		}
	}
}

// keep makes what stays in a space, and uses it.
func (n *naming) keep(t *testing.T, s *space) {
	t.Helper()
	name := "kept-" + s.name
	gvr := s.define(t, definition(name+".example.com"))
	s.makes(t, gvr, "default", foo(gvr, name, nil))
	post(t, s.config, registration+"validatingadmissionpolicies", `{"metadata":{"name":"`+name+`"},"spec":{`+
		configMapConstraints+`,"validations":[{"expression":"!has(object.data) || !('`+name+`' in object.data)"}]}}`)
	post(t, s.config, registration+"validatingadmissionpolicybindings", `{"metadata":{"name":"`+name+
		`"},"spec":{"policyName":"`+name+`","validationActions":["Deny"]}}`)
	v := validating(name, n.hooks.byURL("/"+name), "configmaps")
	v.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"for": name}}
	s.validate(t, name, v)
	called, refused := configMap(name), configMap(name)
	called.Labels, refused.Data = v.ObjectSelector.MatchLabels, map[string]string{name: ""}
	eventually(t, "the policy and the webhook of "+s.name, func(ctx context.Context) (bool, error) {
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, _ = s.client.CoreV1().ConfigMaps("default").Create(ctx, called, dry)
		_, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, refused, dry)
		return err != nil && len(n.hooks.calls("/"+name, "")) > 0, nil
	})
}

// logged counts lines about the names of the test.
type logged struct {
	lines atomic.Int64
	last  atomic.Pointer[string]
}

// Levels implements logrus.Hook.
func (l *logged) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook.
func (l *logged) Fire(e *logrus.Entry) error {
	line, err := e.String()
	if err == nil && strings.Contains(line, marker) {
		l.lines.Add(1)
		l.last.Store(&line)
	}
	return nil
}

// quiet: the log does not go on about what is gone.
func (n *naming) quiet(t *testing.T) {
	l := &logged{}
	before := logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
	with := logrus.LevelHooks{}
	for level, hooks := range before {
		with[level] = slices.Clone(hooks)
	}
	with.Add(l)
	logrus.StandardLogger().ReplaceHooks(with)
	defer logrus.StandardLogger().ReplaceHooks(before)
	time.Sleep(quietFor) // that nothing happens is what is tested
	if many := l.lines.Load(); many > 0 {
		t.Errorf("%d lines, the last one:\n%s", many, *l.last.Load())
	}
}

// as is the administrator of the tenant in the place of somebody.
func (n *naming) as(t *testing.T, who rest.ImpersonationConfig) kubernetes.Interface {
	t.Helper()
	cfg := rest.CopyConfig(n.s.config)
	cfg.Impersonate = who
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// user is one that exists by being named alone.
func (n *naming) user(t *testing.T, name string) error {
	as := n.as(t, rest.ImpersonationConfig{UserName: name, Groups: []string{name + "-group"}})
	_, err := as.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("it is answered %w", err)
	}
	return nil
}

// account is a service account that uses its token.
func (n *naming) account(t *testing.T, name string) error {
	accounts := n.s.client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		return err
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	cfg := rest.AnonymousClientConfig(n.s.config)
	code, body := do(t, cfg, http.MethodGet, "/api/v1/namespaces/default/configmaps", "",
		[]string{"Authorization: Bearer " + token.Status.Token})
	if code != http.StatusForbidden {
		return fmt.Errorf("it is answered %d %s", code, body)
	}
	return accounts.Delete(t.Context(), name, metav1.DeleteOptions{})
}

// path is of what there is not.
func (n *naming) path(t *testing.T, name string) error {
	for _, path := range []string{"/apis/" + name + ".example.com/v1/foos", "/apis/" + name, "/apis/apps/" + name,
		"/apis/apps/v1/" + name, "/api/v1/namespaces/" + name + "/configmaps/" + name,
		"/api/v1/namespaces/default/configmaps/x/" + name, "/" + name, "/openapi/v3/apis/" + name + "/v1",
		"/tenants/" + name + "/api/v1/pods"} {
		for _, method := range []string{http.MethodGet, http.MethodDelete, strings.ToUpper(name)} {
			if code, body := do(t, n.s.config, method, path, "", nil); code < 400 && body != "" &&
				!strings.Contains(body, `"items":[]`) {
				return fmt.Errorf("%s %s: %d %s", method, path, code, body)
			}
		}
	}
	return nil
}

// manager is who is said to have written an object, with which client.
func (n *naming) manager(t *testing.T, name string) error {
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`
	path := "/api/v1/namespaces/default/configmaps/" + name
	if code, answer := do(t, n.s.config, http.MethodPatch, path+"?fieldManager="+name, body, []string{
		"Content-Type: application/apply-patch+yaml", "User-Agent: " + name}); code != http.StatusCreated {
		return fmt.Errorf("%d %s", code, answer)
	}
	return n.s.client.CoreV1().ConfigMaps("default").Delete(t.Context(), name, metav1.DeleteOptions{})
}

// webhook is one of each kind, that is called.
func (n *naming) webhook(t *testing.T, name string) error {
	registrations, fail := n.s.client.AdmissionregistrationV1(), admissionregistrationv1.Fail
	only := &metav1.LabelSelector{MatchLabels: map[string]string{"for": name}}
	v, m := validating(name+"-v", n.hooks.byURL("/"+name+"-v"), "configmaps"),
		mutating(name+"-m", n.hooks.byURL("/"+name+"-m"), "configmaps")
	v.FailurePolicy, m.FailurePolicy, v.ObjectSelector, m.ObjectSelector = &fail, &fail, only, only
	if _, err := registrations.ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{v}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := registrations.MutatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.MutatingWebhook{m}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	cm := configMap(name)
	cm.Labels = only.MatchLabels
	eventually(t, "the webhooks "+name, func(ctx context.Context) (bool, error) {
		_, err := n.s.client.CoreV1().ConfigMaps("default").Create(ctx, cm,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && len(n.hooks.calls("/"+name+"-v", "")) > 0 &&
			len(n.hooks.calls("/"+name+"-m", "")) > 0, nil
	})
	if err := registrations.ValidatingWebhookConfigurations().Delete(t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		return err
	}
	return registrations.MutatingWebhookConfigurations().Delete(t.Context(), name, metav1.DeleteOptions{})
}

// policy is one that refuses.
func (n *naming) policy(t *testing.T, name string) error {
	post(t, n.s.config, registration+"validatingadmissionpolicies", `{"metadata":{"name":"`+name+`"},"spec":{`+
		configMapConstraints+`,"validations":[{"expression":"!has(object.data) || !('`+name+`' in object.data)"}]}}`)
	post(t, n.s.config, registration+"validatingadmissionpolicybindings", `{"metadata":{"name":"`+name+
		`"},"spec":{"policyName":"`+name+`","validationActions":["Deny"]}}`)
	cm := configMap(name)
	cm.Data = map[string]string{name: ""}
	eventually(t, "the policy "+name, func(ctx context.Context) (bool, error) {
		_, err := n.s.client.CoreV1().ConfigMaps("default").Create(ctx, cm,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil, nil
	})
	remove(t, n.s.config, registration+"validatingadmissionpolicybindings/"+name)
	remove(t, n.s.config, registration+"validatingadmissionpolicies/"+name)
	return nil
}

func (n *naming) namespace(t *testing.T, name string) error {
	namespaces := n.s.client.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		return err
	}
	planes.AwaitAccount(t, n.s.config, name)
	if _, err := n.s.client.CoreV1().ConfigMaps(name).Create(t.Context(), configMap(name),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	eventually(t, "the end of namespace "+name, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	return nil
}

// quota is of a kind that there is not.
func (n *naming) quota(t *testing.T, name string) error {
	quotas := n.s.client.CoreV1().ResourceQuotas("default")
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourceName("count/foos." + name + ".example.com"): quantity("5")}
	if _, err := quotas.Create(t.Context(), q, metav1.CreateOptions{}); err != nil {
		return err
	}
	return quotas.Delete(t.Context(), name, metav1.DeleteOptions{})
}

// pod is one of a scheduler, with a claim of a class, that there are not.
func (n *naming) pod(t *testing.T, name string) error {
	pods, claims := n.s.client.CoreV1().Pods("default"), n.s.client.CoreV1().PersistentVolumeClaims("default")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.StorageClassName = &name
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: quantity("1Mi")}
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		return err
	}
	pod := simplePod(name)
	pod.Spec.SchedulerName = name
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	second := simplePod(name + "-2")
	if _, err := pods.Create(t.Context(), second, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, of := range []string{name, second.Name} {
		if err := pods.Delete(t.Context(), of, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			return err
		}
	}
	return claims.Delete(t.Context(), name, metav1.DeleteOptions{})
}

func (n *naming) event(t *testing.T, name string) error {
	events := n.s.client.CoreV1().Events("default")
	if _, err := events.Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, Reason: name,
		InvolvedObject: corev1.ObjectReference{Kind: name, Namespace: "default", Name: name},
		Source:         corev1.EventSource{Component: name, Host: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	return events.Delete(t.Context(), name, metav1.DeleteOptions{})
}

// tenantOf is a tenant that is used.
func (n *naming) tenantOf(t *testing.T, name string) error {
	s := n.bareTenant(t, name)
	defer closeIdle(t, s.config)
	if _, err := s.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	tenants, err := tenantapi.NewClient(n.Admin, nil)
	if err != nil {
		return err
	}
	if err := tenants.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	eventually(t, "the end of tenant "+name, func(ctx context.Context) (bool, error) {
		_, err := tenants.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	return nil
}

// closeIdle closes what the clients of an access keep open.
func closeIdle(t *testing.T, cfg *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
}

// crd is one with a group of its own and an object.
func (n *naming) crd(t *testing.T, name string) error {
	gvr := n.s.define(t, definition(name+".example.com"))
	n.s.makes(t, gvr, "default", foo(gvr, name, nil))
	if code, body := get(t, n.s.config, "/openapi/v3/apis/"+gvr.Group+"/v1"); code >= http.StatusInternalServerError {
		return fmt.Errorf("its schema: %d %s", code, body)
	}
	if err := n.s.definitions(t).Delete(t.Context(), "foos."+gvr.Group, metav1.DeleteOptions{}); err != nil {
		return err
	}
	eventually(t, "the end of "+gvr.Group, func(ctx context.Context) (bool, error) {
		_, err := n.s.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err), nil
	})
	return nil
}
