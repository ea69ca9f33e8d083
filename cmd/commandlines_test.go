package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	stdflag "flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/version"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

var update = stdflag.Bool("update", false, "write the files in testdata anew")

// commandLine is one that somebody types.
type commandLine struct {
	// args are separated by spaces; '' is an empty one.
	args string
	// env are variables, as NAME=VALUE, separated by spaces.
	env string
	// file is the configuration file.
	file string
}

// commandLines are what TestCommandLines records. ADMIN stands for the kubeconfig of a
// cluster with the tenants b and team-a.
var commandLines = []commandLine{
	// Versions.
	{args: "--version"},
	{args: "-v"},
	{args: "version"},
	{args: "version -o json"},
	{args: "version -ojson"},
	{args: "version -o=json"},
	{args: "version --output=json"},
	{args: "--output json version"},
	{args: "version -o yaml"},
	{args: "version --version"},
	{args: "tenant list --version"},

	// Help.
	{args: ""},
	{args: "-h"},
	{args: "--help"},
	{args: "help"},
	{args: "help server"},
	{args: "help token"},
	{args: "help token create"},
	{args: "token"},
	{args: "token help create"},
	{args: "token create abc --help"},
	{args: "token create -h"},
	{args: "server --debug --help"},
	{args: "agent -h"},
	{args: "help kubectl"},
	{args: "help ctr"},
	{args: "help crictl"},
	{args: "help servr"},
	{args: "help token creat"},
	{args: "completion --help"},

	// Words that are nearly right, or nothing at all.
	{args: "servr"},
	{args: "tokne create"},
	{args: "token creat"},
	{args: "xyzzy"},
	{args: "etcd-snapshot lst"},
	{args: "secrets-encrypt rotat-keys"},
	{args: "tenant list --hel"},
	{args: "tenant list --outptu json"},
	{args: "token create --tll 1h"},
	{args: "killall --bogus"},
	{args: "--bogus"},
	{args: "-x"},
	{args: "token -x"},
	{args: "status -x"},
	{args: "status ---output"},
	{args: "status --=x"},
	{args: "server --tokn x"},
	{args: "server -x"},
	{args: "agent --cluster-cidr 10.0.0.0/8"},

	// Values.
	{args: "token create --ttl"},
	{args: "token create --ttl 1"},
	{args: "token create --ttl=-1h"},
	{args: "token create --ttl=abc"},
	{args: "status -o"},
	{args: "node drain n1 --grace-period x"},
	{args: "node drain n1 --grace-period"},
	{args: "node drain n1 --timeout=-5s"},
	{args: "tenant delete team-a --wait=maybe"},
	{args: "tenant delete team-a --force --wait=false"},
	{args: "tenant delete team-a --force=true --wait=false"},
	{args: "tenant delete team-a --force=false --timeout=-1s"},
	{args: "tenant create t1 --role ''"},
	{args: "tenant create t1 --output="},
	{args: "tenant create t1 --group dev"},
	{args: "tenant create t1 --output - --group tenant:x --group a,b"},
	{args: "tenant create t1 --output - --group a,b --group ''"},
	{args: "tenant create t1 --expires 1s --user bob"},
	{args: "tenant kubeconfig team-a -o ''"},
	{args: "token rotate --which node"},
	{args: "token rotate --new-token abcdef.0123456789abcdef"},
	{args: "vm-runtime --accelerator abacus"},

	// Arguments.
	{args: "status now"},
	{args: "top"},
	{args: "top tenants now"},
	{args: "top tenants -n -1"},
	{args: "top tenants -o wide"},
	{args: "support-bundle now"},
	{args: "support-bundle --timeout 0"},
	{args: "support-bundle --tenant Team_A"},
	{args: "support-bundle --kubeconfig ADMIN --tenant team-a --config-maps --timeout 10s -o /tmp/x"},
	{args: "token delete"},
	{args: "token delete X"},
	{args: "token create a b"},
	{args: "tenant delete"},
	{args: "tenant delete a b"},
	{args: "etcd-member remove"},
	{args: "groups drain"},
	{args: "node revoke"},
	{args: "runtime add a b"},
	{args: "certificate rotate-ca --finish --force"},
	{args: "completion"},
	{args: "completion tcsh"},
	{args: "tenant delete -- --force"},
	{args: "tenant delete -- --wait=false"},
	{args: "token delete -"},

	// Flags before and after arguments, repeated, short and joined.
	{args: "tenant list --kubeconfig ADMIN"},
	{args: "tenant list -o name --kubeconfig=ADMIN"},
	{args: "tenant -o name list --kubeconfig=ADMIN"},
	{args: "tenant list --output wide -oname --kubeconfig=ADMIN"},
	{args: "tenant delete b --wait=false --kubeconfig ADMIN"},
	{args: "tenant delete --wait=false b --kubeconfig ADMIN"},
	{args: "tenant delete --wait=0 --kubeconfig ADMIN -- b"},
	{args: "tenant delete --kubeconfig ADMIN nobody"},
	{args: "tenant delete --kubeconfig ADMIN tem-a"},
	{args: "tenant delete b --wait false --kubeconfig ADMIN"},
	{args: "tenant create t1 --user alice --role view --kubeconfig ADMIN"},
	{args: "tenant list -o name", env: "KUBECONFIG=ADMIN"},
	{args: "tenant list -o name --admin-kubeconfig ADMIN"},
	{args: "tenant list --admin-kubeconfi ADMIN"},
	{args: "tenant create t1 --kubeconfig="},
	{args: "tenant create t1 --kubeconfig -", env: "KUBECONFIG=/nonexistent"},
	{args: "__completeNoDesc tenant list --adm"},
	{args: "__completeNoDesc server --auto"},
	{args: "tenant list -o name", env: "A4S_KUBECONFIG_OUTPUT=ADMIN"},
	{args: "tenant list -o name", file: "write-kubeconfig: ADMIN\n"},
	{args: "status --kubeconfig /nonexistent"},
	{args: "top tenants --kubeconfig /nonexistent"},
	{args: "support-bundle --kubeconfig /nonexistent"},
	{args: "support-bundle", file: "write-kubeconfig: /nonexistent\n"},

	// Where settings come from: file, environment, flags.
	{args: "server", file: "cluster-domain: file.test\nhttps-listen-port: 7001\n"},
	{args: "server", file: "token: file\n", env: "A4S_TOKEN=env"},
	{args: "server --token flag", file: "token: file\n", env: "A4S_TOKEN=env"},
	{args: "server -t flag --debug", file: "token: file\n"},
	{args: "server --debug=false", file: "debug: true\n"},
	{args: "server --tls-san a --tls-san b,c --tls-san=d"},
	{args: "server --kubelet-arg feature-gates=A=true,B=true --kubelet-arg=v=2"},
	{args: "server --disable-agent -debug --flannel-backend none"},
	{args: "server --flannel-backend carrier-pigeon"},
	{args: "server --cluster-init=maybe"},
	{args: "server extra"},
	{args: "server -- --debug"},
	{args: "server --token"},
	{args: "server", file: "clutser-domain: a\n"},
	{args: "server --config /nonexistent"},
	{args: "agent -s https://192.0.2.1:6443 -t x", file: "cluster-domain: a.b\n"},
	{args: "agent --server https://192.0.2.1:6443", env: "A4S_TOKEN=env"},
	{args: "agent --token x", env: "A4S_URL=https://192.0.2.2:6443"},
	{args: "agent"},
	{args: "killall"},
	{args: "killall", file: "data-dir: /srv/a4s\n"},
	{args: "killall", file: "data-dir: /srv/a4s\n", env: "A4S_DATA_DIR=/env"},
	{args: "killall -d /flag", file: "data-dir: /srv/a4s\n", env: "A4S_DATA_DIR=/env"},
	{args: "killall --data-dir relative"},
	{args: "killall -c /nonexistent"},
	{args: "killall now"},

	// Commands that hand over what they were told.
	{args: "vm-runtime --cni-bin-dir /a --cni-bin-dir /b,c --debug --accelerator tcg"},
	{args: "vm-runtime"},
	{args: "etcd-snapshot save --name x --snapshot-compress --dir /srv/snapshots"},
	{args: "etcd-snapshot save --name x/y"},
	{args: "etcd-snapshot save --etcd-snapshot-compress=false", file: "etcd-snapshot-compress: true\n"},
	{args: "etcd-snapshot save --s3 --s3-bucket= "},
	{args: "etcd-snapshot ls --dir /nonexistent -o json"},
	{args: "etcd-snapshot prune --snapshot-retention 0"},
	{args: "etcd-snapshot restore /nonexistent"},
	{args: "certificate rotate-ca --path /srv/cas --force -d /d"},
	{args: "kubectl get pods -o yaml --tenant t1 -n x"},
	{args: "kubectl --tenant=t1 exec p -- x --tenant=t2 --help"},
	{args: "kubectl get pods", env: "A4S_TENANT=t3"},
	{args: "kubectl --tenant"},
	{args: "kubectl --help"},
	{args: "ctr images ls -q --help -- x"},
	{args: "crictl -D ps --help -- x"},

	// What shells ask.
	{args: "__complete se"},
	{args: "__completeNoDesc se"},
	{args: "__completeNoDesc ''"},
	{args: "__completeNoDesc tenant ''"},
	{args: "__completeNoDesc secrets-encrypt ro"},
	{args: "__completeNoDesc -"},
	{args: "__complete token create --t"},
	{args: "__completeNoDesc token create --ttl=1h --"},
	{args: "__completeNoDesc server --cluster-c"},
	{args: "__complete server --cluster-i"},
	{args: "__completeNoDesc server --flannel-backend ''"},
	{args: "__completeNoDesc server --debug -c x"},
	{args: "__completeNoDesc completion ''"},
	{args: "__completeNoDesc tenant list -o ''"},
	{args: "__completeNoDesc tenant list --output=j"},
	{args: "__completeNoDesc tenant kubeconfig b --output x"},
	{args: "__completeNoDesc tenant create x --role ''"},
	{args: "__completeNoDesc tenant delete ''", env: "KUBECONFIG=ADMIN"},
	{args: "__completeNoDesc tenant delete t", env: "KUBECONFIG=ADMIN"},
	{args: "__completeNoDesc tenant delete --kubeconfig ADMIN t"},
	{args: "__completeNoDesc tenant delete b ''", env: "KUBECONFIG=ADMIN"},
	{args: "__completeNoDesc tenant kubeconfig t", env: "KUBECONFIG=ADMIN"},
	{args: "__completeNoDesc node drain ''", env: "KUBECONFIG=ADMIN"},
	{args: "__completeNoDesc node drain n1 --force n", env: "KUBECONFIG=ADMIN"},
	{args: "__complete kubectl get --ten"},
}

