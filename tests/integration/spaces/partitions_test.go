package spaces_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/groupwatch"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

const partitionsPath = "/api/v1/datapartitionconfigs"

// seedPartition is the object of the seed, as it writes it.
const seedPartition = `apiVersion: v1
kind: DataPartitionConfig
serviceGroupId: "1"
rangeStart: "A"
isRangeStartValid: false
rangeEnd: "m"
isRangeEndValid: true
metadata:
  name: "partition-1"
`

// TestDataPartitionConfigs: the API of the seed ("API Changes"), in all encodings.
func TestDataPartitionConfigs(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.bareTenant(t, "a")
	yaml := []string{"Content-Type: application/yaml"}
	if code, body := do(t, p.Admin, http.MethodPost, partitionsPath, seedPartition, yaml); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	_, body := get(t, p.Admin, partitionsPath+"/partition-1")
	if !strings.Contains(body, `"rangeStart":"A","rangeEnd":"m","isRangeEndValid":true,"serviceGroupId":"1"}`) {
		t.Errorf("not the form of the seed: %s", body)
	}

	t.Run("protobuf", func(t *testing.T) {
		code, body := do(t, p.Admin, http.MethodGet, partitionsPath, "", []string{
			"Accept: application/vnd.kubernetes.protobuf"})
		if code != http.StatusOK || !strings.HasPrefix(body, "k8s\x00") || !strings.Contains(body, "partition-1") {
			t.Errorf("%d %q", code, body)
		}
	})
	t.Run("table", func(t *testing.T) {
		_, body := do(t, p.Admin, http.MethodGet, partitionsPath, "", []string{
			"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"})
		var table metav1.Table
		if err := json.Unmarshal([]byte(body), &table); err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, c := range table.ColumnDefinitions {
			if c.Priority == 0 {
				columns = append(columns, c.Name)
			}
		}
		want := []string{"Name", "RangeStart", "IsRangeStartValid", "RangeEnd", "IsRangeEndValid", "ServiceGroupId"}
		if !slices.Equal(columns, want) || len(table.Rows) != 1 || table.Rows[0].Cells[0] != "partition-1" ||
			table.Rows[0].Cells[2] != false || table.Rows[0].Cells[4] != true || table.Rows[0].Cells[5] != "1" {
			t.Errorf("columns %q, rows %+v", columns, table.Rows)
		}
	})
	t.Run("explain", func(t *testing.T) {
		_, body := get(t, p.Admin, "/openapi/v3/api/v1")
		if !strings.Contains(body, partitionapi.DataPartitionConfig{}.OpenAPIModelName()) ||
			!strings.Contains(body, "The service group that owns these tenants") {
			t.Error("OpenAPI does not know it")
		}
	})
	t.Run("refusals", func(t *testing.T) {
		for what, c := range map[string]struct {
			spec string
			code int
			want string
		}{
			"a range the wrong way round": {
				`"rangeStart":"x","isRangeStartValid":true,"rangeEnd":"b","isRangeEndValid":true,"serviceGroupId":"2"`,
				http.StatusUnprocessableEntity, "must not come before rangeStart"},
			"no group": {`"rangeEnd":"b"`, http.StatusUnprocessableEntity, "serviceGroupId: Required"},
			"a second one of a group": {`"serviceGroupId":"1"`, http.StatusConflict,
				`the configuration \"partition-1\" already`},
		} {
			code, body := do(t, p.Admin, http.MethodPost, partitionsPath,
				`{"apiVersion":"v1","kind":"DataPartitionConfig","metadata":{"name":"other"},`+c.spec+`}`, nil)
			if code != c.code || !strings.Contains(body, c.want) {
				t.Errorf("%s: %d %s", what, code, body)
			}
		}
	})
	t.Run("changes", func(t *testing.T) {
		code, body := do(t, p.Admin, http.MethodPatch, partitionsPath+"/partition-1",
			`{"rangeEnd":"t","tenants":["zoo"]}`, []string{"Content-Type: application/merge-patch+json"})
		if code != http.StatusOK || !strings.Contains(body, `"generation":2`) {
			t.Errorf("%d %s", code, body)
		}
		apply := strings.Replace(seedPartition, `rangeEnd: "m"`, `rangeEnd: "q"`, 1)
		code, body = do(t, p.Admin, http.MethodPatch, partitionsPath+"/partition-1?fieldManager=test&force=true",
			apply, []string{"Content-Type: application/apply-patch+yaml"})
		if code != http.StatusOK || !strings.Contains(body, `"rangeEnd":"q"`) {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("tenants", func(t *testing.T) {
		for _, path := range []string{partitionsPath, partitionsPath + "/partition-1"} {
			if code, body := get(t, a.config, path); code != http.StatusForbidden {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		code, body := do(t, a.config, http.MethodPost, partitionsPath, seedPartition, yaml)
		if code != http.StatusForbidden {
			t.Errorf("%d %s", code, body)
		}
	})
	if code, body := do(t, p.Admin, http.MethodDelete, partitionsPath+"/partition-1", "", nil); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
}

// TestPartOfAGroup: a server of a group has its tenants and those of the system in the
// part that administrators can ask for; everything else that it answers is complete.
func TestPartOfAGroup(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, func(cfg *config.Server) { cfg.ServiceGroupID = "1" })
	tenants := map[string]*space{"own": p.bareTenant(t, "a"), "foreign": p.bareTenant(t, "z")}
	if code, body := do(t, p.Admin, http.MethodPost, partitionsPath, seedPartition,
		[]string{"Content-Type: application/yaml"}); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	before, err := p.admin.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tenant := range tenants {
		if _, err := tenant.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const path = "/api/v1/configmaps"
	const initial = path + "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&" +
		"resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
	part := []string{partitionapi.PartHeader + ": 1"}
	// The server learns of the part a moment after it was made, and a watch of a second may end before a slow machine
	// has said in it what there is.
	answers := func(what string, cfg *rest.Config, path string, headers []string, so func(body string) bool) {
		t.Helper()
		code, body := 0, ""
		defer func() {
			if t.Failed() {
				t.Logf("%s: %d %s", what, code, body)
			}
		}()
		eventually(t, what, func(context.Context) (bool, error) {
			code, body = do(t, cfg, http.MethodGet, path, "", headers)
			return code == http.StatusOK && so(body), nil
		})
	}
	for what, c := range map[string]struct {
		path    string
		headers []string
		foreign bool
	}{
		"all":                 {path, nil, true},
		"all, watched":        {initial, nil, true},
		"the part":            {path, part, false},
		"the part, watched":   {initial, part, false},
		"the part, unchanged": {path + "?resourceVersion=0", part, false},
	} {
		answers(what, p.Admin, c.path, c.headers, func(body string) bool {
			return strings.Contains(body, `"name":"own"`) && strings.Contains(body, `"name":"foreign"`) == c.foreign &&
				strings.Contains(body, "kube-root-ca.crt") && // and the end of the initial events
				strings.Contains(body, metav1.InitialEventsAnnotationKey) == strings.Contains(c.path, "watch")
		})
	}
	after := path + "?watch=true&timeoutSeconds=1&resourceVersion=" + before.ResourceVersion
	for group, want := range map[string]string{"1": "own", partitionapi.Rest: "foreign", "0": ""} {
		stream := []string{partitionapi.StreamHeader + ": " + group}
		if code, body := do(t, p.Admin, http.MethodGet, initial, "", stream); code != http.StatusUnprocessableEntity ||
			!strings.Contains(body, "sendInitialEvents") {
			t.Errorf("the stream of %s begins with what there is: %d %s", group, code, body)
		}
		answers("the stream of "+group, p.Admin, after, stream, func(body string) bool {
			return strings.Contains(body, `"name":"own"`) == (want == "own") &&
				strings.Contains(body, `"name":"foreign"`) == (want == "foreign")
		})
		code, body := do(t, p.Admin, http.MethodGet, path, "", stream)
		if code != http.StatusOK ||
			strings.Contains(body, `"namespace":"kube-system"`) != (group == partitionapi.Rest) {
			t.Errorf("what the stream of %s has of the system: %d %s", group, code, body)
		}
	}
	t.Run("lists of streams", func(t *testing.T) { listsOfStreams(t, p) })
	// To a user of a tenant it means nothing, and what is not split is complete.
	own := p.bareTenant(t, "b")
	zero := []string{partitionapi.StreamHeader + ": 0"}
	answers("a user of a tenant", own.config, initial, zero, func(body string) bool {
		return strings.Contains(body, "kube-root-ca.crt") && !strings.Contains(body, `"name":"own"`)
	})
	answers("a resource that is not split", p.Admin, strings.Replace(initial, "configmaps", "services", 1), zero,
		func(body string) bool { return strings.Contains(body, `"name":"kubernetes"`) })
	code, body := do(t, p.Admin, http.MethodGet, initial, "", []string{partitionapi.StreamHeader + ": A/b"})
	if code != http.StatusBadRequest || !strings.Contains(body, "no ID of a service group") {
		t.Errorf("the stream of no group: %d %s", code, body)
	}
	code, body = do(t, p.Admin, http.MethodGet, path, "", []string{partitionapi.PartHeader + ": 0"})
	if code != http.StatusBadRequest || !strings.Contains(body, "service group") {
		t.Errorf("the part of another group: %d %s", code, body)
	}
}

// listsOfStreams: each stream is listed in all encodings with what streams there are, and a
// client that merges them has the list that it would have without.
func listsOfStreams(t *testing.T, p *plane) {
	const path = "/api/v1/configmaps"
	for accept, of := range map[string]string{
		// Of the other encoding with the length, which the text of a certificate cannot hold.
		"application/json": `"name":"own"`, "application/vnd.kubernetes.protobuf": "\n\x03own",
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io": `"name":"own"`,
	} {
		for group, want := range map[string]bool{"1": true, partitionapi.Rest: false} {
			for _, query := range []string{"", "?resourceVersion=0", "?limit=500"} {
				res, body := answerTo(t, p.Admin, path+query, accept, group)
				if res.StatusCode != http.StatusOK || strings.Contains(body, of) != want ||
					res.Header.Get(partitionapi.StreamHeader) != group ||
					res.Header.Get(partitionapi.StreamsHeader) != "1,"+partitionapi.Rest {
					t.Errorf("the stream of %s as %s: %d %v %q", group, accept, res.StatusCode, res.Header, body)
				}
			}
		}
	}
	for what, path := range map[string]string{"a resource that is not split": "/api/v1/services",
		"one namespace": "/api/v1/namespaces/kube-system/configmaps", "no list": "/api/v1/namespaces/default"} {
		res, body := answerTo(t, p.Admin, path, "application/json", "1")
		if res.StatusCode != http.StatusOK || res.Header.Get(partitionapi.StreamsHeader) != "" ||
			!strings.Contains(body, `"name"`) {
			t.Errorf("%s: %d %v %s", what, res.StatusCode, res.Header, body)
		}
	}
	groups := groupwatch.New(noServers{}, logrus.NewEntry(logrus.New()))
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		config := rest.CopyConfig(p.Admin)
		config.AcceptContentTypes = media
		var asked []string
		config.Wrap(func(base http.RoundTripper) http.RoundTripper {
			return sender(func(req *http.Request) (*http.Response, error) {
				asked = append(asked, req.Header.Get(partitionapi.StreamHeader))
				return base.RoundTrip(req)
			})
		})
		plain, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		config.Wrap(groups.Wrap)
		merged, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		list, err := merged.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(asked, []string{partitionapi.Rest, "1"}) {
			t.Errorf("asked for %q", asked)
		}
		same, err := plain.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{
			ResourceVersion: list.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		if err != nil {
			t.Fatal(err)
		}
		byKey := func(a, b corev1.ConfigMap) int {
			return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
		}
		slices.SortFunc(list.Items, byKey)
		slices.SortFunc(same.Items, byKey)
		if !apiequality.Semantic.DeepEqual(list, same) || len(same.Items) < 3 {
			t.Errorf("merged, as %s: %+v\nwant %+v", media, list, same)
		}
	}
}

// noServers are no servers but the one that is asked anyway.
type noServers struct{}

func (noServers) Group(string) []string { return nil }

// sender is a transport.
type sender func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (s sender) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

// answerTo is the answer to a request for a stream.
func answerTo(t *testing.T, config *rest.Config, path, accept, stream string) (*http.Response, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set(partitionapi.StreamHeader, stream)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}
