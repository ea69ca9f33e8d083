package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A newer a4s saves what it finds before it begins, an older one does not begin and
// says how to go back, and that leads back.
func TestUpgradeAndBack(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"upgraded": nil,
		"upgraded-sqlite": {"--datastore-endpoint", "sqlite"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := ownCluster(t, name, append([]string{"--disable-agent"}, args...)...)
			ns := c.namespace(t)
			api := c.client.CoreV1().ConfigMaps(ns)
			made, err := api.Create(t.Context(), configMap("kept", "old"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			const record = dataDir + "/server/db/release.json"
			lastUsedBy := func(version, kubernetes, before string) {
				t.Helper()
				if err := c.proc.Stop(stopTimeout); err != nil {
					t.Fatal(err)
				}
				content, err := json.Marshal(map[string]string{"version": version,
					"kubernetes": kubernetes, "before": before})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.host.WriteFile(record, string(content)); err != nil {
					t.Fatal(err)
				}
			}

			lastUsedBy("v0.0.1", "v1.2.3", "")
			c.restart(t)
			var now struct{ Version, Kubernetes, Before string }
			if err := json.Unmarshal([]byte(run(t, c.host, "cat", record)), &now); err != nil || now.Before == "" ||
				now.Kubernetes == "v1.2.3" {
				t.Fatalf("the data are of %+v, %v", now, err)
			}
			if !strings.Contains(c.proc.Output(),
				"begins with data of a4s v0.0.1 with Kubernetes v1.2.3, which are saved in "+now.Before) {
				t.Errorf("the log does not say where the data are:\n%s", c.proc.Output())
			}
			made.Data["value"] = "new"
			if _, err := api.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}

			lastUsedBy("v9.0.0", "v1.999.0", now.Before)
			if err := c.start(); err != nil {
				t.Fatal(err)
			}
			<-c.proc.Done()
			said := c.proc.Output()
			if !strings.Contains(said, "a4s v9.0.0 with Kubernetes v1.999.0 has used them, which is newer than") {
				t.Errorf("an older a4s says\n%s", said)
			}
			if args == nil {
				restore := "etcd-snapshot restore " + now.Before[strings.LastIndexByte(now.Before, '/')+1:]
				if !strings.Contains(said, "a4s "+restore) {
					t.Errorf("an older a4s does not say %q:\n%s", restore, said)
				}
				c.must(t, strings.Fields(restore)...)
			} else {
				file := dataDir + "/server/db/state.db"
				if !strings.Contains(said,
					"move the file of the database away, "+now.Before+" into its place, and remove "+record) {
					t.Errorf("an older a4s does not say how to go back:\n%s", said)
				}
				run(t, c.host, "sh", "-c", "rm "+file+"* "+record+" && cp "+now.Before+" "+file)
			}
			c.restart(t)
			if m, err := api.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil || m.Data["value"] != "old" {
				t.Errorf("after going back: %v, %v", m.Data, err)
			}
		})
	}
}
