package scheduler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/configz"
	fwk "k8s.io/kube-scheduler/framework"
	appconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/server/controlplane/scheduler/readiness"
	"github.com/a4s-io/a4s/server/controlplane/scheduler/topology"
	"github.com/a4s-io/a4s/server/controlplane/scheduler/turns"
)

// head is how a file of the user's begins.
const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
	"clientConnection: {kubeconfig: %q}\n"

// writeCredential writes what the scheduler finds the API by.
func writeCredential(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.kubeconfig")
	if err := kubeconfig.Write(kubeconfig.Options{Path: path, Server: "https://192.0.2.1:6443"}); err != nil {
		t.Fatal(err)
	}
	return path
}

// made makes the scheduler with the settings of a file, without one if there are none.
func made(t *testing.T, settings string, plugins ...Plugin) (*appconfig.CompletedConfig, *scheduler.Scheduler) {
	t.Helper()
	credential := writeCredential(t)
	var args []string
	if settings != "" {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(fmt.Sprintf(head, credential)+settings), 0o600); err != nil {
			t.Fatal(err)
		}
		args = []string{"config=" + file}
	}
	s, err := parse(Options{Kubeconfig: credential, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	configz.Delete(configzName)
	cc, sched, err := setup(t.Context(), s, nil, plugins)
	if err != nil {
		t.Fatal(err)
	}
	return cc, sched
}

// profilesOf are the settings of profiles, none if there are none.
func profilesOf(text string) string {
	if text == "" {
		return ""
	}
	return "profiles:\n" + text
}

func TestReadinessIsInEveryProfile(t *testing.T) {
	const absent, first, last = -1, 0, 1000 // one alone is the last
	for _, tc := range []struct {
		name, profiles string
		want           map[string]int // where profiles have the plugin
	}{
		{"no file", "", map[string]int{"default-scheduler": first}},
		{"two profiles", "- schedulerName: default-scheduler\n- schedulerName: other\n",
			map[string]int{"default-scheduler": first, "other": first}},
		{"own choice of plugins", `
- schedulerName: few
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}]
`, map[string]int{"few": last}},
		{"named already", "- plugins: {multiPoint: {enabled: [{name: NodeRuntimeReadiness}]}}\n",
			map[string]int{"default-scheduler": last}},
		{"disabled by name", "- plugins: {multiPoint: {disabled: [{name: NodeRuntimeReadiness}]}}\n",
			map[string]int{"default-scheduler": absent}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, sched := made(t, profilesOf(tc.profiles))
			if len(sched.Profiles) != len(tc.want) {
				t.Errorf("%d profiles, want %v", len(sched.Profiles), tc.want)
			}
			for name, want := range tc.want {
				plugins := sched.Profiles[name].ListPlugins()
				for point, set := range map[string]config.PluginSet{"PreFilter": plugins.PreFilter,
					"Filter": plugins.Filter} {
					set.Enabled = slices.DeleteFunc(set.Enabled,
						func(p config.Plugin) bool { return p.Name == turns.Name })
					i := slices.IndexFunc(set.Enabled, func(p config.Plugin) bool { return p.Name == readiness.Name })
					if i == len(set.Enabled)-1 {
						i = last
					}
					if i != want {
						t.Errorf("profile %s has %s plugins %v, want %s at %d", name, point, set.Enabled,
							readiness.Name, want)
					}
				}
			}
		})
	}
}

