package supportbundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// fakeAPI answers lists of what it has by path, in pages.
type fakeAPI struct {
	// kinds are those of the lists, and items what is in them.
	items map[string][]any
	// errs are the answers to paths that fail.
	errs  map[string]error
	asked []string
}

// Get implements api.
func (f *fakeAPI) Get(_ context.Context, path string, query url.Values) ([]byte, error) {
	f.asked = append(f.asked, path)
	if err := f.errs[path]; err != nil {
		return nil, err
	}
	switch {
	case path == "/readyz", path == "/livez":
		return []byte("[+]ping ok\n"), nil
	case strings.HasPrefix(path, "/api/v1/tenants/"):
		if items := f.items[path]; len(items) == 1 {
			return json.Marshal(items[0])
		}
		return nil, refusal("not found")
	}
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil {
		return nil, err
	}
	from := 0
	if next := query.Get("continue"); next != "" {
		if from, err = strconv.Atoi(next); err != nil {
			return nil, err
		}
	}
	resource := path[strings.LastIndexByte(path, '/')+1:]
	root := path[:strings.LastIndexByte(path, '/')]
	if at := strings.Index(root, "/api"); at > 0 {
		root = root[at:]
	}
	kind := map[string]string{"pods": "Pod", "configmaps": "ConfigMap", "events": "Event", "nodes": "Node",
		"tenants": "Tenant", "tenantusages": "TenantUsage"}[resource]
	if kind == "" {
		kind, root = "Pod", "/api/v1" // an empty list of something
	}
	all := f.items[path]
	page := all[from:min(len(all), from+limit)]
	meta := map[string]any{}
	if from+limit < len(all) {
		meta["continue"] = strconv.Itoa(from + limit)
	}
	if page == nil {
		page = []any{}
	}
	return json.Marshal(map[string]any{"kind": kind + "List", "metadata": meta, "items": page,
		"apiVersion": strings.TrimPrefix(strings.TrimPrefix(root, "/apis/"), "/api/")})
}

// made is a bundle that was made.
type made struct {
	files     map[string]string
	said      string
	size, all int64
}

// run makes a bundle and reads it.
func (b bundle) test(t *testing.T, run *cmd.SupportBundle) made {
	t.Helper()
	var said strings.Builder
	run.Out, run.Output = &said, filepath.Join(t.TempDir(), "b.tar.gz")
	if run.Timeout == 0 {
		run.Timeout = time.Minute
	}
	if err := b.run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(run.Output)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := made{files: map[string]string{}, said: said.String(), size: info.Size()}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		dir, name, _ := strings.Cut(h.Name, "/")
		if dir != "a4s-support-20260102-030405" || h.Mode != 0o600 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		out.files[name] = string(data)
		out.all += int64(len(data))
	}
	return out
}

// has reports whether a word is in the bundle, or in what was said, in some form.
func (m made) has(word string) (file string, is bool) {
	forms := []string{word, fmt.Sprintf("%x", word)}
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + word + "xxx"))
		forms = append(forms, encoded[4:len(encoded)-8])
	}
	for name, text := range m.files {
		for _, form := range forms {
			if strings.Contains(name+text, form) {
				return name, true
			}
		}
	}
	return "what it said", strings.Contains(m.said, word)
}

