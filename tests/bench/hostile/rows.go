package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// row is one way to be hostile.
type row struct {
	// number is that in docs/developing/benchmarks.md, 0 for none.
	number     int
	name, what string
	prepare    func(ctx context.Context, a *attacker) error
	attack     func(ctx context.Context, a *attacker) error
}

// String implements fmt.Stringer.
func (r row) String() string { return r.name }

const (
	namespace  = "/api/v1/namespaces/default"
	configMaps = namespace + "/configmaps"
	// registration is of policies and webhooks.
	registration = "/apis/admissionregistration.k8s.io/v1/"
	// many is how many clients ask at the same time.
	many = 64
	// partition is the row in which all ask the server of another partition (away.go).
	partition = "partition"
)

// away reports whether the attacker and those who are measured ask the server of another
// partition than theirs.
func (r row) away() bool { return r.name == partition }

// allRows are all ways. Those with a number came out of attacks that once made others wait
// for seconds.
func allRows() []row {
	return []row{
		{0, "gets", "64 clients get an object", fill(1), repeats(many, configMaps+"/c0")},
		{0, "lists", "64 clients list 500 objects", fill(500), repeats(many, configMaps)},
		{1, "selectors", "64 clients list with a label selector of 60,000 terms", fill(500), selects(60_000)},
		{1, "selectors-200", "the same with 200 terms", fill(500), selects(200)},
		{2, "watches", "300 watches of an object of 200 kB that two clients write", bigObject, watches(300, 2)},
		{2, "watches-idle", "300 watches of what nobody writes", bigObject, watches(300, 0)},
		{3, "silent-hook", "800 creates that wait for a webhook that does not answer", silentHook, creates(800)},
		{4, "policies", "64 clients create under 40 policies of much work", policies(40), creates(many)},
		{5, "replicasets", "64 clients make ReplicaSets of 1,000 pods", nil, replicaSets(1000, many, 0)},
		{6, "slow-hook", "12 ReplicaSets under a webhook that answers after 1.9 s", slowHook,
			replicaSets(100, 12, 12)},
		{7, "watch-lists", "64 clients list 500 objects by watches", fill(500), watchLists},
		{8, "crds", "large CRDs that change all the time, and 16 clients that ask for the OpenAPI document",
			definitions(5), changingDefinitions(5, 16)},
		{9, partition, "400 clients get an object through the server of another partition, as the others do", fill(1),
			repeats(400, configMaps+"/c0")},
		{0, "dependents", "10,000 dependents of one owner, made and collected again", nil, dependents(10_000)},
		{0, "endpoints", "a Service with 1,000 endpoints that change all the time", endpoints(1000),
			changingEndpoints(1000)},
		{0, "quotas", "50 quotas that count what 64 clients make and delete", quotas(50), creates(many)},
		{0, "events", "64 clients write events", nil, events},
		{0, "slow-readers", "256 clients list 10 MB and read nothing of it", large(100),
			slowReaders(256, "", "application/json")},
		{0, "slow-yaml", "the same in YAML", large(100), slowReaders(256, "", "application/yaml")},
		{0, "slow-pretty", "the same in indented JSON", large(100), slowReaders(256, "?pretty=1", "application/json")},
		{0, "slow-tables", "the same in tables with the objects", large(100), slowReaders(256,
			"?includeObject=Object", "application/json;as=Table;v=v1;g=meta.k8s.io")},
		{0, "affinity", "8 clients make pods with 1,000 terms of affinity", nil, affinity(1000)},
	}
}

// repeats has so many clients get the same path again and again.
func repeats(clients int, path string) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		return a.clients(ctx, clients, func(client *http.Client, _, _ int) {
			a.ask(ctx, client, http.MethodGet, path, "")
		})
	}
}

// watches has so many watches of one object, which some clients write.
func watches(n, writers int) func(context.Context, *attacker) error {
	const query = "?watch=1&fieldSelector=metadata.name%3Dbig"
	return func(ctx context.Context, a *attacker) error {
		return a.clients(ctx, writers+n, func(client *http.Client, i, turn int) {
			if i >= writers {
				a.ask(ctx, client, http.MethodGet, configMaps+query, "")
				return
			}
			a.ask(ctx, client, http.MethodPatch, configMaps+"/big",
				fmt.Sprintf(`{"metadata":{"labels":{"n":"%d-%d"}}}`, i, turn))
		})
	}
}

