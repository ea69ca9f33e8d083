package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

func TestPathsOfHosts(t *testing.T) {
	web, api := svc("default.t1/web", ":80"), svc("default.t1/api", ":80")
	for name, c := range map[string]struct {
		ingresses []*networkingv1.Ingress
		want      []string
	}{
		"exact and prefix": {
			one(rule("a.x", "Prefix /a web:80", "Exact /a api:80")),
			[]string{"a.x of t1: =/a>default.t1/api:80 /a>default.t1/web:80"},
		},
		"what the implementation decides is a prefix": {
			one(rule("a.x", "ImplementationSpecific /a web:80", "ImplementationSpecific  api:80")),
			[]string{"a.x of t1: /a>default.t1/web:80 />default.t1/api:80"},
		},
		"slashes at the end of a prefix say nothing": {
			one(rule("a.x", "Prefix /a/ web:80", "Prefix /a api:80", "Prefix / web:80",
				"ImplementationSpecific /// api:80")),
			[]string{"a.x of t1: /a>default.t1/web:80 />default.t1/web:80"},
		},
		"a slash at the end of an exact path counts": {
			one(rule("a.x", "Exact /a/ web:80", "Exact /a api:80")),
			[]string{"a.x of t1: =/a/>default.t1/web:80 =/a>default.t1/api:80"},
		},
		"the longer one is tried first, the exact one of two": {
			one(rule("a.x", "Prefix / web:80", "Prefix /b web:80", "Exact /a web:80", "Prefix /a web:80",
				"Prefix /a/b web:80", "Exact / web:80", "Exact /a/b/c web:80")),
			[]string{"a.x of t1: =/a/b/c>default.t1/web:80 /a/b>default.t1/web:80 =/a>default.t1/web:80" +
				" /a>default.t1/web:80 /b>default.t1/web:80 =/>default.t1/web:80 />default.t1/web:80"},
		},
		"the older one has what two say": {
			[]*networkingv1.Ingress{ing("default.t1/a", 1, rule("a.x", "Prefix /a web:80", "Prefix /b web:80")),
				ing("default.t1/b", 2, rule("a.x", "Prefix /a/ api:80"))},
			[]string{"a.x of t1: /a>default.t1/api:80 /b>default.t1/web:80"},
		},
		"of the same age, the first by its name": {
			[]*networkingv1.Ingress{ing("default.t1/b", 1, rule("a.x", "Prefix /a api:80")),
				ing("default.t1/a", 1, rule("a.x", "Prefix /a web:80"))},
			[]string{"a.x of t1: /a>default.t1/web:80"},
		},
		"namespaces of a tenant share a host": {
			[]*networkingv1.Ingress{ing("default.t1/a", 1, rule("a.x", "Prefix /a web:80")),
				ing("other.t1/a", 1, rule("a.x", "Prefix /b web:80"))},
			[]string{"a.x of t1: /a>default.t1/web:80 /b>other.t1/web:80"},
		},
		"a default backend alone is for every host": {
			one(otherwise("web:80")), []string{" of t1: />default.t1/web:80"},
		},
		"a default backend takes the rest of each host of its Ingress": {
			[]*networkingv1.Ingress{ing("default.t1/a", 1, rule("a.x", "Prefix /a web:80"), rule("b.x"),
				otherwise("api:80")),
				ing("default.t1/b", 1, rule("c.x", "Prefix /a web:80"))},
			[]string{"a.x of t1: /a>default.t1/web:80 />default.t1/api:80", "b.x of t1: />default.t1/api:80",
				"c.x of t1: /a>default.t1/web:80"},
		},
		"a rule for everything comes before the default backend": {
			one(otherwise("api:80"), rule("a.x", "Prefix / web:80")), []string{"a.x of t1: />default.t1/web:80"},
		},
		"a rule without paths and a default backend serves nothing": {one(rule("a.x")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{ingresses: c.ingresses, services: list(web, api, svc("other.t1/web", ":80"))}
			r := resolve(w.view("t1"))
			if got := r.show(); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if wrong := append(r.sound("t1"), r.said()...); len(wrong) > 0 {
				t.Error(wrong)
			}
			if len(c.want) == 0 && len(r.served) > 0 {
				t.Errorf("served are %v", r.served)
			}
		})
	}
}

// one is an Ingress of t1.
func one(changes ...change) []*networkingv1.Ingress { return list(ing("default.t1/a", 1, changes...)) }

func list[T any](all ...T) []T { return all }

func TestAPathWithoutATypeIsAPrefix(t *testing.T) {
	ingress := ing("default.t1/a", 1, rule("a.x", "Exact /a web:80"))
	ingress.Spec.Rules[0].HTTP.Paths[0].PathType = nil
	w := &world{ingresses: list(ingress), services: list(svc("default.t1/web", ":80"))}
	if got := resolve(w.view("t1")).hosts["a.x"].Paths[0]; got.Exact || got.Path != "/a" {
		t.Errorf("it is %+v", got)
	}
}