// place is a machine with a data directory, settings and logs, and a canary in all that is secret.
func place(t *testing.T) (bundle, *config.Local) {
	t.Helper()
	dir := t.TempDir()
	l := &config.Local{DataDir: filepath.Join(dir, "data"), ConfigFile: filepath.Join(dir, "config.yaml"),
		LogFile: filepath.Join(dir, "a4s.log"), PrivateRegistry: filepath.Join(dir, "registries.yaml"),
		Kubeconfig: filepath.Join(dir, "a4s.yaml")}
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0." + canary
	key := "-----BEGIN EC PRIVATE KEY-----\n" + canary + "\n-----END EC PRIVATE KEY-----\n"
	for file, text := range map[string]string{
		filepath.Join(l.DataDir, "server", "token"):       "K10abcdef::server:known" + canary + "\n",
		filepath.Join(l.DataDir, "server", "agent-token"): "agents" + canary + "\n",
		filepath.Join(l.DataDir, "server", "cred", "encryption.yaml"): "resources:\n- providers:\n  - secretbox:\n" +
			"      keys:\n      - {name: k, secret: keyof" + canary + "}\n",
		l.PrivateRegistry: "configs:\n  r.example.com:\n    auth: {username: kubernetes, password: pw" + canary +
			"}\n",
		l.Kubeconfig: "users:\n- name: a\n  user: {client-key-data: keydata" + canary + "}\n",
		l.ConfigFile: "token: set" + canary + "\nnode-ip: 192.0.2.7\ndebug: true\netcd-s3-secret-key: s3" + canary +
			"\ndatastore-endpoint: mysql://u:db" + canary + "@tcp(db)/a4s\nkube-apiserver-arg:\n- a-flag=" + canary +
			"\n- profiling=false\n" + canary + ": 1\nunknown: " + canary + "\nhttps-listen-port: 6443\n",
		filepath.Join(l.ConfigFile+".d", "more.yaml"): "server: https://u:" + canary +
			"@example.com:6443\n",
		filepath.Join(l.ConfigFile+".d", "broken.yaml"):                   "token: [" + canary + "\n",
		filepath.Join(l.DataDir, "agent", "containerd", "containerd.log"): "level=info msg=\"up\"\n" + key,
		l.LogFile: strings.Join([]string{
			`time="x" level=info msg="it runs"`,
			`--token=` + canary + ` --data-dir=/srv`,
			`Authorization: Bearer ` + canary,
			`{"password": "` + canary + `", "user": "bob"}`,
			`AWS_SECRET_ACCESS_KEY=` + canary,
			`pull https://bob:` + canary + `@r.example.com/v2/`,
			`token ` + jwt,
			`joined with K10` + strings.Repeat("a", 64) + `::server:` + canary,
			`tidb u:` + canary + `@tcp(db:4000)/a4s`,
			`msg="ExecSync cmd failed" cmd="[mysqladmin -uroot -p` + canary + ` ping]" err="too late"`,
			`cmd=[mysqladmin -p ` + canary + `] x`,
			`error="exec: \"mysql -p` + canary + `\": executable file not found in $PATH"`,
			"known" + canary + " agents" + canary + " keyof" + canary + " pw" + canary + " keydata" + canary +
				" bearer" + canary +
				" set" + canary + " s3" + canary + " db" + canary,
			key,
			`the last line`,
		}, "\n") + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return bundle{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), machine: machine{
		journal: func(_ context.Context, to io.Writer) error {
			_, err := io.WriteString(to, canary+"\n-----END RSA PRIVATE KEY-----\n"+
				"a4s[1]: secret='"+canary+"' it began\n")
			return err
		}}}, l
}

// hiding is a pod with a canary in every place for secrets.
func hiding(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: `{"env":"` + canary + `"}`},
		ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:` + canary + `":{}}`)}}}}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{canary}},
		HTTPGet: &corev1.HTTPGetAction{Path: "/?t=" + canary,
			HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Token", Value: canary}}}}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "nginx", Command: []string{canary},
		Args: []string{canary}, Env: []corev1.EnvVar{{Name: "T", Value: canary}}, WorkingDir: canary,
		LivenessProbe: probe,
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
			Command: []string{canary}}}}}}
	p.Spec.InitContainers = p.Spec.Containers
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"name": canary}}}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: canary}}}}
	return p
}

// used is the status of a tenant whose space was made.
func used() tenantapi.TenantStatus {
	return tenantapi.TenantStatus{Conditions: []metav1.Condition{{Type: tenantapi.SpaceReady,
		Status: metav1.ConditionTrue, Reason: tenantapi.ReasonMade}}}
}

