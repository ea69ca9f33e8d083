package packetfilter

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/knftables"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/netpolicy"
)

func told(name, uid string, ingress ...string) netpolicy.Line {
	return netpolicy.Line{Pod: &netpolicy.Pod{Namespace: "default.t1", Name: name, UID: uid, Ingress: ingress}}
}

func rulesOf(p string) netpolicy.Line {
	return netpolicy.Line{Policy: &netpolicy.Policy{ID: p, Ingress: []netpolicy.Rule{{Peers: "s", AnyPort: true}}}}
}

func TestFollowsThePolicies(t *testing.T) {
	n := start(t, http.StatusOK, nil)
	n.tell(netpolicy.Line{Off: true})
	<-n.ready
	if got := n.dump(); !noPolicies(got) {
		t.Errorf("without policies there are rules of them:\n%s", got)
	}
	n.tell(peers("s", "10.42.1.5"), rulesOf("default.t1/p"), told("web", "u1", "default.t1/p"))
	web := "add element inet a4s_filter ingress-4 { 10.42.0.5 : goto i-pods-" + hash("default.t1/p") + " }"
	members := "add element inet a4s_filter set-" + hash("s") + "-4 "
	n.await("the pod is isolated", shows("judged-4 { 10.42.0.5 }", web, members+"{ 10.42.1.5 }"))

	// A pod is cut off until its name is told; another one of the same name is
	// another pod.
	n.attach("next", "u2", "10.42.0.6")
	n.tell(told("next", "u0"))
	n.attach("last", "u3", "10.42.0.7")
	n.tell(told("last", "u3"))
	n.await("the pod that was told is let go", shows("judged-4 { 10.42.0.7 }", "!judged-4 { 10.42.0.6 }"))
	n.tell(told("next", "u2"))
	n.await("and the other one", shows("judged-4 { 10.42.0.6 }"))

	// The next stream tells everything anew; until it did, the last state stays.
	n.lines <- nil
	first := peers("s", "10.42.1.6")
	n.lines <- &netpolicy.FilterLine{Policy: &first}
	if !shows(web, members+"{ 10.42.1.5 }")(n.dump()) {
		t.Errorf("half of what is told is in effect:\n%s", n.dump())
	}
	n.tell(rulesOf("default.t1/p"), told("web", "u1", "default.t1/p"),
		told("next", "u2", "default.t1/p"), told("last", "u3"))
	n.await("the new state", shows(web, "ingress-4 { 10.42.0.6 :", members+"{ 10.42.1.6 }", "!10.42.1.5"))
	n.tell(netpolicy.Line{Off: true})
	n.await("there are no rules of policies", noPolicies)
}

// Where no server answers, the rules of the run before are enough to start pods.
func TestPoliciesOfTheRunBefore(t *testing.T) {
	const left = "judged-4 { 10.42.0.9 }"
	n := start(t, http.StatusServiceUnavailable, func(n *node, f *filter) {
		f.hold = time.Hour
		s := policyState{known: newKnowledge(),
			owners: map[netip.Addr]localpods.Owner{addr("10.42.0.9"): {}}, now: time.Now()}
		part, _, _ := s.render()
		n.put(part)
	})
	<-n.ready
	if dump := n.dump(); !strings.Contains(dump, left) {
		t.Errorf("the table is\n%s", dump)
	}
}

func TestNodeStartsWithoutAServer(t *testing.T) {
	n := start(t, http.StatusServiceUnavailable, func(_ *node, f *filter) { f.hold = time.Millisecond })
	<-n.ready
	if got := n.dump(); !noPolicies(got) {
		t.Errorf("there are rules of policies:\n%s", got)
	}
}

func TestServerWithoutPolicies(t *testing.T) {
	n := start(t, http.StatusOK, nil)
	n.lines <- &netpolicy.FilterLine{NoPolicies: true}
	<-n.ready
	if got := n.dump(); !noPolicies(got) {
		t.Errorf("there are rules of policies:\n%s", got)
	}
}

func TestWhatIsNotEnforcedIsSaid(t *testing.T) {
	for name, change := range map[string]func(*node, *filter){
		"no nftables": func(_ *node, f *filter) {
			f.open = func(context.Context) (knftables.Interface, error) { return nil, errors.New("no such thing") }
		},
		"bridge": func(_ *node, f *filter) { f.bridge = func([]string) error { return errors.New("no such thing") } },
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, http.StatusOK, change)
			n.tell(netpolicy.Line{Off: true})
			<-n.ready
			if events, err := n.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{}); err != nil ||
				len(events.Items) != 0 {
				t.Errorf("without policies there are events: %v, %v", events, err)
			}
			n.tell(told("web", "u1"))
			n.await("there is an event", func(string) bool {
				events, err := n.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
				return err == nil && len(events.Items) == 1 && events.Items[0].InvolvedObject.Name == "n1" &&
					events.Items[0].Reason == Reason &&
					strings.Contains(events.Items[0].Message, "NOT enforced") &&
					strings.Contains(events.Items[0].Message, "no such thing")
			})
		})
	}
}

// A pod that the server does not speak of waits, longer if nobody speaks.
func TestPatience(t *testing.T) {
	began := time.Now()
	for _, tc := range []struct {
		name       string
		heard, now time.Duration
		judged     bool
	}{
		{"at once", 0, 0, false},
		{"a moment later", patience / 2, patience / 2, false},
		{"the server spoke", patience, patience, true},
		{"the server fell silent", patience / 2, forsaken - 1, false},
		{"for long", patience / 2, forsaken, true},
	} {
		a := addr("10.42.0.5")
		s := policyState{
			known:  newKnowledge(),
			owners: map[netip.Addr]localpods.Owner{a: {Namespace: "default", Name: "static", UID: "u"}},
			since:  map[netip.Addr]time.Time{a: began}, heard: began.Add(tc.heard), now: began.Add(tc.now),
		}
		table, unknown, again := s.render()
		if got := table.sets["judged-4"].elements[a.String()]; got != tc.judged || len(unknown) > 0 != tc.judged ||
			again == 0 != tc.judged {
			t.Errorf("%s: judged %v, unknown %v, again in %s", tc.name, got, unknown, again)
		}
	}
}