// What a space may not have, has not, or another has, leads nowhere, and its Ingress is told.
func TestHostsThatASpaceDoesNotHave(t *testing.T) {
	w := &world{services: list(svc("default.t1/web", ":80")), secrets: list(good(t, "default.t1/cert")),
		policy: newPolicy(), holders: newHolders(),
		ingresses: one(rule("kept.x", "Prefix / web:80"), rule("taken.x", "Prefix / web:80"),
			rule("new.x", "Prefix / web:80"), rule("*.x", "Prefix / web:80"), rule("", "Prefix / web:80"),
			otherwise("web:80"), tlsOf("cert"))}
	w.policy.set("t2", []string{"kept.x"})
	w.holders.set("t3", claims{"taken.x": {}})
	r := resolve(w.view("t1"))
	if len(r.hosts)+len(r.backends)+len(r.certificates)+len(r.served) != 0 {
		t.Errorf("nodes are told %v", linesOf(r))
	}
	if want := []string{"taken.x", "new.x"}; !slices.Equal(r.wants, want) || len(r.taken) == 0 {
		t.Errorf("it wants %q, want %q; contested: %v", r.wants, want, len(r.taken) > 0)
	}
	said := strings.Join(r.said(), "\n")
	for _, want := range []string{`HostNotAllowed: no requests for host "kept.x" are taken: it is kept`,
		`HostTaken: no requests for host "taken.x" are taken: another space has it`,
		`HostNotAllowed: no requests for host "*.x" are taken: a wildcard`,
		"HostNotAllowed: no requests for every host are taken: an Ingress of a tenant names its host"} {
		if !strings.Contains(said, want) {
			t.Errorf("it is told\n%s\nwithout %s", said, want)
		}
	}
	if strings.Contains(said, "new.x") {
		t.Errorf("it is told of a host that it is about to have:\n%s", said)
	}
	w.holders.set("t1", claims{"new.x": {}})
	r = resolve(w.view("t1"))
	if got := r.show(); !slices.Equal(got, []string{"new.x of t1: />default.t1/web:80 tls default.t1/cert"}) ||
		!r.served["default.t1/a"] {
		t.Errorf("with the host it has %q", got)
	}
}

func TestCertificatesOfHosts(t *testing.T) {
	for name, c := range map[string]struct {
		tls  []change
		want map[string]string // by host
	}{
		"none":          {nil, nil},
		"the very host": {list(tlsOf("one", "a.x")), map[string]string{"a.x": "one"}},
		"all hosts": {list(tlsOf("one")),
			map[string]string{"a.x": "one", "b.x": "one", "*.x": "one", "c.b.x": "one"}},
		"no Secret":       {list(tlsOf("", "a.x")), nil},
		"no Secret, then": {list(tlsOf("", "a.x"), tlsOf("one", "a.x")), map[string]string{"a.x": "one"}},
		"another host":    {list(tlsOf("one", "z.x")), nil},
		"a wildcard is for one more label": {list(tlsOf("one", "*.x")),
			map[string]string{"a.x": "one", "b.x": "one", "*.x": "one"}},
		"the first entry has it": {list(tlsOf("one", "a.x"), tlsOf("two", "a.x", "b.x"), tlsOf("one")),
			map[string]string{"a.x": "one", "b.x": "two", "*.x": "one", "c.b.x": "one"}},
		"one that is of no use gives way": {list(tlsOf("missing", "a.x"), tlsOf("two")),
			map[string]string{"a.x": "two", "b.x": "two", "*.x": "two", "c.b.x": "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{services: list(svc("default.t1/web", ":80")),
				secrets: list(good(t, "default.t1/one"), good(t, "default.t1/two"), good(t, "default.t2/missing"),
					good(t, "default/missing"), good(t, "other.t1/missing"))}
			w.ingresses = one(rule("a.x", "Prefix / web:80"), rule("b.x", "Prefix / web:80"),
				rule("*.x", "Prefix / web:80"), rule("c.b.x", "Prefix / web:80"), all(c.tls...))
			r := resolve(w.view("t1"))
			used := map[string]bool{}
			for host, at := range r.hosts {
				want := ""
				if secret := c.want[host]; secret != "" {
					want = "default.t1/" + secret
					used[want] = true
				}
				if at.Certificate != want {
					t.Errorf("%s has %q, want %q", host, at.Certificate, want)
				}
			}
			if len(r.certificates) != len(used) {
				t.Errorf("nodes are told %d certificates, want %v", len(r.certificates), used)
			}
			if wrong := r.sound("t1"); len(wrong) > 0 {
				t.Error(wrong)
			}
		})
	}
}

