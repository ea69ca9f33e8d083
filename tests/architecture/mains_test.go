package architecture

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What upstream's programs set for their whole process, by blank imports, by calls in
// their main functions and by global flags, a4s has to set as well, or know why not:
// it links what is below those functions. Each is in one of the tables here, so that
// one that a new version brings fails a test until it is decided.

// upstreamPrograms are the directories of the main functions, by module.
func upstreamPrograms() map[string][]string {
	kubernetes := []string{"cmd/kubectl"}
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet",
		"kube-proxy"} {
		for _, part := range []string{"", "/app", "/app/options"} {
			kubernetes = append(kubernetes, "cmd/"+program+part)
		}
	}
	return map[string][]string{
		"k8s.io/kubernetes":         kubernetes,
		"go.etcd.io/etcd/server/v3": {".", "etcdmain"},
		"github.com/containerd/containerd/v2": {"cmd/containerd", "cmd/containerd/command", "cmd/ctr",
			"cmd/containerd-shim-runc-v2"},
		"github.com/k3s-io/kine":        {".", "pkg/app"},
		"github.com/flannel-io/flannel": {"."},
		"github.com/coredns/coredns":    {"."},
		"sigs.k8s.io/metrics-server": {"cmd/metrics-server", "cmd/metrics-server/app",
			"cmd/metrics-server/app/options"},
	}
}

// Reasons why something is not taken over.
const (
	ownLog     = "all parts have one log, which internal/logging makes"
	ownFlags   = "a4s has flags of its own; those of upstream are passed through --*-arg"
	ownSignals = "main has the signals"
	ownRun     = "a4s runs what it calls by itself"
	ownBackend = "a4s has the backends of --flannel-backend"
	inOptions  = "part of upstream's options, which a4s makes"
	metricsOf  = "called where the component is run"
	informers  = "a process can have a name for its informers once, and components are started again"
	processes  = "about the process, and a4s is not of that kind"
)

// leftOut are the blank imports of upstream that a4s does not have. All others it has.
func leftOut() map[string]string {
	out := map[string]string{
		"k8s.io/component-base/logs/json/register": ownLog,
		"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin": "the carried shim registers " +
			"the task service itself, to bound terminals",
		"github.com/coredns/coredns/core/plugin": "all plugins of CoreDNS; agent/dns has those that it uses",
	}
	for _, backend := range []string{"alloc", "extension", "hostgw", "ipip", "ipsec", "tencentvpc", "udp", "vxlan",
		"wireguard"} {
		out["github.com/flannel-io/flannel/pkg/backend/"+backend] = ownBackend
	}
	return out
}

// linkedByMains are the blank imports that a4s has because upstream's programs do.
func linkedByMains() []string {
	return []string{
		"time/tzdata",
		"k8s.io/component-base/metrics/prometheus/clientgo",
		"k8s.io/component-base/metrics/prometheus/version",
	}
}

func TestUpstreamMainsLinkNothingUnknown(t *testing.T) {
	linked := dependencies(t)
	skipped := leftOut()
	found := map[string]bool{}
	for module, dirs := range upstreamPrograms() {
		root := moduleDir(t, module)
		for _, dir := range dirs {
			for _, file := range parsed(t, filepath.Join(root, dir)) {
				for _, i := range file.Imports {
					path, err := strconv.Unquote(i.Path.Value)
					if err != nil || i.Name == nil || i.Name.Name != "_" {
						continue
					}
					found[path] = true
					// Either there is a reason, or it is there.
					if skipped[path] == "" && !linked[path] {
						t.Errorf("%s/%s links %s for its effect: link it (cmd/process/upstream.go) or say here "+
							"why not", module, dir, path)
					}
				}
			}
		}
	}
	for path := range skipped {
		if !found[path] {
			t.Errorf("no program of upstream links %s any more", path)
		}
	}
	for _, path := range linkedByMains() {
		if !found[path] || !linked[path] {
			t.Errorf("%s: upstream's programs link it: %v, a4s does: %v", path, found[path], linked[path])
		}
	}
}

