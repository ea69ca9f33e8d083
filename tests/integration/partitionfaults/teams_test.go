package partitionfaults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/openid"
	"github.com/a4s-io/a4s/tests/sizes"
)

const (
	// manyTeams are there in the end, of which some are made while servers are killed.
	manyTeams = 20
	firstMade = 14
	// theirPods is how many pods each team has, which is its limit.
	theirPods = 3
	// keeper has the node ownNode for itself alone.
	keeper, ownNode = "team-04", "own"
	// again is how often something is tried that a server which is killed does not do.
	again = 100 * time.Millisecond
)

// ofAlice are the teams of a person: she has the same rights in all teams, and is a member of these.
var ofAlice = []string{"team-01", "team-02", "team-03"}

// anew are deleted and made again while servers are killed.
var anew = []string{"team-13", "team-14"}

// stay are those of teams that are not made anew.
func stay(teams []string) []string {
	return slices.DeleteFunc(slices.Clone(teams), func(is string) bool { return slices.Contains(anew, is) })
}

// teams are those of one template, at servers that are killed.
type teams struct {
	servers  []*server
	front    *front
	random   *rand.Rand
	provider *openid.Provider
	// admin is an administrator of the cluster, at whatever server answers.
	admin   *rest.Config
	client  kubernetes.Interface
	tenants *tenantapi.Client
	of      *tenantapi.TemplateClient

	made  []string // those that were acknowledged
	value int      // what the template and its Secret say
}

// TestTwentyTeamsOutliveServers: three servers hold twenty teams of one template. Each of them is killed at any
// moment while teams are made and made anew, the template changes and a person logs in. Afterwards every team has all
// that its template says, and no team is half made. At no moment does a team pass its limit, somebody else's pod run
// on the node of one team alone, or the person get into a team that is not theirs.
//
// A4S_KILLS is how many there are, A4S_KILLS_SEED repeats the choices of a run.
func TestTwentyTeamsOutliveServers(t *testing.T) {
	program := openid.Build(t)
	kills, seed := sizes.Of(t, "A4S_KILLS", 3), sizes.Of(t, "A4S_KILLS_SEED", int(time.Now().Unix()))
	n := newNetwork(t)
	if n == nil {
		return
	}
	t.Logf("%d kills; A4S_KILLS_SEED=%d makes the same choices", kills, seed)
	f := &teams{random: rand.New(rand.NewPCG(uint64(seed), 1))}
	f.begin(t, n, program)
	for i := range firstMade {
		must(t, f.team(t.Context(), teamName(i)))
	}
	f.settle(t, "at first", nil)
	stop := f.watch(t)
	defer stop()
	var order []int
	for round := range kills {
		if len(order) == 0 {
			order = f.random.Perm(len(f.servers))
		}
		f.round(t, round, f.servers[order[0]])
		order = order[1:]
	}
	if len(f.made) != min(manyTeams, firstMade+perKill*kills) {
		t.Errorf("the teams are %v", f.made)
	}
}

func teamName(i int) string { return fmt.Sprintf("team-%02d", i+1) }

// begin starts the provider and the servers, and makes the nodes, the template and what it is made of.
func (f *teams) begin(t *testing.T, n *network, program string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(gateway, "0"))
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() }) // the provider has it, too
	f.provider = openid.New(t, program, listener)
	f.provider.Users(t, map[string]map[string]any{"alice": {"groups": []string{"platform"}}})
	f.front = newFront(t)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	must(t, os.WriteFile(file, []byte(f.authentication()), 0o600))
	args := []string{"--tls-san", gateway, "--kube-apiserver-arg", "authentication-config=" + file,
		"--tenant-group", "oidc:platform=" + strings.Join(ofAlice, ",")}
	home := n.home(t, slices.Concat([]string{"--cluster-init"}, args)...)
	f.servers = []*server{home, n.join(t, home, "home-2", args...), n.join(t, home, "home-3", args...)}
	hosts.Until(t, settled, "all servers are known", func(ctx context.Context) error {
		known, err := home.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes",
			metav1.GetOptions{})
		if err == nil && len(known.Endpoints) != len(f.servers) {
			err = fmt.Errorf("they are %+v", known.Endpoints)
		}
		return err
	})
	for _, s := range f.servers {
		f.front.add(s)
	}
	f.admin = rest.CopyConfig(home.config)
	f.admin.Host = f.front.address
	f.client, err = kubernetes.NewForConfig(f.admin)
	must(t, err)
	f.tenants, err = tenantapi.NewClient(f.admin, nil)
	must(t, err)
	f.of, err = tenantapi.NewTemplateClient(f.admin, nil)
	must(t, err)
	for _, name := range []string{"platform", "flux-system"} {
		_, err := f.client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	_, err = f.client.CoreV1().Secrets("platform").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "registry", Labels: map[string]string{tenantapi.CopyLabel: tenantapi.CopyAllowed}},
		StringData: map[string]string{"value": f.says()}}, metav1.CreateOptions{})
	must(t, err)
	_, err = f.of.Create(t.Context(), &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec: f.template()}, metav1.CreateOptions{})
	must(t, err)
	// Before the node, so that nobody else's pod is there at first.
	must(t, f.team(t.Context(), keeper))
	hollow(t, f.servers, "shared-1")
	hollow(t, f.servers, "shared-2")
	hollowWith(t, f.servers, ownNode, map[string]string{"example.com/pool": keeper})
}

