package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

// write makes the files below a new directory and returns that directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

func TestPrecedence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		env   map[string]string
		args  []string
		check func(*Server) (got, want any)
	}{
		{name: "default", check: func(s *Server) (any, any) { return s.Agent.DataDir, "/var/lib/a4s" }},
		{name: "file over default", files: map[string]string{"c.yaml": "data-dir: /file"},
			check: func(s *Server) (any, any) { return s.Agent.DataDir, "/file" }},
		{name: "environment over file", files: map[string]string{"c.yaml": "data-dir: /file"},
			env:   map[string]string{"A4S_DATA_DIR": "/env"},
			check: func(s *Server) (any, any) { return s.Agent.DataDir, "/env" }},
		{name: "empty environment is unset", files: map[string]string{"c.yaml": "data-dir: /file"},
			env:   map[string]string{"A4S_DATA_DIR": ""},
			check: func(s *Server) (any, any) { return s.Agent.DataDir, "/file" }},
		{name: "flag over environment", files: map[string]string{"c.yaml": "data-dir: /file"},
			env: map[string]string{"A4S_DATA_DIR": "/env"}, args: []string{"-d", "/flag"},
			check: func(s *Server) (any, any) { return s.Agent.DataDir, "/flag" }},
		{name: "last flag wins", args: []string{"--data-dir=/a", "-data-dir", "/b"},
			check: func(s *Server) (any, any) { return s.Agent.DataDir, "/b" }},
		{name: "false flag over true file", files: map[string]string{"c.yaml": "debug: true"},
			args:  []string{"--debug=false"},
			check: func(s *Server) (any, any) { return s.Agent.Debug, false }},
		{name: "integer from file", files: map[string]string{"c.yaml": "https-listen-port: 7443"},
			check: func(s *Server) (any, any) { return s.HTTPSListenPort, 7443 }},
		{name: "integer as text from file", files: map[string]string{"c.yaml": `v: "3"`},
			check: func(s *Server) (any, any) { return s.Agent.Verbosity, 3 }},
		{name: "leading zero is kept", files: map[string]string{"c.yaml": "write-kubeconfig-mode: 0640"},
			check: func(s *Server) (any, any) { return s.WriteKubeconfigMode, "0640" }},
		{name: "drop-ins in order of name",
			files: map[string]string{"c.yaml": "cluster-domain: a", "c.yaml.d/20.yaml": "cluster-domain: c",
				"c.yaml.d/10.yml": "cluster-domain: b", "c.yaml.d/30.txt": "cluster-domain: d"},
			check: func(s *Server) (any, any) { return s.ClusterDomain, "c" }},
		{name: "drop-ins without main file", files: map[string]string{"c.yaml.d/10.yaml": "cluster-domain: b"},
			check: func(s *Server) (any, any) { return s.ClusterDomain, "b" }},
		{name: "former name in a file",
			files: map[string]string{"c.yaml": "auto-partition: true\nservice-group-id: \"1\""},
			check: func(s *Server) (any, any) { return s.AutoGroups, true }},
		{name: "former name as a flag", args: []string{"--auto-partition", "--service-group-id=1"},
			check: func(s *Server) (any, any) { return s.AutoGroups, true }},
		{name: "list replaces", files: map[string]string{"c.yaml": "tls-san: [a, b]", "c.yaml.d/1.yaml": "tls-san: c"},
			check: func(s *Server) (any, any) { return strings.Join(s.TLSSANs, " "), "c" }},
		{name: "key+ appends across files",
			files: map[string]string{"c.yaml": "tls-san: [a]\ntls-san+: b", "c.yaml.d/1.yaml": "tls-san+: [c, d]"},
			check: func(s *Server) (any, any) { return strings.Join(s.TLSSANs, " "), "a b c d" }},
		{name: "list of flags replaces that of files", files: map[string]string{"c.yaml": "tls-san: [a]\ntls-san+: b"},
			args:  []string{"--tls-san", "x,y", "--tls-san", "z"},
			check: func(s *Server) (any, any) { return strings.Join(s.TLSSANs, " "), "x y z" }},
		{name: "commas stay in arguments", args: []string{"--kubelet-arg", "feature-gates=A=true,B=true"},
			check: func(s *Server) (any, any) {
				return strings.Join(s.Agent.KubeletArgs, " "), "feature-gates=A=true,B=true"
			}},
		{name: "alias and anchor", files: map[string]string{"c.yaml": "cluster-domain: &d x.y\ntls-san: [*d]"},
			check: func(s *Server) (any, any) { return strings.Join(s.TLSSANs, " "), "x.y" }},
		{name: "empty file", files: map[string]string{"c.yaml": "# nothing\n---\n"},
			check: func(s *Server) (any, any) { return s.ClusterCIDR, "10.42.0.0/16" }},
		{name: "derived DNS address", args: []string{"--service-cidr", "172.20.0.0/16"},
			check: func(s *Server) (any, any) { return s.ClusterDNS, "172.20.0.10" }},
		{name: "derived kubeconfig",
			check: func(s *Server) (any, any) { return s.WriteKubeconfig, "/etc/a4s/a4s.yaml" }},
		{name: "token from file", files: map[string]string{"tok": "secret\n", "c.yaml": "token-file: DIR/tok"},
			check: func(s *Server) (any, any) { return s.Token, "secret" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := write(t, tc.files)
			if text, ok := tc.files["c.yaml"]; ok {
				if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(strings.ReplaceAll(text, "DIR", dir)),
					0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, warnings, err := LoadServer(Source{Args: tc.args, LookupEnv: env(tc.env),
				DefaultFile: filepath.Join(dir, "c.yaml")})
			if err != nil || len(warnings) > 0 {
				t.Fatalf("LoadServer: %v, warnings %q", err, warnings)
			}
			if got, want := tc.check(s); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestConfigFileIsChosen(t *testing.T) {
	dir := write(t, map[string]string{"flag.yaml": "cluster-domain: flag", "env.yaml": "cluster-domain: env",
		"default.yaml": "cluster-domain: default"})
	load := func(args []string, vars map[string]string) (*Server, error) {
		s, _, err := LoadServer(Source{Args: args, LookupEnv: env(vars),
			DefaultFile: filepath.Join(dir, "default.yaml")})
		return s, err
	}
	inEnv := map[string]string{"A4S_CONFIG_FILE": filepath.Join(dir, "env.yaml")}
	for want, s := range map[string]func() (*Server, error){
		"flag":    func() (*Server, error) { return load([]string{"-c", filepath.Join(dir, "flag.yaml")}, inEnv) },
		"env":     func() (*Server, error) { return load(nil, inEnv) },
		"default": func() (*Server, error) { return load(nil, nil) },
	} {
		if got, err := s(); err != nil || got.ClusterDomain != want ||
			got.Agent.ConfigFile != filepath.Join(dir, want+".yaml") {
			t.Errorf("%s: %+v, %v", want, got, err)
		}
	}
	if _, err := load([]string{"--config", filepath.Join(dir, "none")}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file that was named: %v, want not exist", err)
	}
}

func TestInputErrors(t *testing.T) {
	for _, tc := range []struct {
		name  string
		agent bool
		file  string
		env   map[string]string
		args  []string
		is    error
		// source and want are parts of the problem's fields.
		source, want string
	}{
		{name: "unknown flag", args: []string{"--clutser-cidr", "x"}, is: ErrUnknownFlag,
			source: "--clutser-cidr", want: "--cluster-cidr"},
		{name: "unknown flag with value", args: []string{"--tokn=secret"}, is: ErrUnknownFlag,
			source: "--tokn", want: "--token"},
		{name: "flag of the other mode", agent: true, args: []string{"--cluster-cidr", "x"}, is: ErrOtherMode,
			source: "--cluster-cidr", want: `"a4s server"`},
		{name: "server to join", args: []string{"--server", "https://a:6443,x"},
			source: "--server", want: "the URL of a server"},
		{name: "no value at the end", args: []string{"--token"}, is: ErrNoValue, source: "--token", want: "a value"},
		{name: "no value before a flag", args: []string{"-t", "--debug"}, is: ErrNoValue,
			source: "-t", want: "a value"},
		{name: "integer flag", args: []string{"--https-listen-port", "no"},
			source: "--https-listen-port", want: "whole number"},
		{name: "boolean flag", args: []string{"--debug=maybe"}, source: "--debug", want: "true or false"},
		{name: "argument", args: []string{"--debug", "false"}, source: "argument of a4s server",
			want: "nothing but flags"},
		{name: "boolean environment", env: map[string]string{"A4S_DEBUG": "maybe"}, source: "A4S_DEBUG",
			want: "true or false"},
		{name: "unknown key", file: "a: 1\nclutser-cidr: x", is: ErrUnknownKey, source: "c.yaml:1: key \"a\""},
		{name: "unknown key has a suggestion", file: "\nclutser-cidr: x", is: ErrUnknownKey,
			source: `c.yaml:2: key "clutser-cidr"`, want: `"cluster-cidr"`},
		{name: "alias is not a key", file: "t: x", is: ErrUnknownKey, source: `key "t"`},
		{name: "config is not a key", file: "config: x", is: ErrUnknownKey, source: `key "config"`, want: "--config"},
		{name: "servers to join in a file", file: "server: [https://a:6443, x]", source: "c.yaml",
			want: "the URL of a server"},
		{name: "reset in a file", file: "cluster-reset: true", source: `key "cluster-reset"`, want: "a flag"},
		{name: "list for a scalar", file: "token: [a]", source: `key "token"`, want: "a value"},
		{name: "append to a scalar", file: "token+: a", source: `key "token+"`, want: `"token"`},
		{name: "text for an integer", file: "https-listen-port: abc", source: `key "https-listen-port"`,
			want: "whole number"},
		{name: "text for a boolean", file: "debug: yes", source: `key "debug"`, want: "true or false"},
		{name: "null", file: "token:", is: ErrNoValue, source: `key "token"`, want: "a value"},
		{name: "map", file: "token: {a: b}", source: `key "token"`, want: "text, a number"},
		{name: "nested list", file: "tls-san: [[a]]", source: `key "tls-san"`, want: "text, a number"},
		{name: "twice", file: "token: a\ntoken: b", source: `c.yaml:2: key "token"`, want: "each key once"},
		{name: "not a mapping", file: "- a", source: "c.yaml:1", want: "key: value"},
		{name: "broken YAML", file: "a: 1\n b: [", source: "c.yaml", want: "key: value"},
		{name: "two documents", file: "debug: true\n---\ndebug: false", source: "c.yaml:", want: "one document"},
		{name: "invalid value names the file", file: "\n\nflannel-backend: vlan",
			source: `c.yaml:3: key "flannel-backend"`, want: "vxlan"},
		{name: "invalid value names the variable", env: map[string]string{"A4S_KUBECONFIG_MODE": "999"},
			source: "A4S_KUBECONFIG_MODE", want: "octal"},
		{name: "invalid value names the flag as written", args: []string{"-i", "x"}, source: "-i", want: "IPv4"},
		{name: "missing token file", args: []string{"--token-file", "/nonexistent"}, is: fs.ErrNotExist,
			source: "--token-file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := write(t, map[string]string{"c.yaml": tc.file})
			src := Source{Args: tc.args, LookupEnv: env(tc.env), DefaultFile: filepath.Join(dir, "c.yaml")}
			var err error
			if tc.agent {
				_, _, err = LoadAgent(src)
			} else {
				_, _, err = LoadServer(src)
			}
			var in *problem.Input
			if !errors.As(err, &in) {
				t.Fatalf("got %v, want a problem.Input", err)
			}
			if !strings.Contains(in.Source, tc.source) || !strings.Contains(in.Want, tc.want) {
				t.Errorf("got source %q, want %q; expected them to contain %q and %q", in.Source,
					in.Want, tc.source, tc.want)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%v is not %v", err, tc.is)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir() // a directory where the file should be: root can read any file
	_, _, err := LoadServer(Source{DefaultFile: dir})
	var in *problem.Input
	if !errors.As(err, &in) || in.Source != dir {
		t.Errorf("got %v, want a problem.Input for %s", err, dir)
	}
}

func TestAgentIgnoresServerKeys(t *testing.T) {
	dir := write(t, map[string]string{"c.yaml": "server: https://h:6443/\ntoken: x\ncluster-cidr: 10.0.0.0/8"})
	a, warnings, err := LoadAgent(Source{DefaultFile: filepath.Join(dir, "c.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], `"cluster-cidr"`) {
		t.Errorf("warnings = %q, want one about cluster-cidr", warnings)
	}
	if !slices.Equal(a.ServerURLs, []string{"https://h:6443"}) {
		t.Errorf("ServerURLs = %q", a.ServerURLs)
	}
}

func TestAgentServersFromEverywhere(t *testing.T) {
	dir := write(t, map[string]string{"c.yaml": "server: [https://a, https://b/]\ntoken: x"})
	file := filepath.Join(dir, "c.yaml")
	for _, tc := range []struct {
		src  Source
		want []string
	}{
		{Source{}, []string{"https://a", "https://b"}},
		{Source{LookupEnv: env(map[string]string{"A4S_URL": "https://c, https://d"})},
			[]string{"https://c", "https://d"}},
		{Source{Args: []string{"--server", "https://e,https://f/", "-s", "https://e"}},
			[]string{"https://e", "https://f"}},
	} {
		tc.src.DefaultFile = file
		if a, _, err := LoadAgent(tc.src); err != nil || !slices.Equal(a.ServerURLs, tc.want) {
			t.Errorf("servers of %v: %+v, %v; want %q", tc.src.Args, a, err, tc.want)
		}
	}
}

func TestLocalReadsSharedFile(t *testing.T) {
	dir := write(t, map[string]string{"c.yaml": "server: https://h\ncluster-cidr: 10.0.0.0/8\ndata-dir: /d\n" +
		"node-name: n\netcd-snapshot-compress: true\nkube-apiserver-arg: [a=b]\naudit-policy-file: /p\nlog: /l\n" +
		"private-registry: /r"})
	file := filepath.Join(dir, "c.yaml")
	l, err := LoadLocal(Source{DefaultFile: file, LookupEnv: env(map[string]string{"A4S_KUBECONFIG_OUTPUT": "/k"})})
	if err != nil || !reflect.DeepEqual(*l, Local{DataDir: "/d", Kubeconfig: "/k", ConfigFile: file, NodeName: "n",
		LogFile: "/l", PrivateRegistry: "/r", SnapshotDir: "/d/snapshots", SnapshotCompress: true,
		SnapshotRetention: 5, KubeAPIServerArgs: []string{"a=b"}, AuditPolicyFile: "/p",
		S3: EtcdS3{Endpoint: "s3.amazonaws.com", BucketLookup: "auto", Region: "us-east-1",
			Timeout: "5m", Retention: 5}}) {
		t.Errorf("LoadLocal = %+v, %v", l, err)
	}
}

func TestHelpIsNotAnInputError(t *testing.T) {
	for _, arg := range []string{"-h", "--help"} {
		if _, _, err := LoadServer(Source{Args: []string{"--debug", arg}}); !errors.Is(err, ErrHelp) {
			t.Errorf("%s: %v, want ErrHelp", arg, err)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"cluster-cidr", "service-cidr", "cluster-dns", "token", "v"}
	for word, want := range map[string]string{
		"cluster-cdir": "cluster-cidr", "clusterdns": "cluster-dns", "tokne": "token", "service": "service-cidr",
		"cidr": "", "w": "", "snapshotter": "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestTablesAreSound(t *testing.T) {
	for mode, table := range map[string][]Setting{"server": ServerSettings(&Server{}),
		"agent": AgentSettings(&Agent{})} {
		var seen []string
		targets := map[any]string{}
		for i := range table {
			s := &table[i]
			for _, n := range append(s.Names(), s.Former...) {
				if slices.Contains(seen, n) {
					t.Errorf("%s: flag %q is there twice", mode, n)
				}
				seen = append(seen, n)
			}
			if other := targets[s.target]; other != "" {
				t.Errorf("%s: %s and %s set the same field", mode, s.Name, other)
			}
			targets[s.target] = s.Name
			if s.Category == "" || s.Usage == "" || (s.Kind() != Bool) != (s.Placeholder != "") {
				t.Errorf("%s: %s lacks a category, a usage or a placeholder", mode, s.Name)
			}
		}
	}
}

func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{"", "a: 1", "tls-san+: [a, b]", "a: &x 1\nb: *x", "a: &a [*a]", "? [a]\n: b",
		"---\n---\n", "\xef\xbb\xbfa: b", "a: !!binary x", "<<: {a: b}", "a: |\n b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseFile("f", data)
		var in *problem.Input
		if err != nil && !errors.As(err, &in) {
			t.Fatalf("%v is no problem.Input", err)
		}
		for _, e := range entries {
			if !e.isList && len(e.values) != 1 {
				t.Errorf("key %q: a scalar with %d values", e.written, len(e.values))
			}
		}
		l := loader{command: "a4s server", table: ServerSettings(&Server{}), origins: map[string]string{}}
		if err := l.applyEntries(entries); err != nil && !errors.As(err, &in) {
			t.Fatalf("%v is no problem.Input", err)
		}
	})
}