// mainCalls are the calls of other packages in the main functions of Kubernetes'
// programs, and where a4s has them.
func mainCalls() map[string]string {
	out := map[string]string{
		"rest.SetDefaultWarningHandler":       "cmd/process/upstream.go",
		"restclient.SetDefaultWarningHandler": "cmd/process/upstream.go",
		"options.AddGlobalFlags":              "agent/kubelet/args.go has the flag of cAdvisor",
		"options.ValidateKubeletFlags":        "agent/kubelet/args.go",
		"cache.NewInformerName":               informers,
		"utilerrors.NewAggregate":             ownRun,
		"server.SetupSignalHandler":           ownSignals,
		"server.SetupSignalContext":           ownSignals,
		"genericapiserver.SetupSignalContext": ownSignals,
	}
	for reason, calls := range map[string][]string{
		ownLog: {"logs.InitLogs", "logsapi.ValidateAndApply", "logsapi.ValidateAndApplyAsField",
			"logs.SkipLoggingConfigurationFlags", "cliflag.PrintFlags", "klog.Background", "klog.FromContext",
			"klog.FlushAndExit", "logs.GlogSetter", "cmd.GetLogVerbosity"},
		ownFlags: {"verflag.AddFlags", "verflag.PrintAndExitIfRequested", "globalflag.AddGlobalFlags",
			"term.TerminalSize", "cliflag.SetUsageAndHelpFunc", "pflag.NewFlagSet", "field.NewPath"},
		inOptions: {"options.NewServerRunOptions", "options.NewKubeControllerManagerOptions", "options.NewOptions",
			"options.NewKubeletFlags", "options.NewKubeletConfiguration", "options.AddKubeletConfigFlags"},
		metricsOf: {"utilfeature.DefaultMutableFeatureGate.AddMetrics",
			"utilfeature.DefaultMutableFeatureGate.SetFromMap",
			"utilfeature.DefaultFeatureGate.Enabled", "kubeletconfigvalidation.ValidateKubeletConfiguration"},
		ownRun: {"cli.Run", "cli.RunNoErrOutput", "app.NewAPIServerCommand", "app.NewControllerManagerCommand",
			"app.NewSchedulerCommand", "app.NewKubeletCommand", "app.NewProxyCommand", "context.Background",
			"context.WithCancel", "os.Exit", "fmt.Errorf", "fmt.Sprintf", "fmt.Fprintf", "errors.New",
			"strings.Index", "cmd.NewDefaultKubectlCommand", "util.CheckErr"},
	} {
		for _, call := range calls {
			out[call] = reason
		}
	}
	return out
}

func TestUpstreamMainsCallNothingUnknown(t *testing.T) {
	known := mainCalls()
	root := moduleDir(t, "k8s.io/kubernetes")
	found := map[string]bool{}
	for _, dir := range upstreamPrograms()["k8s.io/kubernetes"] {
		for _, file := range parsed(t, filepath.Join(root, dir)) {
			imported := map[string]bool{}
			for _, i := range file.Imports {
				path, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				name := filepath.Base(path)
				if strings.HasPrefix(name, "v") && len(name) == 2 {
					name = filepath.Base(filepath.Dir(path))
				}
				if i.Name != nil {
					name = i.Name.Name
				}
				imported[name] = true
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !isMain(f.Name.Name) {
					continue
				}
				ast.Inspect(f, func(n ast.Node) bool {
					if c, ok := n.(*ast.CallExpr); ok {
						if name := qualified(c.Fun); name != "" && imported[strings.Split(name, ".")[0]] {
							found[name] = true
							if known[name] == "" {
								t.Errorf("%s calls %s in %s: do the same, or say here why not", dir, name, f.Name.Name)
							}
						}
					}
					return true
				})
			}
		}
	}
	for call := range known {
		if !found[call] {
			t.Errorf("no main function of upstream calls %s any more", call)
		}
	}
}

// isMain reports whether a function is what a program does before its work.
func isMain(name string) bool {
	return name == "main" || name == "runCommand" || name == "NewKubectlCommand" ||
		strings.HasPrefix(name, "New") && strings.HasSuffix(name, "Command")
}

