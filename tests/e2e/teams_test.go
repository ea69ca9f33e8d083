package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/openid"
)

// teamsTest is a platform with twenty teams, whose people log in at a provider of OpenID Connect.
type teamsTest struct {
	*cluster
	provider *openid.Provider
}

// TestTwentyTeams is the first hour of a platform team, with the commands of the pages: a template,
// twenty tenants of it, a login for somebody who belongs to three of them, nodes for one alone.
func TestTwentyTeams(t *testing.T) {
	t.Parallel()
	program := openid.Build(t)
	provider := provideAt(t, program)
	provider.Users(t, map[string]map[string]any{
		"alice": {"groups": []string{"platform"}}, "bob": {"tenant": "team-07"},
		"eve": {"groups": []string{"others"}}})
	h := newHost(t, "teams")
	c := teamsTest{&cluster{node: node{host: h, args: []string{"server"}}}, provider}
	c.configure(t)
	if err := c.importImages(); err != nil {
		t.Fatal(err)
	}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	c.waitOwnNode(t)
	worker := newAgent(t, "teams-worker", c.cluster, "--node-label", "example.com/pool=team-a")
	c.waitNodeReady(t, worker.host.Name, worker.started)

	c.makeTeams(t)
	c.describeTeams(t)
	t.Run("a person in three teams", func(t *testing.T) { c.logIn(t) })
	t.Run("own provider", func(t *testing.T) { c.giveProvider(t, program) })
	t.Run("own nodes", func(t *testing.T) { c.giveNodes(t, worker.host.Name) })
}

// provideAt starts a provider where the hosts reach it.
func provideAt(t *testing.T, program string) *openid.Provider {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(env.lab.Gateway.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // the provider has it, too
	return openid.New(t, program, listener)
}

// configure writes what docs/tenants/users.md has of the configuration of a server, with the
// address of the provider of this test.
func (c teamsTest) configure(t *testing.T) {
	t.Helper()
	page := readDoc(t, "tenants/users.md")
	const mappings = "claimMappings:\n"
	authentication := strings.Replace(block(t, page, "# of a provider that names tenants or groups\n"), mappings,
		mappings+"    username: {claim: sub, prefix: \"oidc:\"}\n    groups: {claim: groups, prefix: \"oidc:\"}\n", 1)
	var certificate strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(c.provider.CA), "\n") {
		certificate.WriteString("      " + line + "\n")
	}
	files := map[string]string{
		"/etc/a4s/authentication.yaml": "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n" +
			"jwt:\n- issuer:\n    url: " + c.provider.URL + "\n    audiences: [" + openid.Client + "]\n" +
			"    certificateAuthority: |\n" + certificate.String() +
			strings.TrimRight(authentication, " "),
		"/etc/a4s/config.yaml": "kube-apiserver-arg:\n- authentication-config=/etc/a4s/authentication.yaml\n" +
			"tenant-group:\n- oidc:platform=team-01,team-02,team-03\n",
	}
	for path, content := range files {
		if err := c.host.WriteFile(path, content); err != nil {
			t.Fatal(err)
		}
	}
}

