package spaces_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/nstest"
)

const (
	// parityRequests is how many requests a run sends unless
	// A4S_PARITY_REQUESTS says another number.
	parityRequests = 3000
	// parityStreams is how many watches are read at the same time.
	parityStreams = 60
	// paritySettles bounds how long two answers may differ before they are
	// said to do so.
	paritySettles = 30 * time.Second
)

// TestParity sends generated requests to the system space, which is a cluster
// as upstream makes it, and to a tenant, and compares the answers: status,
// headers and bodies. What differs by intention is in parityIntentions, of
// which every one has to be met.
func TestParity(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	total, seed := parityRequests, uint64(1)
	if s := os.Getenv("A4S_PARITY_REQUESTS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		total, seed = n, uint64(time.Now().UnixNano())
	}
	if s := os.Getenv("A4S_PARITY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("A4S_PARITY_REQUESTS=%d A4S_PARITY_SEED=%d", total, seed)
	run := newParityRun(t)
	for _, i := range run.intentions {
		for _, r := range i.examples(run) {
			run.ask(r)
		}
	}
	run.flush()
	for name, n := range run.met {
		run.byExample[name] = n
	}
	g := newParityMaker(seed, run.resources)
	for range total {
		run.ask(g.request())
		if t.Context().Err() != nil {
			break
		}
	}
	run.flush()
	run.report()
}

// parityRun is a comparison of two spaces.
type parityRun struct {
	t          *testing.T
	sides      [2]*paritySide
	resources  []*parityResource
	decoder    *parityDecoder
	intentions []*parityIntention
	revisions  []string
	streams    []*parityRequest

	mu        sync.Mutex
	asked     int
	codes     map[int]int
	met       map[string]int
	byExample map[string]int
	found     map[string]*finding
}

// finding is a difference that nobody intended, as it was first met.
type finding struct {
	text  string
	times int
}

func newParityRun(t *testing.T) *parityRun {
	t.Helper()
	p := start(t, func(cfg *config.Server) {
		// Nothing may change but what the requests change.
		cfg.DisableScheduler = true
		cfg.DisableHelmController = true // its kinds are of the system space alone
		// It writes Events and statuses when it likes, and others in a tenant than in the system space.
		cfg.Disable = append(cfg.Disable, config.AddonIngress)
		cfg.KubeControllerManagerArgs = []string{
			"controllers=serviceaccount-controller,root-ca-certificate-publisher-controller,namespace-controller",
		}
	})
	p.bareTenant(t, parityTenant)
	stranger := p.bareTenant(t, parityStranger)
	for _, name := range []string{parityTenant, parityStranger} {
		p.allow(t, name, allowances.VolumeTypes, "nfs") // without it there is no volume to compare
	}
	run := &parityRun{t: t, decoder: newParityDecoder(), codes: map[int]int{}, met: map[string]int{},
		byExample: map[string]int{}, found: map[string]*finding{}}
	run.intentions = parityIntentions()
	// One user of each space, of the same name and with the same rights.
	binding := `{"metadata":{"name":"par-administrator"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",` +
		`"kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io",` +
		`"kind":"User","name":"parity"}]}`
	const bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	post(t, p.Admin, bindings, binding)
	post(t, p.Admin, strings.Replace(bindings, "/v1/", "/v1/tenants/"+parityTenant+"/", 1), binding)
	run.sides[0] = newParitySide(t, "system", p.user(t, "parity", nil, nil))
	run.sides[1] = newParitySide(t, parityTenant, p.user(t, "parity", []string{"tenant:" + parityTenant}, nil))
	other := newParitySide(t, parityStranger, stranger.config)
	for _, s := range []*paritySide{run.sides[0], run.sides[1], other} {
		eventually(t, "the rights in "+s.space, func(ctx context.Context) (bool, error) {
			a, err := s.send(ctx, &parityRequest{method: http.MethodGet, path: "/api/v1/namespaces"}, prefixForm)
			return err == nil && a.code == http.StatusOK, err
		})
		defineParity(t, s)
	}
	eventually(t, "the custom resources in the discovery", func(context.Context) (bool, error) {
		run.resources = parityResources(t, p)
		return slices.ContainsFunc(run.resources, func(r *parityResource) bool { return r.name == "parcs" }), nil
	})
	for _, s := range []*paritySide{run.sides[0], run.sides[1], other} {
		fillParity(t, s, run.resources)
	}
	run.dropRepairs()
	return run
}

// dropRepairs deletes the events that may be in one space only: left out of a list, they are still in its pages.
func (run *parityRun) dropRepairs() {
	for _, s := range run.sides {
		for _, ns := range parityNamespaces() {
			s.must(run.t, http.MethodDelete, "/api/v1/namespaces/"+ns+"/events?fieldSelector=reason="+parityRepair, "")
		}
	}
}

// resource finds one by what it is called.
func (run *parityRun) resource(groupResource string) *parityResource {
	run.t.Helper()
	for _, r := range run.resources {
		if r.groupResource() == groupResource {
			return r
		}
	}
	run.t.Fatalf("there is no resource %s", groupResource)
	return nil
}

// ask compares the answers to a request, to a watch later.
func (run *parityRun) ask(r *parityRequest) {
	run.asked++
	if run.asked%50 == 1 {
		run.look()
	}
	for i, q := range r.query {
		q = strings.Replace(q, "@NOW@", run.revisions[len(run.revisions)-1], 1)
		r.query[i] = strings.Replace(q, "@BEFORE@", run.revisions[max(0, len(run.revisions)-4)], 1)
	}
	if r.stream {
		if run.streams = append(run.streams, r); len(run.streams) == parityStreams {
			run.flush()
		}
		return
	}
	run.compare(r)
}

// flush reads the watches that wait.
func (run *parityRun) flush() {
	var all sync.WaitGroup
	for _, r := range run.streams {
		all.Go(func() { run.compare(r) })
	}
	all.Wait()
	run.streams = nil
}

// look takes note of the revision of the datastore.
func (run *parityRun) look() {
	a, err := run.sides[1].send(run.t.Context(),
		&parityRequest{method: http.MethodGet, path: "/api/v1/namespaces/par-a/configmaps?limit=1"}, prefixForm)
	if err != nil {
		run.t.Fatal(err)
	}
	tree, _ := run.decoder.document("application/json", a.body).(map[string]any)
	meta, _ := tree["metadata"].(map[string]any)
	revision, _ := meta["resourceVersion"].(string)
	run.revisions = append(run.revisions, revision)
}

// parityPair are the answers to one request.
type parityPair struct {
	request *parityRequest
	answers [2]*parityAnswer
	trees   [2]map[string]any
}

// compare asks both spaces and takes note of what differs.
func (run *parityRun) compare(r *parityRequest) {
	ctx := run.t.Context()
	var pair *parityPair
	var differences []difference
	var met []string
	begun, dropped := time.Now(), false
	for {
		var err error
		if pair, err = run.both(ctx, r); err != nil {
			run.mu.Lock()
			defer run.mu.Unlock()
			run.take(r.method+" without an answer", err.Error()+"\n\tsystem: "+
				r.curl(run.sides[0], r.forms[0], r.body)+"\n\ttenant: "+r.curl(run.sides[1], r.forms[1], r.body))
			return
		}
		differences, met = run.explain(pair)
		// What is read may have changed in between.
		if len(differences) == 0 || r.changes || time.Since(begun) > paritySettles {
			break
		}
		if !dropped && r.resource != nil && r.resource.name == "events" {
			dropped = true
			run.dropRepairs()
		}
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.codes[pair.answers[1].code]++
	if d := time.Since(begun); d > 3*time.Second && !r.stream {
		run.t.Logf("%s: %s %s", d.Round(time.Millisecond), r.method, r.path)
	}
	for _, name := range met {
		run.met[name]++
	}
	if r.changes && (len(differences) > 0 || pair.answers[0].code != pair.answers[1].code) {
		run.repair(r)
	}
	if len(differences) == 0 {
		return
	}
	signature := fmt.Sprintf("%d %d", pair.answers[0].code, pair.answers[1].code)
	for _, d := range differences[:min(3, len(differences))] {
		signature += " " + regexp.MustCompile(`\.\d+`).ReplaceAllString(d.path, ".N")
	}
	if r.resource != nil && r.resource.custom {
		signature = "custom " + signature
	}
	signature = r.method + " " + signature
	text := "system: " + r.curl(run.sides[0], r.forms[0], pair.answers[0].sent) + "\ntenant: " +
		r.curl(run.sides[1], r.forms[1], pair.answers[1].sent)
	for _, d := range differences {
		text += "\n\t" + d.String()
	}
	run.take(signature, text)
}

// take takes note of a difference.
func (run *parityRun) take(signature, text string) {
	if run.found[signature] == nil {
		run.found[signature] = &finding{text: text}
	}
	run.found[signature].times++
}

// both sends a request to both spaces at once.
func (run *parityRun) both(ctx context.Context, r *parityRequest) (*parityPair, error) {
	pair := &parityPair{request: r}
	var errs [2]error
	var wait sync.WaitGroup
	for i, s := range run.sides {
		wait.Go(func() {
			if r.pages {
				pair.answers[i], pair.trees[i], errs[i] = run.allPages(ctx, s, r)
				return
			}
			if pair.answers[i], errs[i] = s.send(ctx, r, r.forms[i]); errs[i] == nil {
				pair.trees[i] = run.decoder.tree(pair.answers[i])
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	left := [2]bool{}
	for i := range pair.trees {
		pair.trees[i]["body"], left[i] = onlyParity(pair.trees[i]["body"], r)
	}
	return pair, nil
}

// allPages follows a list in parts to its end. Where both spaces have the same,
// the parts are compared, else what they are together.
func (run *parityRun) allPages(
	ctx context.Context, s *paritySide, r *parityRequest,
) (*parityAnswer, map[string]any, error) {
	form := r.forms[0]
	if s == run.sides[1] {
		form = r.forms[1]
	}
	page := *r
	var first *parityAnswer
	var tree map[string]any
	var bodies []any
	for range 200 {
		a, err := s.send(ctx, &page, form)
		if err != nil {
			return nil, nil, err
		}
		one := run.decoder.tree(a)
		bodies = append(bodies, one["body"])
		if first == nil {
			first, tree = a, one
		} else if a.code != first.code {
			break
		}
		token := continueOf(run.decoder, a)
		if token == "" {
			break
		}
		page.query = append(slices.Clone(r.query), "continue="+escaped(token))
	}
	if slices.Contains(parityNamespaces(), r.namespace) || len(bodies) == 1 {
		if len(bodies) > 1 {
			tree["body"] = bodies
		}
		return first, tree, nil
	}
	whole, _ := bodies[0].(map[string]any)
	for _, more := range bodies[1:] {
		page, _ := more.(map[string]any)
		for _, key := range []string{"items", "rows"} {
			if items, ok := page[key].([]any); ok {
				so, _ := whole[key].([]any)
				whole[key] = append(so, items...)
			}
		}
	}
	if meta, ok := whole["metadata"].(map[string]any); ok {
		delete(meta, "remainingItemCount")
		delete(meta, "continue")
	}
	return first, tree, nil
}

func continueOf(d *parityDecoder, a *parityAnswer) string {
	tree, _ := d.document(strings.Split(a.header.Get("Content-Type"), ";")[0], a.body).(map[string]any)
	meta, _ := tree["metadata"].(map[string]any)
	token, _ := meta["continue"].(string)
	return token
}

// explain takes out of two answers what differs by intention, and returns what
// is left and the intentions that were met.
func (run *parityRun) explain(pair *parityPair) (left []difference, met []string) {
	said := fmt.Sprint(outsideOfTokens(pair.trees[1]))
	left = differ("", pair.trees[0], pair.trees[1], nil)
	for _, i := range run.intentions {
		if len(left) == 0 {
			break
		}
		if i.explain(pair) {
			met = append(met, i.name)
			left = differ("", pair.trees[0], pair.trees[1], nil)
		}
	}
	for _, word := range []string{parityStranger, "." + parityTenant, parityTenant + "."} {
		if at := strings.Index(said, word); at >= 0 {
			left = append(left,
				difference{"a name that the tenant must not see", nil, said[max(0, at-200):min(len(said), at+200)]})
		}
	}
	return left, met
}

// repair makes the objects that are written to the same in both spaces again,
// after a write that one of them refused.
func (run *parityRun) repair(r *parityRequest) {
	ctx := run.t.Context()
	names := map[string]bool{}
	for _, s := range run.sides {
		list := &parityRequest{method: http.MethodGet, path: r.resource.path(r.namespace, ""), resource: r.resource,
			namespace: r.namespace}
		a, err := s.send(ctx, list, prefixForm)
		if err != nil {
			run.t.Error(err)
			return
		}
		tree, _ := run.decoder.document("application/json", a.body).(map[string]any)
		items, _ := tree["items"].([]any)
		for _, item := range items {
			object, _ := item.(map[string]any)
			meta, _ := object["metadata"].(map[string]any)
			name, _ := meta["name"].(string)
			if ofParity(meta) && !strings.HasPrefix(name, "par-1-") && !strings.HasPrefix(name, "par-2-") &&
				!strings.HasPrefix(name, "par-3-") && name != "par-administrator" &&
				name != "kube-root-ca.crt" && name != "default" {
				names[name] = true
			}
		}
	}
	for name := range names {
		for _, s := range run.sides {
			path := r.resource.path(r.namespace, name)
			for _, step := range []*parityRequest{
				{method: http.MethodPatch, path: path, body: `{"metadata":{"finalizers":null}}`,
					header: [][2]string{{"Content-Type", "application/merge-patch+json"}}},
				{method: http.MethodDelete, path: path,
					query: []string{"gracePeriodSeconds=0", "propagationPolicy=Background"}},
				{method: http.MethodPatch, path: path, body: `{"metadata":{"finalizers":null}}`,
					header: [][2]string{{"Content-Type", "application/merge-patch+json"}}},
			} {
				if _, err := s.send(ctx, step, prefixForm); err != nil {
					run.t.Error(err)
					return
				}
			}
		}
	}
}

// report says what was found.
func (run *parityRun) report() {
	t := run.t
	t.Logf("answers by code: %v", run.codes)
	for _, i := range run.intentions {
		t.Logf("%6d  %s", run.met[i.name], i.name)
		if run.byExample[i.name] == 0 {
			t.Errorf("no example meets the intention %q: if nothing differs any more, take it out of the table",
				i.name)
		}
	}
	// Where most is refused, little is compared.
	if run.codes[http.StatusOK]+run.codes[http.StatusCreated] < run.asked/5 {
		t.Errorf("too few requests were answered: the test does not test")
	}
	signatures := slices.Sorted(maps.Keys(run.found))
	slices.SortStableFunc(signatures, func(a, b string) int { return run.found[b].times - run.found[a].times })
	t.Logf("%d differences that nobody intended", len(signatures))
	for _, s := range signatures {
		t.Errorf("%d times: %s\n%s", run.found[s].times, s, run.found[s].text)
	}
}