// TestCommandLines compares what command lines do with what they did when the file was
// written.
func TestCommandLines(t *testing.T) {
	var got strings.Builder
	r := newRecorder(t)
	for _, line := range commandLines {
		r.record(&got, line)
	}
	compare(t, "commandlines.txt", got.String())
}

// TestHelpOfEveryCommand compares the help of all commands with what it was when the
// file was written. Flags of server and agent are in docs/reference/configuration.md, which is
// compared elsewhere.
func TestHelpOfEveryCommand(t *testing.T) {
	var got strings.Builder
	for _, path := range append([]string{""}, commandPaths()...) {
		_, help, _, err := run(t, strings.Fields("help "+path)...)
		if err != nil {
			t.Fatalf("help %s: %v", path, err)
		}
		if path == "server" || path == "agent" {
			help, _, _ = strings.Cut(help, "\nGeneral:\n")
		}
		fmt.Fprintf(&got, "$ %s --help\n%s\n", strings.TrimSpace("a4s "+path), help)
	}
	compare(t, "help.txt", got.String())
}

// compare compares what command lines do with a file in testdata, or writes that.
func compare(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "\n$ "
	want := strings.Split("\n"+string(data), begin)
	for i, part := range strings.Split("\n"+got, begin) {
		if i >= len(want) {
			t.Fatalf("not in %s:\n$ %s", path, part)
		}
		if part != want[i] {
			t.Errorf("got\n$ %s\nwant\n$ %s", part, want[i])
		}
	}
}