// readDoc reads a page of the documentation.
func readDoc(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// block is what a page has from here to the end of the block.
func block(t *testing.T, page, from string) string {
	t.Helper()
	_, rest, begins := strings.Cut(page, from)
	text, _, ends := strings.Cut(rest, "```")
	if !begins || !ends {
		t.Fatalf("the page has no block that begins with %q", from)
	}
	return text
}

// shell runs commands of a page, which find a4s in PATH and files of the examples where they are.
func (c teamsTest) shell(t *testing.T, commands string) string {
	t.Helper()
	bin := t.TempDir()
	examples, err := filepath.Abs("../../docs/examples/tenants")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(env.binary, bin+"/a4s"); err != nil {
		t.Fatal(err)
	}
	return run(t, c.host, "/bin/sh", "-euc", "PATH="+bin+":$PATH\ncd "+examples+"\n"+commands)
}

// makeTeams runs the commands of docs/tenants/templates.md.
func (c teamsTest) makeTeams(t *testing.T) {
	t.Helper()
	page := readDoc(t, "tenants/templates.md")
	c.shell(t, "a4s kubectl apply -f"+block(t, page, "```sh\na4s kubectl apply -f"))
	shown := c.shell(t, "for i in $(seq -w 1 20)"+block(t, page, "```sh\nfor i in $(seq -w 1 20)"))
	if got := strings.Count(shown, "\nteam-"); got != 20 {
		t.Errorf("%d of twenty teams are shown:\n%s", got, shown)
	}
}

// describeTeams uses each space once, by which it gets its objects, and reads what an administrator
// would: the limits of the template with their use.
func (c teamsTest) describeTeams(t *testing.T) {
	t.Helper()
	c.shell(t, "for i in $(seq -w 1 20); do a4s kubectl --tenant team-$i get namespaces; done")
	c.shell(t, "a4s kubectl wait tenants -l example.com/kind=team --for=condition=TemplateApplied --timeout=60s")
	described := c.shell(t, "a4s kubectl describe tenants -l example.com/kind=team")
	for _, want := range []string{"Counts:  pods that have not ended\n    Limit:   100\n    Name:    pods\n",
		"example.com/cost-centre=cc-"} {
		if got := strings.Count(described, want); got != 20 {
			t.Errorf("the descriptions have %q %d times:\n%s", want, got, described)
		}
	}
	maps, err := c.client.CoreV1().ConfigMaps("").List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=team"})
	if err != nil {
		t.Fatal(err)
	}
	teams := map[string]bool{}
	for _, m := range maps.Items {
		teams[m.Data["name"]] = true
	}
	for i := range 20 {
		if team := fmt.Sprintf("team-%02d", i+1); !teams[team] {
			t.Errorf("%s has no objects of the template: those are of %v", team, teams)
		}
	}
}

// as is a kubeconfig for the space of a team with which somebody is logged in: the one for their
// plugin, which a browser belongs to, with the token that the plugin would get.
func (c teamsTest) as(t *testing.T, user, team string) string {
	t.Helper()
	written := c.shell(t, "a4s tenant kubeconfig "+team+" --oidc --output -")
	config, err := clientcmd.Load([]byte(written))
	if err != nil {
		t.Fatal(err)
	}
	token := c.provider.Login(t, user)
	for name, info := range config.AuthInfos {
		if info.Exec == nil || !strings.Contains(strings.Join(info.Exec.Args, " "), c.provider.URL) {
			t.Errorf("the kubeconfig does not log in at the provider: %+v", info)
		}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	path := "/var/lib/a4s/" + user + "-" + team + ".yaml"
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.host.WriteFile(path, string(content)); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c teamsTest) logIn(t *testing.T) {
	for i := range 3 {
		team := fmt.Sprintf("team-%02d", i+1)
		c.shell(t, "a4s kubectl --tenant "+team+
			" create rolebinding platform -n apps --clusterrole=edit --group=oidc:platform")
		c.shell(t, "a4s kubectl --kubeconfig "+c.as(t, "alice", team)+" create configmap by-alice -n apps")
	}
	listed := c.shell(t, "a4s tenant list --kubeconfig "+c.as(t, "alice", "team-01"))
	for _, team := range []string{"team-01", "team-02", "team-03"} {
		if !strings.Contains(listed, team) {
			t.Errorf("alice's tenants are\n%s", listed)
		}
	}
	for _, refused := range [][2]string{{"alice", "team-04"}, {"bob", "team-01"}, {"eve", "team-01"}} {
		r := c.a4s(t, "kubectl", "--kubeconfig", c.as(t, refused[0], refused[1]), "get", "configmaps", "-n", "apps")
		if r.ExitCode == 0 ||
			!strings.Contains(r.Stderr, "orbidden") && !strings.Contains(r.Stderr, "must be logged in") {
			t.Errorf("%s in %s: %d\n%s%s", refused[0], refused[1], r.ExitCode, r.Stdout, r.Stderr)
		}
	}
}

// giveProvider gives a team a provider of its own, as docs/tenants/users.md says: its people are in
// that team, and nowhere else.
func (c teamsTest) giveProvider(t *testing.T, program string) {
	own := teamsTest{c.cluster, provideAt(t, program)}
	own.provider.Users(t, map[string]map[string]any{
		"carol": {"tenant": "team-01", "groups": []string{"platform", "system:masters", "developers"}}})
	ca, err := json.Marshal(own.provider.CA)
	if err != nil {
		t.Fatal(err)
	}
	c.shell(t, fmt.Sprintf(`a4s kubectl patch tenant team-06 --type merge -p '{"spec":{"authentication":{"issuer":`+
		`{"url":%q,"audiences":[%q],"certificateAuthority":%s},"claimMappings":{"username":{"claim":"sub",`+
		`"prefix":"own:"},"groups":{"claim":"groups","prefix":"own:"}}}}}'`, own.provider.URL, openid.Client, ca))
	c.shell(t, "a4s kubectl --tenant team-06 create rolebinding own -n apps --clusterrole=edit --group=own:developers")
	in := own.as(t, "carol", "team-06")
	c.shell(t, "a4s kubectl --kubeconfig "+in+" create configmap by-carol -n apps")
	who := c.shell(t, "a4s kubectl --kubeconfig "+in+" auth whoami")
	if !strings.Contains(who, "own:carol") || !strings.Contains(who, "own:developers") {
		t.Errorf("she is\n%s", who)
	}
	content, err := os.ReadFile(c.host.Path(in))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := "/var/lib/a4s/carol-elsewhere.yaml"
	if err := c.host.WriteFile(elsewhere,
		strings.ReplaceAll(string(content), "/tenants/team-06", "/tenants/team-01")); err != nil {
		t.Fatal(err)
	}
	for file, args := range map[string][]string{
		in: {"get", "secrets", "-n", "kube-system"}, elsewhere: {"get", "configmaps", "-n", "apps"}} {
		r := c.a4s(t, append([]string{"kubectl", "--kubeconfig", file}, args...)...)
		if r.ExitCode == 0 || !strings.Contains(r.Stderr, "orbidden") {
			t.Errorf("carol, by %s, %v: %d\n%s%s", file, args, r.ExitCode, r.Stdout, r.Stderr)
		}
	}
}

// giveNodes gives a team a node for itself alone, as docs/tenants/nodes.md says.
func (c teamsTest) giveNodes(t *testing.T, own string) {
	c.shell(t, `a4s kubectl patch tenant team-04 --type merge -p '{"spec":{"scheduling":`+
		`{"nodeSelector":{"example.com/pool":"team-a"},"exclusive":true}}}'`)
	for team, want := range map[string]string{"team-04": own, "team-05": c.host.Name} {
		tenant := c.makeTenant(t, team)
		for i := range 3 {
			pod := tenant.createPod(t, "default", testboxPod(fmt.Sprint("p", i)))
			hosts.Until(t, soon, "a pod of "+team+" is placed", func(ctx context.Context) error {
				p, err := tenant.client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
				if err == nil && p.Spec.NodeName == "" {
					err = fmt.Errorf("%+v", p.Status.Conditions)
				}
				return err
			})
			if p := tenant.pod(t, "default", pod.Name); p.Spec.NodeName != want {
				t.Errorf("a pod of %s is on %s, not on %s", team, p.Spec.NodeName, want)
			}
		}
	}
}

// pod reads a pod.
func (c *cluster) pod(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	p, err := c.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
