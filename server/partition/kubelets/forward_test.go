package kubelets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// kubelet forwards port 80 of a pod to a server that says each line twice, and
// connects to nothing at other ports.
type kubelet struct {
	*httptest.Server
	node  *corev1.Node
	paths chan string
	ended chan struct{} // one for each session
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	k := &kubelet{paths: make(chan string, 10), ended: make(chan struct{}, 10)}
	k.Server = httptest.NewTLSServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.Close)
	host, port, err := net.SplitHostPort(k.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	k.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n.invalid"},
			{Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(n)}}}}
	return k
}

func (k *kubelet) serve(w http.ResponseWriter, req *http.Request) {
	k.paths <- req.Method + " " + req.URL.Path
	if strings.Contains(req.URL.Path, "/gone/") {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(req, w, []string{protocol}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	session := spdy.NewResponseUpgrader().UpgradeResponse(w, req,
		func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
	if session == nil {
		return
	}
	defer session.Close()
	failures, data := <-streams, <-streams
	if port := data.Headers().Get(corev1.PortHeader); port != "80" {
		fmt.Fprintf(failures, "connect: connection refused at %s", port)
		_ = failures.Close()
		_ = data.Close()
		<-session.CloseChan()
		k.ended <- struct{}{}
		return
	}
	go func() {
		for r := bufio.NewReader(data); ; {
			line, err := r.ReadString('\n')
			if err != nil || line == "bye\n" {
				_ = data.Close()
				_ = failures.Close()
				return
			}
			fmt.Fprint(data, line, line)
		}
	}()
	<-session.CloseChan()
	k.ended <- struct{}{}
}

// TestConnect: a connection goes through the kubelet to the pod of this UID, and ends
// on both sides when it is closed on one.
func TestConnect(t *testing.T) {
	k := newKubelet(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t1", Name: "web", UID: "uid-1"}}
	system := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "web", UID: "uid-2"}}
	for _, c := range []struct {
		partition, path string
		pod             *corev1.Pod
	}{
		{"", "POST /portForward/default.t1/web/uid-1", pod},
		{"tp2", "POST /portForward/default.t1/web/uid-1", pod},
		{"", "POST /portForward/kube-system/web/uid-2", system},
		{"tp2", "POST /portForward/kube-system.tp2.system/web/uid-2", system},
	} {
		f := &Forwarder{Kubelet: rest.TLSClientConfig{Insecure: true}, Partition: c.partition}
		ctx, cancel := context.WithCancel(t.Context())
		conn, asked, err := f.Connect(ctx, k.node, c.pod, "80")
		if err != nil || !asked {
			t.Fatal(asked, err)
		}
		cancel() // it is for beginning alone
		if got := <-k.paths; got != c.path {
			t.Errorf("asked for %q, not %q", got, c.path)
		}
		r := bufio.NewReader(conn)
		for _, line := range []string{"one\n", strings.Repeat("x", 100_000) + "\n"} {
			if _, err := io.WriteString(conn, line); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got, err := r.ReadString('\n'); got != line || err != nil {
					t.Fatalf("%d bytes came back: %v", len(got), err)
				}
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after its time: %v", err)
		}
		if c.partition == "" {
			if err := conn.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
			<-k.ended
			continue
		}
		if err := conn.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "bye\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the pod has closed: %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		<-k.ended
	}

	f := &Forwarder{Kubelet: rest.TLSClientConfig{Insecure: true}}
	conn, asked, err := f.Connect(t.Context(), k.node, pod, "81")
	if err != nil || !asked {
		t.Fatal(asked, err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, ErrUnreached) ||
		!strings.Contains(err.Error(), "refused at 81") {
		t.Errorf("nobody listens: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	<-k.ended
	gone := pod.DeepCopy()
	gone.Name = "gone"
	if _, asked, err := f.Connect(t.Context(), k.node, gone, "80"); err == nil || !asked {
		t.Errorf("a pod that is gone: %t, %v", asked, err)
	}
	k.Close()
	for what, node := range map[string]*corev1.Node{"without an address": {}, "that is down": k.node} {
		if _, asked, err := f.Connect(t.Context(), node, pod, "80"); err == nil || asked {
			t.Errorf("a node %s: %t, %v", what, asked, err)
		}
	}
}

// TestConnectToASilentNode: whoever asks waits no longer than they want.
func TestConnectToASilentNode(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	node := &corev1.Node{Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}}}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 2 { // the second is not only looked for
			conn, err := listener.Accept()
			if err == nil {
				defer conn.Close()
			}
		}
		cancel()
		<-t.Context().Done()
	}()
	f := &Forwarder{Kubelet: rest.TLSClientConfig{Insecure: true}}
	if _, asked, err := f.Connect(ctx, node, &corev1.Pod{}, "80"); !errors.Is(err, context.Canceled) || !asked {
		t.Errorf("got %t, %v", asked, err)
	}
}
