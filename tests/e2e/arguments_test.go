package e2e

import (
	"os"
	"strings"
	"testing"
)

// Every argument that is passed through to upstream is looked at before anything starts:
// a mistake ends the start, and names the flag that it came by.
func TestBadArgumentsEndTheStart(t *testing.T) {
	t.Parallel()
	h := newHost(t, "arguments")
	for _, arg := range []string{
		"--kube-apiserver-arg=feature-gates=Unknown=true",
		"--kube-apiserver-arg=emulated-version=1.20",
		"--kube-apiserver-arg=authorization-mode=Unknown",
		"--kube-apiserver-arg=enable-admission-plugins=Unknown",
		"--kube-apiserver-arg=authentication-config=/nowhere",
		"--kube-apiserver-arg=authorization-config=/nowhere",
		"--kube-apiserver-arg=audit-policy-file=/nowhere",
		"--kube-apiserver-arg=service-account-max-token-expiration=1s",
		"--kube-controller-manager-arg=feature-gates=Unknown=true",
		"--kube-controller-manager-arg=controllers=unknown",
		"--kube-scheduler-arg=feature-gates=Unknown=true",
		"--kube-scheduler-arg=config=/nowhere",
		"--kubelet-arg=feature-gates=Unknown=true",
		"--kubelet-arg=eviction-soft=memory.available<100Mi",
		"--kube-proxy-arg=feature-gates=Unknown=true",
		"--kube-proxy-arg=nodeport-addresses=here",
		"--etcd-arg=election-timeout=1",
	} {
		r := command(t, h, "server", arg)
		flag, _, _ := strings.Cut(arg, "=")
		lines := strings.Split(strings.TrimSpace(r.Stderr), "\n")
		last := lines[len(lines)-1]
		if r.ExitCode != 1 || !strings.HasPrefix(last, "a4s: "+flag) {
			t.Errorf("a4s server %s: exit code %d: %s", arg, r.ExitCode, last)
		}
	}
	for _, dir := range []string{"/server/db/etcd/member", "/agent/containerd"} {
		if _, err := os.Stat(h.Path(dataDir + dir)); !os.IsNotExist(err) {
			t.Errorf("something was started: %s is there (%v)", dir, err)
		}
	}
}
