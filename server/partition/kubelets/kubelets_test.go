package kubelets

import (
	"context"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubelet/client"
	podstrategy "k8s.io/kubernetes/pkg/registry/core/pod"
	podrest "k8s.io/kubernetes/pkg/registry/core/pod/rest"
)

// store has one pod.
type store struct{ pod *core.Pod }

func (s store) Get(context.Context, string, *metav1.GetOptions) (runtime.Object, error) {
	return s.pod, nil
}

// node is a kubelet that takes down what it is asked for.
type node struct{ asked *string }

func (n node) GetConnectionInfo(context.Context, types.NodeName) (*client.ConnectionInfo, error) {
	return &client.ConnectionInfo{Scheme: "https", Hostname: "n", Port: "1", Transport: n}, nil
}

func (n node) RoundTrip(r *http.Request) (*http.Response, error) {
	*n.asked = r.URL.Path
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestQualify: kubelets are asked for the pods of the system space by qualified names, and for
// those of tenants by theirs.
func TestQualify(t *testing.T) {
	for _, tc := range []struct{ partition, namespace, want string }{
		{"tp2", "kube-system", "kube-system.tp2.system"},
		{"tp2", "default.t1", "default.t1"},
		{"", "kube-system", "kube-system"},
	} {
		var asked string
		pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "p"},
			Spec: core.PodSpec{NodeName: "n", Containers: []core.Container{{Name: "c"}}}}
		v1 := map[string]rest.Storage{
			"pods/exec":        &podrest.ExecREST{Store: store{pod}, KubeletConn: node{&asked}},
			"pods/attach":      &podrest.AttachREST{Store: store{pod}, KubeletConn: node{&asked}},
			"pods/portforward": &podrest.PortForwardREST{Store: store{pod}, KubeletConn: node{&asked}},
			"pods/log":         &podrest.LogREST{KubeletConn: node{&asked}},
		}
		if err := Qualify(tc.partition, v1); err != nil {
			t.Fatal(err)
		}
		exec := v1["pods/exec"].(*podrest.ExecREST)
		at, _, err := podstrategy.ExecLocation(t.Context(), exec.Store, exec.KubeletConn, "p", &core.PodExecOptions{})
		if want := "/exec/" + tc.want + "/p/c"; err != nil || at.Path != want {
			t.Errorf("exec is at %v, not %s: %v", at, want, err)
		}
		attach := v1["pods/attach"].(*podrest.AttachREST)
		at, _, err = podstrategy.AttachLocation(t.Context(), attach.Store, attach.KubeletConn, "p",
			&core.PodAttachOptions{})
		if want := "/attach/" + tc.want + "/p/c"; err != nil || at.Path != want {
			t.Errorf("attach is at %v, not %s: %v", at, want, err)
		}
		forward := v1["pods/portforward"].(*podrest.PortForwardREST)
		at, _, err = podstrategy.PortForwardLocation(t.Context(), forward.Store, forward.KubeletConn, "p",
			&core.PodPortForwardOptions{})
		if want := "/portForward/" + tc.want + "/p"; err != nil || at.Path != want {
			t.Errorf("port-forward is at %v, not %s: %v", at, want, err)
		}
		info, err := v1["pods/log"].(*podrest.LogREST).KubeletConn.GetConnectionInfo(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(http.MethodGet, "https://n:1/containerLogs/"+tc.namespace+"/p/c?follow=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := info.Transport.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
		if want := "/containerLogs/" + tc.want + "/p/c"; asked != want {
			t.Errorf("logs are at %s, not %s", asked, want)
		}
		if pod.Namespace != tc.namespace {
			t.Error("the pod in the storage was changed")
		}
	}
	if err := Qualify("tp2", map[string]rest.Storage{}); err == nil {
		t.Error("another storage than expected passes")
	}
}
