package tenancy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// BenchmarkDefinitions defines 1 and 50 custom resources in each of 1 and of
// A4S_BENCH_TENANTS (100) tenants, the same ones in all, in servers with all
// their controllers, and takes them away again. It reports what a tenant
// weighs with them, what is left of that afterwards, and how long it takes from
// the request for a definition until its first custom resource is made and
// read. Upstream, where there can be one of each, stands beside it.
func BenchmarkDefinitions(b *testing.B) {
	many := fromEnv(b, "A4S_BENCH_TENANTS", 100)
	for _, definitions := range []int{1, 50} {
		b.Run(fmt.Sprintf("upstream/definitions=%d", definitions), func(b *testing.B) {
			measureDefinitions(b, startChild(b, upstream), []string{""}, definitions)
		})
		for _, n := range []int{1, many} {
			b.Run(fmt.Sprintf("tenants=%d/definitions=%d", n, definitions), func(b *testing.B) {
				server := startChild(b, complete)
				client := server.tenants(b)
				before, _, _ := server.command(b, "goroutines")
				prefixes := make([]string, n)
				inParallel(n, func(i int) {
					name := fmt.Sprintf("t-%d", i)
					makeTenant(b.Context(), b, client, name)
					waitSpace(b.Context(), b, server, name, closely)
					prefixes[i] = "/tenants/" + name
				})
				after, _, _ := server.command(b, "goroutines")
				b.ReportMetric(float64(after-before)/float64(n), "idle-goroutines/tenant")
				measureDefinitions(b, server, prefixes, definitions)
			})
		}
	}
}

// BenchmarkEqualDefinitions gives A4S_BENCH_TENANTS (20) tenants the same definition with half
// a megabyte of schema in A4S_BENCH_FIELDS (2500) fields, after a first one that has it already,
// and an object each. It reports what one weighs in a tenant. In "own" every tenant has a
// category of its own in it: then nothing is shared but the schema in caches of definitions.
func BenchmarkEqualDefinitions(b *testing.B) {
	many, fields := fromEnv(b, "A4S_BENCH_TENANTS", 20), fromEnv(b, "A4S_BENCH_FIELDS", 2500)
	for _, side := range []string{"own", "equal"} {
		b.Run(side, func(b *testing.B) {
			server := startChild(b, complete)
			client := server.tenants(b)
			admin, _ := server.clients(b)
			inParallel(many+1, func(i int) {
				name := fmt.Sprintf("t-%d", i)
				makeTenant(b.Context(), b, client, name)
				waitSpace(b.Context(), b, server, name, closely)
			})
			has := func(i int) {
				category := "all"
				if side == "own" {
					category = fmt.Sprintf("of-%d", i)
				}
				url := fmt.Sprintf("%s/tenants/t-%d", server.admin.Host, i)
				if code, answer := exchange(b, admin, http.MethodPost, url+definitionsPath,
					largeDefinition(b, "large", category, fields)); code != http.StatusCreated {
					b.Errorf("defining it in tenant %d: %d %.300s", i, code, answer)
				}
				waitThing(b, admin, url, "large")
			}
			has(0)
			before := server.weigh(b, side+"-before")
			inParallel(many, func(i int) { has(i + 1) })
			if b.Failed() {
				return
			}
			after := server.weigh(b, side+"-after")
			for b.Loop() { // all of it was one measurement
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(after.heap-before.heap)/1024/float64(many), "heap-KiB/definition")
			b.ReportMetric(float64(after.own-before.own)/1024/float64(many), "own-KiB/definition")
		})
	}
}

// largeDefinition is one with many fields, each with a description and every tenth with a rule.
func largeDefinition(b *testing.B, name, category string, fields int) string {
	b.Helper()
	const perPart = 100
	parts := map[string]any{}
	for from := 0; from < fields; from += perPart {
		part := map[string]any{}
		for i := from; i < min(from+perPart, fields); i++ {
			field := map[string]any{"type": "string",
				"description": strings.Repeat("What this field is about. ", 6)}
			if i%10 == 0 {
				field["maxLength"] = 64
				field["x-kubernetes-validations"] = []any{map[string]any{"rule": "self != 'never'"}}
			}
			part[fmt.Sprint("field", i)] = field
		}
		parts[fmt.Sprint("part", from)] = map[string]any{"type": "object", "properties": part}
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{
		"spec": map[string]any{"type": "object", "properties": parts}}}
	crd, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things." + name + ".example.com"},
		"spec": map[string]any{
			"group": name + ".example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "things", "kind": "Thing", "categories": []string{category}},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": schema}}},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return string(crd)
}