// events has many clients write events.
func events(ctx context.Context, a *attacker) error {
	return a.clients(ctx, many, func(client *http.Client, i, turn int) {
		a.ask(ctx, client, http.MethodPost, namespace+"/events", fmt.Sprintf(`{"metadata":{"name":"e-%d-%d"},`+
			`"involvedObject":{"kind":"ConfigMap","name":"c","namespace":"default"}}`, i, turn))
	})
}

// fill makes so many ConfigMaps c0, c1, ...
func fill(n int) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		for i := range n {
			body := fmt.Sprintf(`{"metadata":{"name":"c%d","labels":{"a":"b"}},"data":{"x":%q}}`, i,
				strings.Repeat("x", 500))
			if err := a.make(ctx, configMaps, body); err != nil {
				return err
			}
		}
		return nil
	}
}

// bigObject makes an object of 200 kB.
func bigObject(ctx context.Context, a *attacker) error {
	return a.make(ctx, configMaps,
		fmt.Sprintf(`{"metadata":{"name":"big"},"data":{"x":%q}}`, strings.Repeat("x", 200_000)))
}

// selects lists with a selector of so many terms, which all objects match.
func selects(terms int) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		all := make([]string, terms)
		for i := range all {
			all[i] = fmt.Sprintf("k%d!=v", i)
		}
		return repeats(many, configMaps+"?labelSelector="+url.QueryEscape(strings.Join(all, ",")))(ctx, a)
	}
}

// creates has so many clients make a ConfigMap and, if it is made, delete it.
func creates(clients int) func(context.Context, *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		return a.clients(ctx, clients, func(client *http.Client, i, turn int) {
			name := fmt.Sprintf("made-%d-%d", i, turn)
			code := a.ask(ctx, client, http.MethodPost, configMaps, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
			if code == http.StatusCreated {
				a.ask(ctx, client, http.MethodDelete, configMaps+"/"+name, "")
			}
		})
	}
}

// policies are admission policies whose expressions take nearly what upstream lets one
// take.
func policies(n int) func(context.Context, *attacker) error {
	const (
		policy = `{"metadata":{"name":"p%d"},"spec":{"failurePolicy":"Ignore","matchConstraints":{"resourceRules":[` +
			`{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},` +
			`"validations":[{"expression":"lists.range(400).all(x, lists.range(400).all(y, x + y >= 0))"}]}}`
		binding = `{"metadata":{"name":"p%d"},"spec":{"policyName":"p%[1]d","validationActions":["Deny"]}}`
	)
	return func(ctx context.Context, a *attacker) error {
		for i := range n {
			if err := a.make(ctx, registration+"validatingadmissionpolicies", fmt.Sprintf(policy, i)); err != nil {
				return err
			}
			err := a.make(ctx, registration+"validatingadmissionpolicybindings", fmt.Sprintf(binding, i))
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// replicaSets makes ReplicaSets of so many pods, most of them, or on and on if that is 0.
func replicaSets(pods, clients, most int) func(context.Context, *attacker) error {
	const set = `{"metadata":{"name":%q},"spec":{"replicas":%d,"selector":{"matchLabels":{"a":%[1]q}},"template":` +
		`{"metadata":{"labels":{"a":%[1]q}},"spec":{"containers":[{"name":"c","image":"example.com/c"}]}}}}`
	return func(ctx context.Context, a *attacker) error {
		return a.clients(ctx, clients, func(client *http.Client, i, turn int) {
			if most > 0 && turn*clients+i >= most {
				<-ctx.Done()
				return
			}
			a.ask(ctx, client, http.MethodPost, "/apis/apps/v1/namespaces/default/replicasets",
				fmt.Sprintf(set, fmt.Sprintf("r-%d-%d", i, turn), pods))
		})
	}
}