// recorder runs command lines and writes down what they do.
type recorder struct {
	t       *testing.T
	help    map[string]string // by what the command prints
	base    map[string]map[string]string
	dir     string
	said    *strings.Builder
	replace []string // what differs from run to run
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{t: t, help: map[string]string{}, base: map[string]map[string]string{}, dir: t.TempDir()}
	for _, path := range append([]string{""}, commandPaths()...) {
		out, _, _ := r.run(strings.Fields("help "+path), "", "")
		r.help[out] = strings.TrimSpace("a4s " + path)
	}
	r.base["server"] = r.settings("server")
	r.base["agent"] = r.settings("agent", "--server=https://192.0.2.0:1", "--token=none")
	return r
}

// commandPaths are all commands but a4s itself.
func commandPaths() []string {
	var out []string
	var walk func(path string, below []*cli.Command)
	walk = func(path string, below []*cli.Command) {
		for _, c := range below {
			if c.Name != "help" {
				name := strings.TrimSpace(path + " " + c.Name)
				out = append(out, name)
				walk(name, c.Subcommands)
			}
		}
	}
	walk("", NewApp(Modes{}).root.Subcommands)
	slices.Sort(out)
	return out
}

// record writes down what a command line does.
func (r *recorder) record(w *strings.Builder, line commandLine) {
	f := newFakeTenants(r.t, "team-a", "b")
	r.replace = []string{f.kubeconfig, "ADMIN", f.url, "URL", r.dir, "DIR", os.Getenv("HOME"), "HOME",
		"a4s " + version.Version + " (" + version.Commit + ")", "a4s VERSION (COMMIT)",
		asText(r.t, version.Commit), `"COMMIT"`, `"version": ` + asText(r.t, version.Version), `"version": "VERSION"`}
	for _, p := range version.Parts() {
		r.replace = append(r.replace, "\n"+p.Name+" "+p.Version, "\n"+p.Name+" VERSION",
			`"version": `+asText(r.t, p.Version), `"version": "VERSION"`)
	}
	admin := strings.NewReplacer("ADMIN", f.kubeconfig)
	stdout, stderr, err := r.run(strings.Fields(admin.Replace(line.args)), admin.Replace(line.env),
		admin.Replace(line.file))

	fmt.Fprintf(w, "$ %s\n", strings.Join(strings.Fields(line.env+" a4s "+line.args), " "))
	for text := range strings.Lines(line.file) {
		fmt.Fprintf(w, "with %s", text)
	}
	fmt.Fprintf(w, "exit %d\n", problem.ExitCode(err))
	w.WriteString(r.said.String())
	if command := r.help[stdout]; command != "" {
		fmt.Fprintf(w, "out: [help of %s]\n", command)
		stdout = ""
	}
	if err != nil {
		stderr += "a4s: " + string(problem.Lines(err.Error())) + "\n"
	}
	stable := strings.NewReplacer(r.replace...)
	for _, of := range []struct{ name, text string }{{"out", stdout}, {"err", stderr}} {
		for text := range strings.Lines(stable.Replace(of.text)) {
			if strings.HasPrefix(text, "Completion ended with directive") {
				continue // for people who ask by hand
			}
			fmt.Fprintf(w, "%s: %s\n", of.name, strings.TrimSuffix(text, "\n"))
		}
	}
	w.WriteString("\n")
}

