package e2e

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/a4s-io/a4s/tests/hosts"
)

// wall is two nodes with a hostile tenant and its victim.
type wall struct {
	system, hostile, victim *cluster
	worker                  *node
}

// TestWallHostilePods: what pods of a hostile tenant try against the nodes and
// against another tenant's pods. Nothing runs at the same time: who gets which
// address matters.
func TestWallHostilePods(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "wall-server")
	c.waitOwnNode(t)
	worker := newAgent(t, "wall-worker", c)
	c.waitNodeReady(t, worker.host.Name, worker.started)
	w := &wall{system: c, worker: worker, hostile: c.makeTenant(t, "hostile"), victim: c.makeTenant(t, "victim")}
	t.Run("V14SpoofedVXLAN", w.spoofedVXLAN)
	t.Run("V10NetworkDisks", w.networkDisks)
	t.Run("V12AddressUsedAgain", w.addressUsedAgain)
	t.Run("DefaultsOfPods", w.defaultsOfPods)
	t.Run("HostFiles", w.hostFiles)
}

// nodePorts is a Service of the hostile tenant that leads to what the tenant
// says; nil if the address is refused.
func (w *wall) nodePorts(t *testing.T, name, address string, protocol corev1.Protocol, port int32) *corev1.Service {
	t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Type:  corev1.ServiceTypeNodePort,
		Ports: []corev1.ServicePort{{Protocol: protocol, Port: 80, TargetPort: intstr.FromInt32(port)}},
	}}
	s = w.hostile.createService(t, "default", s)
	endpoints := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Protocol: &protocol, Port: &port}},
	}
	switch _, err := w.hostile.client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), endpoints,
		metav1.CreateOptions{}); {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return s
}

// encapsulated is a packet of the tunnel with a datagram in it, as hexadecimal.
func encapsulated(mac net.HardwareAddr, from, to netip.Addr, port uint16, payload string) string {
	ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+8+len(payload)))
	ip = append(append(ip, from.AsSlice()...), to.AsSlice()...)
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
	packet := []byte{8, 0, 0, 0, 0, 0, 1, 0} // the network 1
	packet = append(append(packet, mac...), 2, 0, 0, 0, 0, 1, 8, 0)
	packet = append(packet, ip...)
	packet = binary.BigEndian.AppendUint16(packet, port)
	packet = binary.BigEndian.AppendUint16(packet, port)
	packet = binary.BigEndian.AppendUint16(packet, uint16(8+len(payload)))
	return hex.EncodeToString(append(append(packet, 0, 0), payload...))
}