// What it depends on is known, there or not, so that a change of it counts.
func TestWhatASpaceDependsOn(t *testing.T) {
	w := &world{ingresses: one(rule("a.x", "Prefix / web:80", "Prefix /b gone:80"), tlsOf("gone"), tlsOf("cert")),
		services: list(svc("default.t1/web", ":80")), secrets: list(good(t, "default.t1/cert"))}
	r := resolve(w.view("t1"))
	for _, o := range []object{{kindService, "default.t1", "web"}, {kindService, "default.t1", "gone"},
		{kindSecret, "default.t1", "cert"}, {kindSecret, "default.t1", "gone"}} {
		if !r.uses[o] {
			t.Errorf("a change of %v would not count", o)
		}
	}
	want := []string{"default.t1/a BackendNotFound: there is no Service gone", "default.t1/a CertificateNotFound: " +
		"Secret gone: there is none of type kubernetes.io/tls; connections get a certificate that nobody signed"}
	if got := r.said(); !slices.Equal(got, want) {
		t.Errorf("it is told %q, want %q", got, want)
	}
}

// A certificate is read again only if its Secret is another one.
func TestACertificateIsReadOnce(t *testing.T) {
	w := &world{ingresses: one(rule("a.x", "Prefix / web:80"), tlsOf("cert"), tlsOf("cert")),
		secrets: list(good(t, "default.t1/cert"))}
	v := w.view("t1")
	first := resolve(v)
	asked, secret := 0, v.secret
	v.before = first.parsed
	v.secret = func(namespace, name string) *corev1.Secret { asked++; return secret(namespace, name) }
	second := resolve(v)
	const id = "default.t1/cert"
	if first.certificates[id] == nil || second.certificates[id] != first.certificates[id] || asked != 1 {
		t.Errorf("it was read again, or its Secret looked up %d times", asked)
	}
	w.secrets = list(good(t, id))
	v.secret = w.view("t1").secret
	if third := resolve(v); third.certificates[id] == nil || third.certificates[id] == first.certificates[id] {
		t.Error("another Secret is not read")
	}
	w.secrets = nil
	if fourth := resolve(v); len(fourth.certificates) != 0 || len(fourth.said()) == 0 {
		t.Error("a Secret that is gone is still there")
	}
}

func TestASpaceHasSoManyPaths(t *testing.T) {
	w := &world{services: list(svc("default.t1/web", ":80"))}
	w.ingresses = list(ing("default.t1/a", 2), ing("default.t1/b", 1, rule("b.x", "Prefix /b web:80")))
	paths := make([]string, mostPaths-1)
	for i := range paths {
		paths[i] = fmt.Sprintf("Prefix /%d web:80", i)
	}
	rule("a.x", paths...)(w.ingresses[0])
	r := resolve(w.view("t1"))
	if len(r.hosts["a.x"].Paths) != mostPaths-1 || r.hosts["b.x"] == nil || len(r.said()) != 0 {
		t.Errorf("at the bound there are %d hosts, and it is told %q", len(r.hosts), r.said())
	}
	rule("c.x", "Prefix /c web:80", "Prefix /d web:80")(w.ingresses[1])
	ingress := ing("default.t1/c", 0, rule("d.x", "Prefix / web:80"))
	w.ingresses = append(w.ingresses, ingress)
	r = resolve(w.view("t1"))
	if r.hosts["c.x"] != nil || r.hosts["d.x"] != nil || r.served["default.t1/c"] || !r.served["default.t1/b"] {
		t.Errorf("beyond the bound, served are %v", r.served)
	}
	if got := r.said(); len(got) != 2 || !strings.Contains(got[0], "default.t1/b TooManyPaths") ||
		!strings.Contains(got[1], "default.t1/c TooManyPaths") {
		t.Errorf("it is told %q", got)
	}
}

// A host beyond the bound is said, one that the space is about to have is not.
func TestHostsBeyondTheBoundAreSaid(t *testing.T) {
	w := &world{policy: newPolicy(), holders: newHolders(),
		ingresses: list(ing("default.t1/a", 2), ing("default.t1/b", 1))}
	for i := range mostHosts {
		rule(fmt.Sprintf("h%d.x", i), "Prefix / web:80")(w.ingresses[0])
	}
	rule("last.x", "Prefix / web:80")(w.ingresses[1])
	w.services = list(svc("default.t1/web", ":80"))
	if r := resolve(w.view("t1")); len(r.said()) != 0 || len(r.wants) != mostHosts+1 {
		t.Errorf("before it has one it wants %d, and is told %q", len(r.wants), r.said())
	}
	clock := int64(0)
	w.settle(t, &clock, "t1")
	r := resolve(w.view("t1"))
	if got := r.said(); len(got) != 1 || !strings.HasPrefix(got[0], "default.t1/b TooManyPaths: ") ||
		!strings.Contains(got[0], "more than 2000 hosts") || r.served["default.t1/b"] {
		t.Errorf("it is told %q, served are %v", got, r.served)
	}
}