func (f *teams) authentication() string {
	return "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n" +
		"    url: " + f.provider.URL + "\n    audiences: [" + openid.Client + "]\n" +
		"    certificateAuthority: |\n      " +
		strings.ReplaceAll(strings.TrimSpace(f.provider.CA), "\n", "\n      ") + `
  claimMappings:
    username: {claim: sub, prefix: "oidc:"}
    groups: {claim: groups, prefix: "oidc:"}
    extra:
    - key: a4s.io/tenant
      valueExpression: 'has(claims.tenant) ? claims.tenant : ""'
`
}

// says is what the template and its Secret say now.
func (f *teams) says() string { return fmt.Sprint("value-", f.value) }

// template is what docs/tenants/templates.md has, with an object that says which version this is.
func (f *teams) template() tenantapi.TenantTemplateSpec {
	object := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	return tenantapi.TenantTemplateSpec{
		Limits: &tenantapi.TenantLimits{Pods: new(int64(theirPods))},
		Labels: map[string]string{"example.com/kind": "team"},
		Objects: []runtime.RawExtension{
			object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"apps"}}`),
			object(`{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"defaults","namespace":"apps"},` +
				`"spec":{"limits":[{"type":"Container","defaultRequest":{"cpu":"100m"}}]}}`),
			object(`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"own",` +
				`"namespace":"apps"},"spec":{"podSelector":{},"policyTypes":["Ingress"]}}`),
			object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"team","namespace":"apps"},` +
				`"data":{"name":"$(tenant.name)","value":"` + f.says() + `"}}`),
			object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"of-` + f.says() +
				`","namespace":"apps"}}`),
			object(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"platform",` +
				`"namespace":"apps"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole",` +
				`"name":"edit"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group",` +
				`"name":"oidc:platform"}]}`),
		},
		Secrets: []tenantapi.TemplateSecret{{Namespace: "default", Name: "registry",
			From: tenantapi.TemplateSecretSource{Namespace: "platform", Name: "registry"}}},
		Access: []tenantapi.TemplateAccess{{Name: "flux-$(tenant.name)", Spec: tenantapi.TenantAccessSpec{
			Tenant: "$(tenant.name)", User: "flux", Role: "admin",
			Secret: tenantapi.AccessSecret{Namespace: "flux-system", Name: "$(tenant.name)"}}}},
	}
}

// insist tries something until it works, whatever servers are killed meanwhile.
func insist(ctx context.Context, what string, do func(context.Context) error) error {
	var last error
	if err := wait.PollUntilContextTimeout(ctx, again, settled, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		last = do(ctx)
		return last == nil, nil
	}); err != nil {
		return fmt.Errorf("%s: %w: %w", what, err, last)
	}
	return nil
}

// team makes a team, if it is not there yet, and its pods.
func (f *teams) team(ctx context.Context, name string) error {
	if slices.Contains(f.made, name) {
		return nil
	}
	t := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: tenantapi.TenantSpec{Template: "team"}}
	if name == keeper {
		t.Spec.Scheduling = &tenantapi.TenantScheduling{Exclusive: true,
			NodeSelector: map[string]string{"example.com/pool": keeper}}
	}
	err := insist(ctx, "making "+name, func(ctx context.Context) error {
		_, err := f.tenants.Create(ctx, t, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // the server was killed that was to answer
		}
		return err
	})
	if err == nil {
		f.made = append(f.made, name)
		slices.Sort(f.made)
	}
	return err
}

// perKill is how many new teams are made while a server is killed.
const perKill = 2

