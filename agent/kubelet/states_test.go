package kubelet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"github.com/a4s-io/a4s/agent/kubelet/settings"
)

// A power cut, or another policy, does not keep the kubelet from starting.
func TestStatesThatTheKubeletCannotReadAreSetAside(t *testing.T) {
	o := Options{DataDir: t.TempDir(), Log: logrus.NewEntry(logrus.New())}
	dir := settings.RootDir(o.DataDir)
	server := &options.KubeletServer{}
	server.CPUManagerPolicy, server.MemoryManagerPolicy = "static", "None"
	if err := o.setAsideStates(server); err != nil {
		t.Fatalf("without a directory: %v", err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cpu_manager_state":            `{"policyName":"none","defaultCpuSet":"","checksum":1}`, // another policy
		"memory_manager_state":         `{"policyName":"None","machineState":{},"checksum":1}`,  // the same
		"dra_manager_state":            ``,                                                      // a power cut
		"allocated_pods_state":         `{"data":`,                                              // half written
		"actuated_pods_state":          `{"data":"{}","checksum":1}`,
		"graceful_node_shutdown_state": `{}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // again does nothing
		if err := o.setAsideStates(server); err != nil {
			t.Fatal(err)
		}
	}
	for name, aside := range map[string]bool{
		"cpu_manager_state": true, "memory_manager_state": false, "dra_manager_state": true,
		"allocated_pods_state": true, "actuated_pods_state": false, "graceful_node_shutdown_state": false,
	} {
		_, err := os.Stat(filepath.Join(dir, name))
		_, errAside := os.Stat(filepath.Join(dir, name+setAside))
		if os.IsNotExist(err) != aside || os.IsNotExist(errAside) == aside {
			t.Errorf("%s: set aside: %v, %v", name, err, errAside)
		}
	}
}