// run runs a command line with modes that write down what they are told.
func (r *recorder) run(args []string, env, file string) (stdout, stderr string, err error) {
	r.t.Helper()
	path := noConfig(r.t)
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.replace = append(r.replace, path, "FILE")
	for _, v := range strings.Fields(env) {
		name, value, _ := strings.Cut(v, "=")
		r.t.Setenv(name, value)
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "''", "")
	}
	r.said = &strings.Builder{}
	var out, errOut bytes.Buffer
	app := NewApp(r.modes())
	app.Stdout, app.Stderr = &out, &errOut
	err = app.RunContext(r.t.Context(), append([]string{"a4s"}, args...))
	return out.String(), errOut.String(), err
}

func (r *recorder) modes() Modes {
	say := func(what string, v any) { fmt.Fprintf(r.said, "%s: %s\n", what, asText(r.t, v)) }
	settings := func(what string, cfg any) {
		got := flatten(r.t, cfg)
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if base, known := r.base[what]; known && base[name] != got[name] &&
				!strings.HasSuffix(name, "ConfigFile") {
				fmt.Fprintf(r.said, "%s: %s = %s\n", what, name, got[name])
			}
		}
		if _, known := r.base[what]; !known {
			r.base[what] = got
		}
		fmt.Fprintf(r.said, "%s runs\n", what)
	}
	return Modes{
		Server:  func(_ context.Context, cfg *config.Server) error { settings("server", cfg); return nil },
		Agent:   func(_ context.Context, cfg *config.Agent) error { settings("agent", cfg); return nil },
		Killall: func(_ context.Context, dir string) error { say("killall", dir); return nil },
		Kubectl: func(_ context.Context, k *KubectlRun) error {
			say("kubectl", map[string]any{"args": k.Args, "tenant": k.Tenant, "source": k.Source})
			return nil
		},
		Ctr: func(_ context.Context, args []string) error { say("ctr", args); return nil },
		Crictl: func(_ context.Context, dataDir string, args []string) error {
			say("crictl", map[string]any{"args": args, "dataDir": dataDir})
			return nil
		},
		VMRuntime: func(_ context.Context, o *VMRuntime) error { say("vm-runtime", o); return nil },
		RenewNode: func(_ context.Context, dir string) error { say("renew", dir); return nil },
		SupportBundle: func(_ context.Context, b *SupportBundle) error {
			var reports []string
			for _, one := range b.Reports {
				reports = append(reports, one.Name)
			}
			say("support-bundle", map[string]any{"output": b.Output, "tenant": b.Tenant, "configMaps": b.ConfigMaps,
				"timeout": b.Timeout.String(), "reports": reports, "server": b.Config != nil})
			return nil
		},
		RotateCA: func(c *CARotation) (*CARotated, error) {
			say("rotate-ca", c)
			return &CARotated{Replaced: []string{"server-ca"}, Backup: "/backup", Token: "TOKEN"}, nil
		},
		SaveSnapshot: func(_ context.Context, s *SnapshotSave) (*archive.Entry, error) {
			say("save", s)
			return &archive.Entry{Path: "/saved"}, nil
		},
	}
}

// settings are what a command line without a file and an environment sets.
func (r *recorder) settings(args ...string) map[string]string {
	if _, _, err := r.run(args, "", ""); err != nil {
		r.t.Fatal(err)
	}
	return r.base[args[0]]
}

func asText(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// flatten makes the fields of a structure texts by their paths.
func flatten(t *testing.T, v any) map[string]string {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(asText(t, v)), &tree); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if fields, ok := v.(map[string]any); ok {
			for name, below := range fields {
				walk(strings.TrimPrefix(path+"."+name, "."), below)
			}
			return
		}
		out[path] = asText(t, v)
	}
	walk("", tree)
	return out
}