// TestNoSecretComesThrough: a canary in every place where a secret could stand is nowhere in the bundle.
func TestNoSecretComesThrough(t *testing.T) {
	b, l := place(t)
	data := map[string]string{"name": canary, "k": canary}
	annotations := map[string]string{"name": canary}
	tenant := tenantapi.Tenant{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Tenant"},
		ObjectMeta: metav1.ObjectMeta{Name: "team-a", Annotations: annotations}, Status: used()}
	maps := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Annotations: annotations}, Data: data,
		BinaryData: map[string][]byte{"b": []byte(canary)}}
	secret := map[string]any{"metadata": map[string]any{"name": "s"}, "data": data}
	f := &fakeAPI{items: map[string][]any{
		"/tenants/system/api/v1/pods":       {hiding("dns")},
		"/tenants/team-a/api/v1/pods":       {hiding("web")},
		"/tenants/team-a/api/v1/configmaps": {maps},
		"/tenants/team-a/api/v1/secrets":    {secret},
		"/tenants/team-a/api/v1/events": {corev1.Event{Reason: "Unhealthy", Message: canary},
			corev1.Event{Reason: "Failed", Message: "pulling https://u:" + canary + "@r.example.com"},
			corev1.Event{Reason: "Failed", Message: `exec: "sh --token=` + canary + `": not found`},
			corev1.Event{Reason: "Failed", Message: `exec: "mysql -p` + canary + ` ping": not found`}},
		"/api/v1/tenants":        {tenant},
		"/api/v1/tenants/team-a": {tenant},
	}, errs: map[string]error{"/api/v1/partitions": refusal("not with the token Bearer " + canary)}}
	b.api = func(*rest.Config) (api, error) { return f, nil }
	m := b.test(t, &cmd.SupportBundle{Local: l, Tenant: "team-a", Config: &rest.Config{BearerToken: "bearer" + canary},
		Reports: []cmd.SupportReport{
			{Name: "status", Ask: func(context.Context) (any, error) {
				return map[string]string{"lastError": "https://u:" + canary + "@db refused", "url": "https://a4s"}, nil
			}},
			{Name: "doctor", Ask: func(context.Context) (any, error) {
				return nil, errors.New("known" + canary + " is wrong")
			}},
		}})
	if file, is := m.has(canary); is {
		t.Errorf("%s has a secret:\n%s", file, m.files[file])
	}
	if slices.ContainsFunc(f.asked, func(path string) bool { return strings.HasSuffix(path, "/secrets") }) {
		t.Error("secrets were asked for")
	}
	for file, want := range map[string][]string{
		"logs/a4s.log": {"it runs", "the last line", "--data-dir=/srv", "bob", "too late",
			"executable file not found"},
		"logs/journal.log":               {"it began"},
		"logs/containerd.log":            {"up"},
		"settings/config.yaml":           {"node-ip: 192.0.2.7", "debug: true", "profiling=<5 characters>", "6443"},
		"status.json":                    {"https://a4s"},
		"readyz.txt":                     {"ping ok"},
		"objects/system/pods.json":       {`"name":"dns"`},
		"objects/team-a/pods.json":       {`"name":"web"`, `"image":"nginx"`},
		"objects/team-a/configmaps.json": {`"k":"`},
		"objects/team-a/tenant.json":     {"team-a"},
		"objects/cluster/tenants.json":   {"team-a"},
		"CONTENTS.txt":                   {"registries.yaml", "settings/broken.yaml", "doctor.json", "--config-maps"},
	} {
		for _, text := range want {
			if !strings.Contains(m.files[file], text) {
				t.Errorf("%s lacks %q:\n%s", file, text, m.files[file])
			}
		}
	}
	if !strings.Contains(m.said, "b.tar.gz is written") || !strings.Contains(m.said, "doctor.json") {
		t.Errorf("it says\n%s", m.said)
	}
}

// TestBundleIsBounded: whatever a cluster has, and a log.
func TestBundleIsBounded(t *testing.T) {
	b, l := place(t)
	line := strings.Repeat("x", 99) + "\n"
	if err := os.WriteFile(l.LogFile, []byte(strings.Repeat(line, maxLog/100+1000)+"the end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fakeAPI{items: map[string][]any{}, errs: map[string]error{
		"/tenants/system/api/v1/services": errAnswerTooLarge}}
	for i := range 3000 {
		f.items["/api/v1/nodes"] = append(f.items["/api/v1/nodes"], corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"a": strings.Repeat("y", 2000)}}})
	}
	b.api = func(*rest.Config) (api, error) { return f, nil }
	m := b.test(t, &cmd.SupportBundle{Local: l, Config: &rest.Config{}})
	if n := len(m.files["objects/cluster/nodes.json"]); n > maxList || n < maxList/2 {
		t.Errorf("%d bytes of a list", n)
	}
	for _, line := range strings.Split(strings.TrimSpace(m.files["objects/cluster/nodes.json"]), "\n") {
		if !json.Valid([]byte(line)) {
			t.Fatalf("an object is cut: %.100s", line)
		}
	}
	log := m.files["logs/a4s.log"]
	if len(log) > maxLog || !strings.HasSuffix(log, "\nthe end\n") || !strings.HasPrefix(log, line) {
		t.Errorf("%d bytes of a log: %.120q", len(log), log)
	}
	for _, want := range []string{"objects/cluster/nodes.json: all but the first", "logs/a4s.log: the oldest",
		"objects/system/services.json: after 0 objects: the answer is too large"} {
		if !strings.Contains(m.said, want) || !strings.Contains(m.files["CONTENTS.txt"], want) {
			t.Errorf("it does not say %q:\n%s", want, m.said)
		}
	}
	a := newArchive(io.Discard, "d", time.Now(), newScrubber(nil))
	a.left = maxFile + 10
	for i := range 4 {
		a.add(fmt.Sprint(i), make([]byte, maxFile+1))
	}
	if a.left != 0 || a.files != 2 || len(a.omitted) != 4 {
		t.Errorf("%d files, room for %d, %d omitted", a.files, a.left, len(a.omitted))
	}
}