// qualified is "a.b.C" of an expression that is nothing else.
func qualified(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x := qualified(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
	}
	return ""
}

// globalFlags are the flags that libraries register for the whole process.
func globalFlags() map[string]string {
	out := map[string]string{
		"containerd":                        "agent/kubelet sets it",
		"containerd-namespace":              "its default is the one that the CRI of containerd uses",
		"containerd_env_metadata_whitelist": "deprecated, and off",
		"housekeeping_interval":             "--kubelet-arg has it, as upstream",
		"machine_id_file":                   "its default is right for every machine",
		"boot_id_file":                      "its default is right for every machine",
		"crio_client_timeout":               "its default is the kubelet's",
		"conf":                              "of CoreDNS' main, which is not called",
	}
	for reason, names := range map[string][]string{
		"as the kubelet has it, which does not set it": {"container_hints", "referenced_reset_interval", "docker_only",
			"disable_root_cgroup_stats", "enable_load_reader", "initial_splay_factor", "jitter_factor",
			"global_housekeeping_interval", "update_machine_info_interval", "log_cadvisor_usage",
			"event_storage_age_limit", "event_storage_event_limit", "application_metrics_count_limit",
			"max_housekeeping_interval", "allow_dynamic_housekeeping"},
		"of a storage of cAdvisor that is not linked": {"storage_driver_user", "storage_driver_password",
			"storage_driver_host", "storage_driver_db", "storage_driver_table", "storage_driver_secure",
			"storage_driver_buffer_duration"},
		"of CoreDNS' main, which is not called": {"plugins", "pidfile", "version", "quiet", "p"},
	} {
		for _, name := range names {
			out[name] = reason
		}
	}
	return out
}

func TestGlobalFlagsAreDecided(t *testing.T) {
	known := globalFlags()
	out, err := exec.Command("go", "list", "-deps", "-f",
		`{{if not .Standard}}{{.ImportPath}} {{.Dir}}{{range .GoFiles}} {{.}}{{end}}{{end}}`, module).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		for _, name := range fields[2:] {
			text, err := os.ReadFile(filepath.Join(fields[1], name))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), `"flag"`) &&
				!strings.Contains(string(text), `"github.com/spf13/pflag"`) {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, flag := range registered(file) {
				found[flag] = true
				if known[flag] == "" {
					t.Errorf("%s registers --%s for the whole process: set it or say here why not", fields[0], flag)
				}
			}
		}
	}
	for flag := range known {
		if !found[flag] {
			t.Errorf("nothing registers --%s any more", flag)
		}
	}
}

// registered are the flags that a file registers when its package is made.
func registered(file *ast.File) []string {
	var out []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name != "init" {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok || len(c.Args) < 3 {
				return true
			}
			name := qualified(c.Fun)
			if !strings.HasPrefix(name, "flag.") && !strings.HasPrefix(name, "pflag.") {
				return true
			}
			for _, a := range c.Args[:2] {
				if l, ok := a.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil {
						out = append(out, text)
					}
					break
				}
			}
			return true
		})
	}
	return out
}

// dependencies are the packages of the program, and of the shim that it carries.
func dependencies(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", module, module+"/embedded/shim").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := map[string]bool{}
	for _, path := range strings.Fields(string(out)) {
		deps[path] = true
	}
	return deps
}

func moduleDir(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return strings.TrimSpace(string(out))
}

// parsed are the files of a directory that are built with the settings of a4s.
func parsed(t *testing.T, dir string) []*ast.File {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil // not every program has all parts
	}
	if err != nil {
		t.Fatal(err)
	}
	settings := build.Default
	if _, tags, ok := strings.Cut(os.Getenv("GOFLAGS"), "-tags="); ok {
		settings.BuildTags = slices.Concat(settings.BuildTags, strings.Split(strings.Fields(tags)[0], ","))
	}
	var out []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if ok, err := settings.MatchFile(dir, e.Name()); err != nil || !ok {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if file.Name.Name != "ignore" {
			out = append(out, file)
		}
	}
	return out
}
