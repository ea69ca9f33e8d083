package scheduler

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/server/controlplane/scheduler/readiness"
)

func TestReadinessIsInEveryProfile(t *testing.T) {
	credential := filepath.Join(t.TempDir(), "scheduler.kubeconfig")
	if err := kubeconfig.Write(kubeconfig.Options{Path: credential, Server: "https://192.0.2.1:6443"}); err != nil {
		t.Fatal(err)
	}
	const absent, first, last = -1, 0, 1000 // one alone is the last
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"clientConnection: {kubeconfig: %q}\nprofiles:\n"
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
			var args []string
			if tc.profiles != "" {
				file := filepath.Join(t.TempDir(), "config.yaml")
				if err := os.WriteFile(file, []byte(fmt.Sprintf(head, credential)+tc.profiles), 0o600); err != nil {
					t.Fatal(err)
				}
				args = []string{"config=" + file}
			}
			s, err := parse(Options{Kubeconfig: credential, Args: args})
			if err != nil {
				t.Fatal(err)
			}
			configz.Delete(configzName)
			_, sched, err := setup(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if len(sched.Profiles) != len(tc.want) {
				t.Errorf("%d profiles, want %v", len(sched.Profiles), tc.want)
			}
			for name, want := range tc.want {
				plugins := sched.Profiles[name].ListPlugins()
				for point, set := range map[string]config.PluginSet{"PreFilter": plugins.PreFilter,
					"Filter": plugins.Filter} {
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
