package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// partitionVolume is the volume of a claim in a namespace of a partition, on a node.
type partitionVolume struct {
	*cluster           // the space, through the server of some partition
	whose, ns, on, pod string
	claimed            string
	volume             *corev1.PersistentVolume
}

// testVolumes: claims of equal names in the spaces of all partitions, on the nodes of all.
func (p *partitionPods) testVolumes(t *testing.T) {
	at := map[string]*hosts.Host{}
	for _, n := range []*node{p.worker, &p.tp2.node} {
		at[n.host.Name] = n.host
	}
	var all []*partitionVolume
	for of, c := range p.of {
		for _, node := range p.nodes() {
			name := "data-" + node
			all = append(all, &partitionVolume{cluster: c, whose: "the system of " + of, ns: "kube-system", on: node,
				pod: "keeps-" + node, claimed: name})
			// Through the server of the other partition.
			for other, by := range p.of {
				if other != of {
					own := *by
					own.client = by.inSpace(t, "of-"+of)
					all = append(all, &partitionVolume{cluster: &own, whose: "tenant of-" + of, ns: "default",
						on: node, pod: "keeps-" + node, claimed: name})
				}
			}
		}
	}
	run := func(script func(*partitionVolume) string) {
		t.Helper()
		for _, v := range all {
			pod := shellPod(v.pod, script(v), v.claimed)
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: v.on}
			v.createPod(t, v.ns, pod)
		}
		for _, v := range all {
			v.waitPod(t, v.ns, v.pod, "of "+v.whose+" has ended", func(p *corev1.Pod) bool {
				return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			})
		}
	}
	remove := func() {
		t.Helper()
		for _, v := range all {
			if err := v.client.CoreV1().Pods(v.ns).Delete(t.Context(), v.pod, metav1.DeleteOptions{}); err != nil &&
				!apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		for _, v := range all {
			v.gone(t, v.ns, v.pod)
		}
	}
	for _, v := range all {
		v.claim(t, v.ns, v.claimed)
	}
	run(func(v *partitionVolume) string { return "echo " + v.whose + " > /data/word" })
	paths := map[string]string{}
	for _, v := range all {
		v.volume = v.volumeOf(t, v.ns, v.claimed)
		path := v.volume.Spec.Local.Path
		word, err := os.ReadFile(filepath.Join(at[v.on].Path(path), "word"))
		if err != nil || string(word) != v.whose+"\n" {
			t.Errorf("the directory of %s on %s has %q: %v", v.whose, v.on, word, err)
		}
		if whose, taken := paths[v.on+path]; taken {
			t.Errorf("%s and %s have the directory %s of %s", whose, v.whose, path, v.on)
		}
		paths[v.on+path] = v.whose
		for other := range at {
			if _, err := os.Lstat(at[other].Path(path)); other != v.on && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s also has the directory of %s on %s: %v", other, v.whose, v.on, err)
			}
		}
	}
	remove()
	run(func(*partitionVolume) string { return "/bin/busybox cat /data/word" })
	for _, v := range all {
		if out := strings.TrimSpace(v.logs(t, v.ns, v.pod)); out != v.whose {
			t.Errorf("the next pod of %s on %s reads %q", v.whose, v.on, out)
		}
	}
	remove()
	// Those of home go first: the others have what they had.
	for _, home := range []bool{true, false} {
		for _, v := range all {
			if strings.HasSuffix(v.whose, "main") == home {
				if err := v.client.CoreV1().PersistentVolumeClaims(v.ns).
					Delete(t.Context(), v.claimed, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, v := range all {
			if strings.HasSuffix(v.whose, "main") == home {
				v.waitVolumeGone(t, v.volume, at[v.on])
			} else if _, err := os.Lstat(at[v.on].Path(v.volume.Spec.Local.Path)); home && err != nil {
				t.Errorf("the directory of %s went with another one: %v", v.whose, err)
			}
		}
	}
}