func (w *wall) spoofedVXLAN(t *testing.T) {
	const port = 9999
	type place struct {
		node, address, victim string
		mac                   net.HardwareAddr
		first                 netip.Addr // of the pods' range: the node's own
	}
	places := map[string]*place{}
	for _, n := range []*node{&w.system.node, w.worker} {
		object, err := w.system.client.CoreV1().Nodes().Get(t.Context(), n.host.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var data struct{ VtepMAC string }
		if err := json.Unmarshal([]byte(object.Annotations["flannel.alpha.coreos.com/backend-data"]),
			&data); err != nil {
			t.Fatal(err)
		}
		p := &place{node: n.host.Name, address: n.host.IP.String(),
			first: netip.MustParsePrefix(object.Spec.PodCIDR).Addr()}
		if p.mac, err = net.ParseMAC(data.VtepMAC); err != nil {
			t.Fatal(err)
		}
		pod := w.victim.runPod(t, "default",
			on(p.node, testboxPod("listens-"+p.node, "listen", ":"+strconv.Itoa(port))))
		p.victim = pod.Status.PodIP
		places[p.node] = p
	}
	here, there := places[w.system.host.Name], places[w.worker.host.Name]
	w.hostile.runPod(t, "default", on(here.node, testboxPod("spoofs")))
	heard := func(p *place) string { return w.victim.logs(t, "default", "listens-"+p.node) }
	spoof := func(to string, at, other *place, payload string) {
		t.Helper()
		packet := encapsulated(at.mac, other.first, netip.MustParseAddr(at.victim), port, payload)
		if _, err := w.hostile.exec(t.Context(), "default", "spoofs", "", "/testbox", "send", to, packet); err != nil {
			t.Fatal(err)
		}
	}
	paths := []struct {
		name, to  string
		at, other *place
	}{
		{"own-node", here.address + ":8472", here, there},
		{"other-node", there.address + ":8472", there, here},
	}
	// A NodePort of the node, and one of the other, whose traffic has an address
	// of a node in the end.
	for name, at := range map[string]*place{"service-own": here, "service-other": there} {
		other := map[*place]*place{here: there, there: here}[at]
		if s := w.nodePorts(t, name, at.address, corev1.ProtocolUDP, 8472); s != nil {
			number := strconv.Itoa(int(s.Spec.Ports[0].NodePort))
			for _, through := range []*place{here, there} {
				paths = append(paths, struct {
					name, to  string
					at, other *place
				}{name + "-by-" + through.node, net.JoinHostPort(through.address, number), at, other})
			}
		}
	}
	for _, p := range paths {
		for range 3 {
			spoof(p.to, p.at, p.other, "spoofed-"+p.name)
		}
	}
	// What a node sends comes later, and arrives.
	for _, p := range places {
		run(t, w.system.host, env.testbox, "send", net.JoinHostPort(p.victim, strconv.Itoa(port)),
			hex.EncodeToString([]byte("honest")))
		hosts.Until(t, soon, "what a node sends arrives at "+p.node, func(context.Context) error {
			if out := heard(p); !strings.Contains(out, "honest") {
				return errors.New(out)
			}
			return nil
		})
		if out := heard(p); strings.Contains(out, "spoofed") {
			t.Errorf("the victim on %s gets what was forged:\n%s", p.node, out)
		}
	}

	// Without the rules it would have arrived.
	for _, p := range paths[:2] {
		hosts.Until(t, soon, "without the rules forged packets arrive: "+p.name, func(ctx context.Context) error {
			for _, h := range []*hosts.Host{w.system.host, w.worker.host} {
				if _, err := h.Run(ctx, "nft", "delete", "table", "inet", "a4s_tunnel"); err != nil {
					return err
				}
			}
			spoof(p.to, p.at, p.other, "open-"+p.name)
			if out := heard(p.at); !strings.Contains(out, "open-"+p.name) {
				return errors.New(out)
			}
			return nil
		})
	}
	for _, h := range []*hosts.Host{w.system.host, w.worker.host} {
		hosts.Until(t, soon, "the rules come back on "+h.Name, func(ctx context.Context) error {
			r, err := h.Run(ctx, "nft", "list", "table", "inet", "a4s_tunnel")
			if err == nil &&
				(!strings.Contains(r.Stdout, here.address) || !strings.Contains(r.Stdout, there.address)) {
				err = fmt.Errorf("not both nodes are in them: %s%s", r.Stdout, r.Stderr)
			}
			return err
		})
	}
}

func (w *wall) networkDisks(t *testing.T) {
	for name, source := range map[string]corev1.VolumeSource{
		"fc": {FC: &corev1.FCVolumeSource{WWIDs: []string{"3600508b400105e210000900000490000"}}},
		"iscsi": {ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7:3260",
			IQN: "iqn.2001-04.com.example:storage", Lun: 0}},
		"nfs":        {NFS: &corev1.NFSVolumeSource{Server: "192.0.2.7", Path: "/"}},
		"flexVolume": {FlexVolume: &corev1.FlexVolumeSource{Driver: "example.com/any"}},
		"rbd":        {RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"192.0.2.7"}, RBDImage: "any"}},
	} {
		pod := testboxPod("disk-" + strings.ToLower(name))
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		if _, err := w.hostile.client.CoreV1().Pods("default").Create(t.Context(), pod,
			metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a pod with %s: %v, want that it is forbidden", name, err)
		}
	}
}

func (w *wall) addressUsedAgain(t *testing.T) {
	had := w.hostile.runPod(t, "default", on(w.system.host.Name, testboxPod("had"))).Status.PodIP
	s := w.nodePorts(t, "had", had, corev1.ProtocolTCP, 8080)
	if s == nil {
		t.Fatal("the address of an own pod is refused")
	}
	url := "http://" +
		net.JoinHostPort(w.system.host.IP.String(), strconv.Itoa(int(s.Spec.Ports[0].NodePort))) + "/hostname"
	asked := func(ctx context.Context) (string, error) {
		r, err := w.worker.host.Run(ctx, env.testbox, "get", url)
		return strings.TrimSpace(r.Stdout), err
	}
	hosts.Until(t, soon, "the Service leads to the pod", func(ctx context.Context) error {
		if got, err := asked(ctx); err != nil || got != "had" {
			return fmt.Errorf("%q, %v", got, err)
		}
		return nil
	})
	w.hostile.removed(t, "default", "had")
	run(t, w.system.host, "ip", "neigh", "flush", "dev", "cni-a4s0") // the node remembers whose the address was
	hosts.Until(t, soon, "the endpoint goes with the pod", func(ctx context.Context) error {
		slice, err := w.hostile.client.DiscoveryV1().EndpointSlices("default").Get(ctx, "had", metav1.GetOptions{})
		if err == nil && len(slice.Endpoints) > 0 {
			err = fmt.Errorf("it is there: %v", slice.Endpoints)
		}
		return err
	})

	// Nodes go round in their range; here the next in turn is that address.
	before := netip.MustParseAddr(had).Prev().String()
	if err := w.system.host.WriteFile(dataDir+"/agent/cni-ipam/a4s/last_reserved_ip.0", before); err != nil {
		t.Fatal(err)
	}
	hidden := w.victim.runPod(t, "default", on(w.system.host.Name, testboxPod("hidden")))
	if hidden.Status.PodIP != had {
		t.Fatalf("the victim's pod has %s, it was to have %s", hidden.Status.PodIP, had)
	}
	if got, err := asked(t.Context()); err != nil || got != "" {
		t.Errorf("the NodePort of the hostile tenant leads to %q, %v", got, err)
	}
	if w.nodePorts(t, "again", had, corev1.ProtocolTCP, 8080) != nil {
		t.Error("endpoints at the pod of the victim are let in")
	}
}