// measureDefinitions measures the definitions in the spaces that paths with
// these prefixes address.
func measureDefinitions(b *testing.B, server *child, prefixes []string, definitions int) {
	admin, _ := server.clients(b)
	at := func(prefix string) string { return server.admin.Host + prefix }
	// What the first definition of all costs is not the tenants' affair.
	defineThing(b, admin, at(""), "warm")
	removeThings(b, admin, at(""))
	before := server.weigh(b, "definitions-before")
	_, stacksBefore, _ := server.command(b, "goroutines")
	var mu sync.Mutex
	var waits []time.Duration
	began := time.Now()
	inParallel(len(prefixes), func(i int) {
		took := defineThings(b, admin, at(prefixes[i]), definitions)
		mu.Lock()
		waits = append(waits, took...)
		mu.Unlock()
	})
	took := time.Since(began)
	if b.Failed() {
		return
	}
	with := server.weigh(b, fmt.Sprintf("definitions-%d-%d", len(prefixes), definitions))
	goroutines, stacks, _ := server.command(b, "goroutines")
	inParallel(len(prefixes), func(i int) { removeThings(b, admin, at(prefixes[i])) })
	after := server.weigh(b, "definitions-after")
	fewer, stacksAfter, _ := server.command(b, "goroutines")

	for b.Loop() { // all of it was one measurement
	}
	tenants := float64(len(prefixes))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(with.heap-before.heap)/1024/tenants, "heap-KiB/tenant")
	b.ReportMetric(float64(with.own-before.own)/1024/tenants, "own-KiB/tenant")
	b.ReportMetric(float64(with.heap-before.heap)/1024/tenants/float64(definitions), "heap-KiB/definition")
	b.ReportMetric(100*float64(with.heap-after.heap)/float64(with.heap-before.heap), "heap-given-back-%")
	used := with.heap + stacks - before.heap - stacksBefore
	b.ReportMetric(float64(used)/1024/tenants, "heap-and-stacks-KiB/tenant")
	b.ReportMetric(100*float64(with.heap+stacks-after.heap-stacksAfter)/float64(used), "heap-and-stacks-given-back-%")
	b.ReportMetric(100*float64(with.own-after.own)/float64(with.own-before.own), "own-given-back-%")
	b.ReportMetric(float64(goroutines-fewer)/tenants, "goroutines/tenant")
	b.ReportMetric(tenants*float64(definitions)/took.Seconds(), "definitions/s")
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "first-p50-ms")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "first-p99-ms")
}

// defineThings makes definitions, one after the other as an installation does,
// and then waits for all of them as defineThing.
func defineThings(b *testing.B, client *http.Client, url string, definitions int) []time.Duration {
	b.Helper()
	began, took := make([]time.Time, definitions), make([]time.Duration, definitions)
	for n := range definitions {
		began[n] = time.Now()
		define(b, client, url, fmt.Sprintf("n%d", n))
	}
	for n := range definitions {
		waitThing(b, client, url, fmt.Sprintf("n%d", n))
		took[n] = time.Since(began[n])
	}
	return took
}

// defineThing makes a definition and waits until a first custom resource is
// made and read back.
func defineThing(b *testing.B, client *http.Client, url, name string) {
	b.Helper()
	define(b, client, url, name)
	waitThing(b, client, url, name)
}

func define(b *testing.B, client *http.Client, url, name string) {
	b.Helper()
	if code, answer := exchange(b, client, http.MethodPost, url+definitionsPath,
		thingDefinition(name)); code != http.StatusCreated {
		b.Errorf("defining %s: %d %.300s", name, code, answer)
	}
}

func waitThing(b *testing.B, client *http.Client, url, name string) {
	b.Helper()
	things := url + "/apis/" + name + ".example.com/v1/namespaces/default/things"
	for end := time.Now().Add(deadline); ; time.Sleep(closely) {
		code, answer := exchange(b, client, http.MethodPost, things, thingOf(name, "first"))
		if code == http.StatusCreated || code == http.StatusConflict {
			break
		}
		if time.Now().After(end) {
			b.Errorf("the first of %s: %d %.300s", name, code, answer)
			return
		}
	}
	if code, answer := exchange(b, client, http.MethodGet, things+"/first", ""); code != http.StatusOK {
		b.Errorf("reading the first of %s: %d %.300s", name, code, answer)
	}
}