// TestBundleWithoutAServer: what this machine has is of use alone, and nothing is waited for.
func TestBundleWithoutAServer(t *testing.T) {
	b, l := place(t)
	down := &fakeAPI{errs: map[string]error{"/readyz": syscall.ECONNREFUSED}}
	b.api = func(*rest.Config) (api, error) { return down, nil }
	for what, run := range map[string]*cmd.SupportBundle{
		"no kubeconfig": {Local: l, NoConfig: errors.New("no kubeconfig here")},
		"no server":     {Local: l, Config: &rest.Config{}},
	} {
		m := b.test(t, run)
		if !strings.Contains(m.files["logs/a4s.log"], "the last line") || !strings.Contains(m.said, "objects: ") {
			t.Errorf("%s: %v\n%s", what, m.files, m.said)
		}
	}
	if len(down.asked) != 1 {
		t.Errorf("asked %q of a server that does not answer", down.asked)
	}
	// One that is not ready is asked on, and a space that nobody uses is not made.
	asleep := tenantapi.Tenant{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Tenant"},
		Status: tenantapi.TenantStatus{Conditions: []metav1.Condition{tenantapi.DormantCondition(metav1.Now())}}}
	f := &fakeAPI{errs: map[string]error{"/readyz": refusal("500")}, items: map[string][]any{
		"/api/v1/tenants/idle": {asleep}}}
	b.api = func(*rest.Config) (api, error) { return f, nil }
	m := b.test(t, &cmd.SupportBundle{Local: l, Config: &rest.Config{}, Tenant: "idle"})
	if !strings.Contains(m.said, "nobody has used it") || slices.ContainsFunc(f.asked, func(path string) bool {
		return strings.HasPrefix(path, "/tenants/idle/")
	}) {
		t.Errorf("a space that nobody uses: %s", m.said)
	}
	m = b.test(t, &cmd.SupportBundle{Local: l, Config: &rest.Config{}, Tenant: "nobody"})
	if !strings.Contains(m.said, "tenant nobody: not found") {
		t.Errorf("no tenant: %s", m.said)
	}
}

// TestBundleFiles: what is there is not overwritten, and what is begun and not ended is removed.
func TestBundleFiles(t *testing.T) {
	b, l := place(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := &cmd.SupportBundle{Local: l, Output: file, Out: io.Discard, NoConfig: errors.New("none"),
		Timeout: time.Hour}
	if err := b.run(t.Context(), run); err == nil || !strings.Contains(err.Error(), "a file that does not exist") {
		t.Errorf("over a file: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "kept" {
		t.Errorf("%q, %v", data, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	run.Output = filepath.Join(dir, "y")
	run.Reports = []cmd.SupportReport{{Name: "status", Ask: func(context.Context) (any, error) {
		cancel()
		return nil, context.Canceled
	}}}
	if err := b.run(ctx, run); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := os.Stat(run.Output); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it left something: %v", err)
	}
	// Time that is over is no error.
	late := &cmd.SupportBundle{Local: l, Timeout: time.Nanosecond, NoConfig: errors.New("none")}
	late.Reports = []cmd.SupportReport{{Name: "status", Ask: func(ctx context.Context) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}}
	if m := b.test(t, late); !strings.Contains(m.said, "status.json: context deadline exceeded") {
		t.Errorf("too late: %s", m.said)
	}
}

// TestSecretSettingsAreHidden: of all settings whose help speaks of a secret the value is not shown.
func TestSecretSettingsAreHidden(t *testing.T) {
	for _, s := range append(config.ServerSettings(&config.Server{}), config.AgentSettings(&config.Agent{})...) {
		usage := strings.ToLower(s.Usage + " " + s.Placeholder)
		secret := false
		for _, word := range []string{"secret ", "secret of", "password", "join token", "session token"} {
			secret = secret || strings.Contains(usage, word)
		}
		if secret && s.Kind() != config.Bool && !secretNames.MatchString(s.Name) {
			t.Errorf("--%s is shown: %s", s.Name, s.Usage)
		}
	}
}