func (w *wall) defaultsOfPods(t *testing.T) {
	pod := w.hostile.runPod(t, "default", on(w.system.host.Name, testboxPod("plain")))
	status, err := w.hostile.ask(t.Context(), "default", "plain", "/file", "path", "/proc/self/status")
	if err != nil || !strings.Contains(status, "Seccomp:\t2\n") {
		t.Errorf("system calls are not filtered (%v):\n%s", err, status)
	}

	// The kubelet of the node knows the pod by the name of all the cluster.
	uid := string(pod.UID)
	limits := map[string]string{}
	root := w.system.host.Path("/sys/fs/cgroup")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil // a cgroup that went
			}
			return err
		}
		if !d.IsDir() || !strings.Contains(d.Name(), "pod"+uid) && !strings.Contains(d.Name(),
			"pod"+strings.ReplaceAll(uid, "-", "_")) {
			return nil
		}
		if b, err := os.ReadFile(filepath.Join(path, "pids.max")); err == nil {
			limits[strings.TrimPrefix(path, root)] = strings.TrimSpace(string(b))
		}
		return fs.SkipDir
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(limits) == 0 {
		t.Error("no cgroup of the pod limits its processes")
	}
	for path, limit := range limits {
		if limit != "4096" {
			t.Errorf("%s: the pod may have %s processes, want 4096", path, limit)
		}
	}

	caps, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.system.proc.PID()))
	if err != nil {
		t.Fatal(err)
	}
	const mayLower = 24 // CAP_SYS_RESOURCE
	for line := range strings.Lines(string(caps)) {
		if set, ok := strings.CutPrefix(line, "CapEff:"); ok {
			if mask, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64); err != nil || mask&(1<<mayLower) == 0 {
				t.Logf("a4s may not lower its OOM score here: %s, %v", line, err)
				return
			}
		}
	}
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", w.system.proc.PID()))
	if err != nil || strings.TrimSpace(string(score)) != "-999" {
		t.Errorf("the OOM score of the kubelet's process is adjusted by %q, %v, want -999", score, err)
	}
}

// hostFiles: a policy of the tenant makes of a volume that the cluster provides
// one of the node's root directory.
func (w *wall) hostFiles(t *testing.T) {
	const file = "/run/hostile-policies.yaml"
	if err := w.system.host.WriteFile(file, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: root}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [persistentvolumes]}]}
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{local: Object.spec.local{path: '/'}}}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: root}
spec: {policyName: root}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: seen}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'seen': 'yes'}}}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: seen}
spec: {policyName: seen}
`); err != nil {
		t.Fatal(err)
	}
	w.hostile.must(t, "kubectl", "apply", "-f", file)
	hosts.Until(t, soon, "the policies work", func(ctx context.Context) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}
		got, err := w.hostile.client.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{})
		if err == nil && got.Labels["seen"] == "" {
			err = errors.New("a ConfigMap is as it was written")
		}
		return err
	})
	w.hostile.claim(t, "default", "root")
	pod := on(w.system.host.Name, shellPod("reads", "echo mine > /data/mine; ls /data", "root"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	w.hostile.createPod(t, "default", pod)
	hosts.Until(t, podTimeout, "the volume is refused, or that of the claim", func(ctx context.Context) error {
		p, err := w.hostile.client.CoreV1().Pods("default").Get(ctx, "reads", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			if out := w.hostile.logs(t, "default", "reads"); strings.TrimSpace(out) != "mine" {
				t.Errorf("the pod sees more than its own directory:\n%s", out)
			}
			return nil
		}
		events, err := w.hostile.client.CoreV1().Events("default").List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=root,reason=ProvisioningFailed"})
		if err == nil && len(events.Items) == 0 {
			err = fmt.Errorf("the pod is %s", p.Status.Phase)
		}
		return err
	})
	volumes, err := w.system.client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes.Items {
		if v.Spec.Local != nil && filepath.Dir(v.Spec.Local.Path) != dataDir+"/storage" {
			t.Errorf("there is a volume of %s", v.Spec.Local.Path)
		}
	}
}
