package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"github.com/a4s-io/a4s/agent/kubelet/settings"
)

// setAside is what the name of a state of the kubelet that it cannot read ends in.
const setAside = ".set-aside"

// policyStates are states of the kubelet that are of one policy, which refuses to
// start with those of another. Upstream's documents say to remove them.
func policyStates(server *options.KubeletServer) map[string]string {
	return map[string]string{
		"cpu_manager_state":    server.CPUManagerPolicy,
		"memory_manager_state": server.MemoryManagerPolicy,
	}
}

// setAsideStates renames the states that would end the kubelet, and the process with
// it: those that a power cut left empty or half written, and those of another policy.
func (o Options) setAsideStates(server *options.KubeletServer) error {
	dir := settings.RootDir(o.DataDir)
	states, err := filepath.Glob(filepath.Join(dir, "*_state"))
	if err != nil {
		return fmt.Errorf("looking for states of the kubelet: %w", err)
	}
	policies := policyStates(server)
	for _, file := range states {
		why, err := unusable(file, policies[filepath.Base(file)])
		if err != nil {
			return fmt.Errorf("reading a state of the kubelet: %w", err)
		}
		if why == "" {
			continue
		}
		if err := os.Rename(file, file+setAside); err != nil {
			return fmt.Errorf("setting a state of the kubelet aside: %w", err)
		}
		o.Log.Warnf("Set %s aside as %s, because %s: the kubelet begins a new one. Pods that had processors or "+
			"memory of their own get them again when they are started again", file, filepath.Base(file)+setAside, why)
	}
	return nil
}

// unusable says why the kubelet would refuse a state; policy is "" if any is right.
func unusable(file, policy string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var state struct {
		PolicyName string `json:"policyName"`
	}
	if len(text) == 0 {
		return "it is empty", nil
	}
	if json.Unmarshal(text, &state) != nil {
		return "it is not whole", nil
	}
	if policy != "" && state.PolicyName != "" && state.PolicyName != policy {
		return fmt.Sprintf("it is of the policy %s, and the kubelet has %s now", state.PolicyName, policy), nil
	}
	return "", nil
}