// round kills a server while all goes on that happens to teams, and starts it again.
func (f *teams) round(t *testing.T, round int, victim *server) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failures := make(chan error, 1+perKill+len(anew))
	var changing sync.WaitGroup
	f.value++
	before := stay(f.made)
	changing.Go(func() { failures <- f.change(ctx) })
	changing.Go(func() {
		for range perKill {
			if len(f.made) < manyTeams {
				if err := f.team(ctx, teamName(len(f.made))); err != nil {
					failures <- err
					return
				}
			}
		}
		for _, name := range anew {
			failures <- f.makeAnew(ctx, name)
		}
	})
	<-time.After(time.Duration(f.random.Int64N(int64(4 * time.Second))))
	f.front.remove(victim)
	victim.kill()
	killed := time.Since(began).Round(time.Millisecond)
	victim.start(t)
	victim.ready(t)
	f.front.add(victim)
	ready := time.Since(began).Round(time.Millisecond)
	changing.Wait()
	for range len(failures) {
		must(t, <-failures)
	}
	f.settle(t, fmt.Sprintf("kill %d, of %s after %s, ready after %s", round+1, victim.name, killed, ready), before)
}

// change changes the template, the Secret that it copies, and their value.
func (f *teams) change(ctx context.Context) error {
	err := insist(ctx, "changing the Secret", func(ctx context.Context) error {
		patch := fmt.Sprintf(`{"stringData":{"value":%q}}`, f.says())
		_, err := f.client.CoreV1().Secrets("platform").Patch(ctx, "registry", types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return insist(ctx, "changing the template", func(ctx context.Context) error {
		is, err := f.of.Get(ctx, "team", metav1.GetOptions{})
		if err == nil {
			is.Spec = f.template()
			_, err = f.of.Update(ctx, is, metav1.UpdateOptions{})
		}
		return err
	})
}

// makeAnew deletes a team, and makes it again as soon as it is gone.
func (f *teams) makeAnew(ctx context.Context, name string) error {
	is, err := f.uid(ctx, name)
	if err != nil {
		return err
	}
	err = insist(ctx, "deleting "+name, func(ctx context.Context) error {
		err := f.tenants.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(is))})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return nil
		case err == nil:
			return errors.New("it is being deleted")
		}
		return err
	})
	if err != nil {
		return err
	}
	f.made = slices.DeleteFunc(f.made, func(is string) bool { return is == name })
	return f.team(ctx, name)
}

func (f *teams) uid(ctx context.Context, name string) (uid types.UID, err error) {
	err = insist(ctx, "reading "+name, func(ctx context.Context) error {
		is, err := f.tenants.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			uid = is.UID
		}
		return err
	})
	return uid, err
}

// settle waits until all is done that a change of the teams entails, and looks at each of them.
// before had the template already.
func (f *teams) settle(t *testing.T, when string, before []string) {
	t.Helper()
	began := time.Now()
	f.rolledOut(t, before)
	f.complete(t, when)
	f.fill(t)
	f.loginsCount(t, when)
	f.accessesWork(t, when)
	f.limitsHold(t, when)
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%s: %d teams are whole %s later", when, len(f.made), time.Since(began).Round(100*time.Millisecond))
}

// fill makes the pods of each team, and waits until each has a node.
func (f *teams) fill(t *testing.T) {
	t.Helper()
	for _, name := range f.made {
		client := f.inSpace(t, name)
		for i := range theirPods {
			p := pod(fmt.Sprint("p", i))
			if name != keeper && i == 0 {
				p.Spec.SchedulerName = "nobody" // intrude binds it
			}
			hosts.Until(t, settled, "a pod of "+name+" is made", func(ctx context.Context) error {
				_, err := client.CoreV1().Pods("apps").Get(ctx, p.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					_, err = client.CoreV1().Pods("apps").Create(ctx, p, metav1.CreateOptions{})
				}
				return err
			})
		}
	}
	for _, name := range f.made {
		client := f.inSpace(t, name)
		hosts.Until(t, settled, "the pods of "+name+" have nodes", func(ctx context.Context) error {
			list, err := client.CoreV1().Pods("apps").List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range list.Items {
				p := &list.Items[i]
				if (p.Spec.NodeName == "") != (p.Spec.SchedulerName == "nobody") ||
					name == keeper && p.Spec.NodeName != ownNode {
					return fmt.Errorf("pod %s is on %q: %+v", p.Name, p.Spec.NodeName, p.Status.Conditions)
				}
			}
			return nil
		})
	}
}

// inSpace is an administrator of the cluster in the space of a team.
func (f *teams) inSpace(t *testing.T, team string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(tenantapi.InSpace(f.admin, team))
	must(t, err)
	return client
}