// removeThings deletes all definitions and waits until they are gone.
func removeThings(b *testing.B, client *http.Client, url string) {
	b.Helper()
	if code, answer := exchange(b, client, http.MethodDelete, url+definitionsPath, ""); code != http.StatusOK {
		b.Errorf("deleting definitions: %d %.300s", code, answer)
	}
	for end := time.Now().Add(deadline); ; time.Sleep(50 * time.Millisecond) {
		_, answer := exchange(b, client, http.MethodGet, url+definitionsPath+"?limit=1", "")
		if strings.Contains(answer, `"items":[]`) {
			return
		}
		if time.Now().After(end) {
			b.Errorf("definitions are still there: %.500s", answer)
			return
		}
	}
}

// exchange sends a request and returns the answer, code 0 if there is none.
func exchange(b *testing.B, client *http.Client, method, url, body string) (int, string) {
	req, err := http.NewRequestWithContext(b.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", mediaJSON)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(answer)
}

// thingDefinition has what definitions usually have: a schema with defaults
// and rules, columns, and the subresources.
func thingDefinition(name string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.` +
		name + `.example.com"},
"spec":{"group":"` + name +
		`.example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing","listKind":"ThingList","singular":"thing"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
"additionalPrinterColumns":[{"name":"Image","type":"string","jsonPath":".spec.image"},{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"}],
"schema":{"openAPIV3Schema":{"type":"object","required":["spec"],"properties":{
"spec":{"type":"object","required":["image"],"properties":{
"image":{"type":"string","description":"What runs.","minLength":1},
"replicas":{"type":"integer","description":"How many run.","default":1,"minimum":0},
"env":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"string"}}}},
"resources":{"type":"object","properties":{"limits":{"type":"object","additionalProperties":{"type":"string"}},"requests":{"type":"object","additionalProperties":{"type":"string"}}}},
"mode":{"type":"string","enum":["fast","careful"],"default":"careful"}},
"x-kubernetes-validations":[{"rule":"self.replicas <= 100","message":"at most 100"}]},
"status":{"type":"object","properties":{"replicas":{"type":"integer"},"conditions":{"type":"array","items":{"type":"object","properties":{"type":{"type":"string"},"status":{"type":"string"},"message":{"type":"string"}}}}}}}}}}]}}`
}

// thingOf is a custom resource of a definition.
func thingOf(definition, name string) string {
	return `{"apiVersion":"` + definition + `.example.com/v1","kind":"Thing","metadata":{"name":"` + name +
		`","labels":{"app":"web","pod-template-hash":"5d4f8c"}},` +
		`"spec":{"image":"registry/web:1","env":[{"name":"A","value":"b"},{"name":"C","value":"d"}],` +
		`"resources":{"limits":{"cpu":"1","memory":"128Mi"}}}}`
}

// BenchmarkCustomResources asks of custom resources what BenchmarkPaths asks of
// pods. The tenant has defined the resource itself.
func BenchmarkCustomResources(b *testing.B) {
	sides := []*side{
		{name: "upstream", server: startChild(b, upstream)},
		{name: "control", server: startChild(b, upstream)},
		{name: "system", server: startChild(b, withTenants)},
		{name: "tenant", server: startChild(b, withTenants)},
	}
	const definition = "bench"
	const path = "/apis/" + definition + ".example.com/v1/namespaces/"
	var filling sync.WaitGroup
	for _, s := range sides {
		if s.name == "tenant" {
			s.config = s.server.tenant(b, "bench")
		} else {
			s.config = s.server.clusterAdmin(b)
		}
		s.http = httpClient(b, s.config)
		s.things = things{
			listed: path + "list/things", worked: path + "work/things",
			patched: "application/merge-patch+json", fill: mediaJSON,
			body: func(_, _ string, n int64) []byte { return []byte(thingOf(definition, fmt.Sprintf("pod-%06d", n))) },
		}
		for _, ns := range []string{"list", "work"} {
			namespace(b, s.config, ns)
		}
		defineThing(b, s.http, s.config.Host, definition)
		filling.Go(func() { s.fill(b) })
	}
	filling.Wait()
	if b.Failed() {
		return
	}
	for _, op := range operations(mediaJSON) {
		b.Run(op.name, func(b *testing.B) { compare(b, sides, "customs-"+op.name, op.do) })
	}
}