// TestTurnsAreInEveryProfile: as one plugin, unless a profile says how the queue is ordered.
func TestTurnsAreInEveryProfile(t *testing.T) {
	for name, tc := range map[string]struct {
		profiles, want string
	}{
		"no file":      {"", turns.Name},
		"two profiles": {"- schedulerName: default-scheduler\n- schedulerName: other\n", turns.Name},
		"own choice of plugins": {`
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}]
`, turns.Name},
		"another order": {
			"- plugins: {queueSort: {enabled: [{name: PrioritySort}], disabled: [{name: \"*\"}]}}\n", "PrioritySort"},
		"not turns": {"- plugins: {queueSort: {disabled: [{name: TenantTurns}]}}\n", "PrioritySort"},
	} {
		t.Run(name, func(t *testing.T) {
			_, sched := made(t, profilesOf(tc.profiles))
			for profile, f := range sched.Profiles {
				plugins := f.ListPlugins()
				if got := plugins.QueueSort.Enabled; len(got) != 1 || got[0].Name != tc.want {
					t.Errorf("profile %s orders the queue by %v, want %s", profile, got, tc.want)
				}
				// It must see each pod that is scheduled, also those that others turn away.
				if first := plugins.PreFilter.Enabled[0].Name; (first == turns.Name) != (tc.want == turns.Name) {
					t.Errorf("profile %s begins with the PreFilter plugin %s", profile, first)
				}
			}
		})
	}
}

// TestTopologyPluginsStandForUpstreams, with the weights and arguments that a profile gives upstream's.
func TestTopologyPluginsStandForUpstreams(t *testing.T) {
	for name, tc := range map[string]struct {
		profiles       string
		spread, scored int32 // the weight of spreading and of affinity, 0 if they do not score
	}{
		"no file": {"", 2, 2},
		"weights and arguments": {`
- plugins: {score: {enabled: [{name: PodTopologySpread, weight: 7}], disabled: [{name: InterPodAffinity}]}}
  pluginConfig:
  - {name: PodTopologySpread, args: {defaultingType: List}}
`, 7, 0},
		"own choice of plugins": {`
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: InterPodAffinity, weight: 3}]
`, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			_, sched := made(t, profilesOf(tc.profiles))
			plugins := sched.Profiles[corev1.DefaultSchedulerName].ListPlugins()
			weights := map[string]int32{}
			for _, set := range []config.PluginSet{plugins.PreFilter, plugins.Filter, plugins.PreScore,
				plugins.Score} {
				for _, p := range set.Enabled {
					weights[p.Name] = p.Weight
				}
			}
			for _, upstream := range []string{podtopologyspread.Name, interpodaffinity.Name} {
				if _, ok := weights[upstream]; ok {
					t.Errorf("upstream's %s is there", upstream)
				}
			}
			got := [2]int32{weights[topology.SpreadName], weights[topology.AffinityName]}
			if want := [2]int32{tc.spread, tc.scored}; got != want {
				t.Errorf("weights %d, want %d", got, want)
			}
		})
	}
}

// TestParallelismFitsTheProcessors, unless a file says it.
func TestParallelismFitsTheProcessors(t *testing.T) {
	for processors, want := range map[int]int32{1: 1, 2: 1, 3: 1, 8: 4, 32: 16, 128: 16} {
		if got := parallelism(processors); got != want {
			t.Errorf("%d processors: %d, want %d", processors, got, want)
		}
	}
	for extra, want := range map[string]int32{"": parallelism(runtime.GOMAXPROCS(0)), "parallelism: 7\n": 7} {
		cc, _ := made(t, extra)
		if got := cc.ComponentConfig.Parallelism; got != want {
			t.Errorf("with %q: %d, want %d", extra, got, want)
		}
	}
}

// extra is a plugin that a caller adds.
type extra struct{}

func (extra) Name() string { return "Extra" }

func (extra) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

// TestPluginsOfTheCaller are in every profile, right behind that of readiness.
func TestPluginsOfTheCaller(t *testing.T) {
	_, sched := made(t, profilesOf("- schedulerName: default-scheduler\n- schedulerName: other\n"),
		Plugin{Name: extra{}.Name(),
			New: func(context.Context, kruntime.Object, fwk.Handle) (fwk.Plugin, error) { return extra{}, nil }})
	if len(sched.Profiles) != 2 {
		t.Errorf("%d profiles", len(sched.Profiles))
	}
	for name, profile := range sched.Profiles {
		enabled := profile.ListPlugins().Filter.Enabled
		if len(enabled) < 3 || enabled[0].Name != readiness.Name || enabled[1].Name != "Extra" {
			t.Errorf("profile %s has Filter plugins %v", name, enabled)
		}
	}
}
