package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/tests/hosts"
)

// fillTo leaves that many MiB of a disk free.
func fillTo(t *testing.T, h *hosts.Host, dir, name string, leave uint64) {
	t.Helper()
	var disk unix.Statfs_t
	if err := unix.Statfs(h.Path(dir), &disk); err != nil {
		t.Fatal(err)
	}
	free := disk.Bavail * uint64(disk.Bsize) >> 20
	if free <= leave {
		t.Fatalf("%d MiB are free, and %d are to be left", free, leave)
	}
	run(t, h, "dd", "if=/dev/zero", "of="+dir+"/ballast-"+name, "bs=1M",
		"count="+strconv.FormatUint(free-leave, 10))
}

func TestRunbookDiskFull(t *testing.T) {
	b := openRunbook(t, "A disk is full")
	const doctor, snapshots = "a4s doctor", "a4s etcd-snapshot list"
	const full = "ERROR The disk of the data directory is full (/var/lib/a4s): 90 MiB of 40000 MiB are free"
	const almost = "The disk of the data directory is almost full"
	h := newHost(t, "rb-disk")
	c, _, _ := newServerOnItsDisk(t, h)
	f := &fixture{c: c, ns: c.namespace(t)}
	c.runPod(t, f.ns, on(h.Name, testboxPod("stays")))
	scheduled := func() int { return strings.Count(b.must(h, snapshots), "etcd-snapshot-"+h.Name) }
	hosts.Until(t, soon, "there are snapshots", func(context.Context) error {
		c.must(t, "etcd-snapshot", "save", "--name", "etcd-snapshot")
		if n := scheduled(); n < 2 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	path := strings.TrimSpace(c.must(t, "etcd-snapshot", "save"))
	byHand := path[strings.LastIndexByte(path, '/')+1:]
	for _, kept := range []string{"server-before-restore-1", "server-tls-before-rotation-1"} {
		run(t, h, "mkdir", dataDir+"/"+kept)
	}

	fillTo(t, h, dataDir, "first", 150)
	b.until(h, doctor, almost)
	fillTo(t, h, dataDir, "second", 90)
	b.until(h, doctor, full)
	if out := b.must(h, "du -xsh /var/lib/a4s/* /var/lib/a4s/agent/* /var/log/* 2>/dev/null | sort -h | "+
		"tail"); !strings.Contains(out, dataDir+"/ballast-first") {
		t.Errorf("it does not show what takes the room:\n%s", out)
	}
	b.must(h, "ls -d /var/lib/a4s/server-before-restore-* /var/lib/a4s/server-tls-before-rotation-*")
	b.must(h, "a4s etcd-snapshot prune --name etcd-snapshot --etcd-snapshot-retention 1")
	b.must(h, "a4s etcd-snapshot delete NAME", "NAME", byHand)
	if out := b.must(h, snapshots); scheduled() != 1 || strings.Contains(out, byHand) {
		t.Errorf("what is left is\n%s", out)
	}
	const images = "a4s ctr images ls"
	if out := b.must(h, images); !strings.Contains(out, busyboxImage) {
		t.Fatalf("the images are\n%s", out)
	}
	b.must(h, "a4s ctr images rm NAME", "NAME", busyboxImage)
	if out := b.must(h, images); strings.Contains(out, busyboxImage) {
		t.Errorf("the image is there:\n%s", out)
	}
	run(t, h, "sh", "-c", "rm "+dataDir+"/ballast-*")
	b.gone(h, doctor, full)
	hosts.Until(t, runbookTimeout, "an Event says so", func(ctx context.Context) error {
		const reason = "DiskFullSolved"
		list, err := c.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errors.New("there is none")
		}
		return b.shown(reason, list.Items[0].Reason)
	})

	free := fillUp(t, h, dataDir)
	f.writeUntilEnd(t, "no space left on device")
	b.sees("no space left on device", lastWord(c.proc, 5))
	f.podsAnswer(t)
	free()
	b.instead("systemctl start a4s")
	c.restart(t)
	c.waitOwnNode(t)
	b.gone(h, doctor, full, almost)
}

func TestRunbookDatastoreFull(t *testing.T) {
	b := openRunbook(t, "The datastore is full")
	const doctor = "a4s doctor"
	const full = "ERROR The datastore is full: it takes no more writes: 4096 of 4096 MiB, of which 3900 MiB hold " +
		"something"
	const almost = "The datastore is almost full"
	const config, setting = "/etc/a4s/config.yaml", "etcd-arg:\n- quota-backend-bytes="
	h := newHost(t, "rb-store")
	if err := h.WriteFile(config, setting+strconv.Itoa(96<<20)+"\n"); err != nil {
		t.Fatal(err)
	}
	c, err := newServer(h, "--disable-agent")
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	own := c.makeTenant(t, "team-a")
	// fill writes so many objects, or until one is refused, and says why it was.
	value, written := strings.Repeat("x", 900<<10), 0
	fill := func(client kubernetes.Interface, most int) error {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		for range most {
			written++
			// What is refused is not tried again.
			if err := client.CoreV1().RESTClient().Post().Namespace("default").Resource("configmaps").MaxRetries(0).
				Body(configMap(fmt.Sprint("filler-", written), value)).Do(ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	}
	writes := func() {
		t.Helper()
		hosts.Until(t, runbookTimeout, "writes work", func(ctx context.Context) error {
			written++
			_, err := c.client.CoreV1().ConfigMaps("default").
				Create(ctx, configMap(fmt.Sprint("small-", written), "x"), metav1.CreateOptions{})
			return err
		})
	}

	const enough = 200 // for the whole datastore
	if err := fill(own.client, enough); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the tenant is told: %v", err)
	}
	ratio := regexp.MustCompile(`(?m)^a4s_datastore_used_ratio (.*)`)
	hosts.Until(t, runbookTimeout, "the doctor says that it is almost full", func(context.Context) error {
		if m := ratio.FindStringSubmatch(c.metrics(t, "/metrics")); m == nil || m[1] < "0.8" {
			return fmt.Errorf("of the quota it has %q, %v", m, fill(c.client, 1))
		}
		return b.shown(almost, b.run(h, doctor).Stdout)
	})
	// The system is not stopped, until nothing goes in. What holds nothing is given back first.
	holds := regexp.MustCompile(`of (\d+) MiB, of which (\d+) MiB hold something`)
	isFull := func() {
		t.Helper()
		hosts.Until(t, runbookTimeout, "it is full", func(context.Context) error {
			if err := fill(c.client, enough); err == nil || !strings.Contains(err.Error(), "space exceeded") {
				return fmt.Errorf("a write is told: %v", err)
			}
			out := b.run(h, doctor).Stdout
			m := holds.FindStringSubmatch(out)
			if m == nil {
				return errors.New(out)
			}
			quota, _ := strconv.Atoi(m[1])
			if inUse, _ := strconv.Atoi(m[2]); inUse*10 <= quota*9 {
				return fmt.Errorf("it comes back by itself: %s", m[0])
			}
			return b.shown(full, out)
		})
	}
	isFull()
	if out := b.must(h, "a4s kubectl get tenants -o "+
		`'custom-columns=NAME:.metadata.name,BYTES:.status.usage[?(@.name=="bytes")].used'`); !regexp.
		MustCompile(`team-a +[1-9]\d{7}`).MatchString(out) {
		t.Errorf("it does not say who has most: %s", out)
	}
	b.must(h, "a4s kubectl --tenant NAME delete ...", "NAME", "team-a", "...", "configmaps --all")
	b.gone(h, doctor, full)
	writes()

	// The other way out.
	isFull()
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	raised := "etcd-arg: - quota-backend-bytes=8589934592"
	b.sets(raised)
	if err := h.WriteFile(config, strings.Replace(raised, ": ", ":\n", 1)+"\n"); err != nil {
		t.Fatal(err)
	}
	c.restart(t)
	writes()
	b.gone(h, doctor, full, almost)
}

func TestRunbookCertificatesExpired(t *testing.T) {
	b := openRunbook(t, "Certificates have expired")
	const doctor, check = "a4s doctor", "a4s certificate check"
	const expired = "ERROR A certificate has expired (...): ..."
	const life = time.Minute
	c := newServerOfShortLives(t, "rb-certs", life, "--disable-agent")
	worker := newAgent(t, "rb-certs-node", c)
	c.waitNodeReady(t, worker.host.Name, worker.started)
	c.must(t, "tenant", "create", "team-a", "--output", "/run/before.yaml")
	ns := c.namespace(t)
	pod := c.runPod(t, ns, testboxPod("stays"))
	var instance string
	hosts.Until(t, soon, "the pod answers", func(ctx context.Context) (err error) {
		instance, err = c.ask(ctx, ns, "stays", "/instance") // the next one, if a certificate is renewed now
		return err
	})
	for _, p := range []*hosts.Process{c.proc, worker.proc} {
		if err := p.Stop(stopTimeout); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []*hosts.Host{c.host, worker.host} {
		b.until(h, check, "expired")
		b.until(h, doctor, expired)
	}

	b.must(c.host, "date")
	b.instead("systemctl restart a4s")
	c.args = []string{"server", "--disable-agent"}
	c.restart(t)
	token := strings.TrimSpace(b.run(c.host, "a4s token create").Stdout)
	b.instead("systemctl restart a4s-agent")
	worker.args = []string{"agent", "--server", c.url(), "--token", token}
	if err := worker.start(); err != nil {
		t.Fatal(err)
	}
	c.waitNodeReady(t, worker.host.Name, worker.started)
	c.waitAnswer(t, ns, "stays", instance, "/instance")
	if now, err := c.client.CoreV1().Pods(ns).Get(t.Context(), "stays", metav1.GetOptions{}); err != nil ||
		now.UID != pod.UID || restarted(now) {
		t.Errorf("the pod is another one: %+v, %v", now, err)
	}
	for _, h := range []*hosts.Host{c.host, worker.host} {
		out := b.must(h, check)
		b.sees("ok", out)
		for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
			if i > 0 && !strings.HasPrefix(line, "ok ") {
				t.Errorf("%s: %s", h.Name, line)
			}
		}
		b.gone(h, doctor, expired)
	}
	b.must(c.host, "a4s tenant kubeconfig NAME --output FILE", "NAME", "team-a", "FILE", "/run/after.yaml")
	c.must(t, "kubectl", "--kubeconfig", "/run/after.yaml", "--server", c.url(), "get", "configmaps")
}

// restarted reports whether a container of a pod was.
func restarted(p *corev1.Pod) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			return true
		}
	}
	return false
}
