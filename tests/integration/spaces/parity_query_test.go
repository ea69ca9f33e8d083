package spaces_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// key is the name of a parameter, mostly as it should be.
func (g *parityMaker) key(name string) string {
	switch g.rand.IntN(20) {
	case 0:
		return strings.ToUpper(name[:1]) + name[1:]
	case 1:
		return strings.ToLower(name)
	case 2:
		return fmt.Sprintf("%%%02X%s", name[0], name[1:])
	}
	return name
}

// truth is a truth value in all spellings.
func (g *parityMaker) truth() string {
	if g.chance(40) {
		return "true"
	}
	return g.one("1", "True", "TRUE", "t", "T", "yes", "", "tRuE", "false", "0", "False", "f", "F", "no", "%20true",
		"true%20", "on", "2", "%74rue", "nil")
}

// number is a number, or what is taken for none.
func (g *parityMaker) number() string {
	return g.one("1", "2", "5", "0", "-1", "", "x", "1e3", "+5", "05", "99999999999999999999", "1.5", "%31", "0x10")
}

// selectors chooses what is listed.
func (g *parityMaker) selectors(r *parityRequest, percent int) {
	if g.chance(percent) {
		r.query = append(r.query, g.key("fieldSelector")+"="+escaped(g.fields(r)))
		if g.chance(8) {
			r.query = append(r.query, "fieldSelector="+escaped(g.fields(r)))
		}
	}
	if g.chance(percent) {
		r.query = append(r.query, g.key("labelSelector")+"="+escaped(g.labels()))
		if g.chance(8) {
			r.query = append(r.query, "labelSelector="+escaped(g.labels()))
		}
	}
}

func (g *parityMaker) fields(r *parityRequest) string {
	name := "par-1"
	if r.resource != nil && !r.resource.namespaced {
		name = g.one("par-1-par-a", "par-a", "par-1-par-b", "pars."+parityGroup)
	}
	one := func() string {
		return g.one("metadata.name="+name, "metadata.name="+name, "metadata.name!="+name, "metadata.name=="+name,
			"metadata.namespace=par-a", "metadata.namespace==par-a", "metadata.namespace!=par-a",
			"metadata.namespace!=", "metadata.namespace=",
			"metadata.name=", "metadata.name=nothing", "spec.nodeName=", "status.phase=Pending",
			"status.phase!=Pending", "type=Opaque", "spec.note=x", "spec.note=none", "spec.schedulerName=nobody",
			"involvedObject.namespace=par-a", "involvedObject.name=par-1",
			"involvedObject.kind=Pod", "regarding.namespace=par-a", "reason=R", "metadata.uid=x",
			"metadata.namespace=par-a\\,", "metadata.namespace in (par-a)", "x", "=", ",", "metadata.name=par-1=2",
			"metadata.name=a\\=b", "status.successful!=1", "spec.unschedulable=false",
			"metadata.namespace=par-a.b", "metadata.name=a.b", "Metadata.name=par-1", " metadata.name = par-1 ", "")
	}
	if g.chance(30) {
		return one() + "," + one()
	}
	return one()
}

func (g *parityMaker) labels() string {
	one := func() string {
		return g.one("app=web", "app==web", "app!=web", "app", "!app", "app in (web,db)", "app notin (web)",
			"app in ()", "app=", "app in (web", "kubernetes.io/metadata.name=par-a",
			"kubernetes.io/metadata.name!=par-a", "kubernetes.io/metadata.name in (par-a,par-b)",
			"kubernetes.io/metadata.name notin (par-a)", "kubernetes.io/metadata.name", "!kubernetes.io/metadata.name",
			"kubernetes.io/metadata.name=par-a.b", "x y", "app>1", "app<x", "-a=b", "app=-web", strings.Repeat("a",
				64)+"=b", "app="+strings.Repeat("a", 64), "a/b/c=d", "", ",", " app = web ", "app = web,")
	}
	if g.chance(30) {
		return one() + "," + one()
	}
	return one()
}

// readQuery adds what may stand in the query of a read, and what may not.
func (g *parityMaker) readQuery(r *parityRequest, percent int) {
	if !g.chance(percent) {
		return
	}
	g.selectors(r, 35)
	if g.chance(25) {
		r.query = append(r.query, g.key("resourceVersion")+"="+g.one("0", "0", "@NOW@", "@NOW@", "@BEFORE@", "1", "x",
			"", "-1", "999999999999"))
		if g.chance(60) {
			r.query = append(r.query,
				g.key("resourceVersionMatch")+"="+g.one("Exact", "NotOlderThan", "x", "exact", ""))
		}
	}
	if g.chance(15) {
		r.query = append(r.query, g.key("pretty")+"="+g.truth())
	}
	if g.chance(10) {
		r.query = append(r.query, g.key("timeoutSeconds")+"="+g.number())
	}
	if g.chance(8) && !r.pages {
		r.query = append(r.query, g.key("limit")+"="+g.one("0", "-1", "x", ""))
	}
	if g.chance(5) {
		r.query = append(r.query, g.key("continue")+"="+g.one("x", "",
			"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoieCJ9", "eyJ2IjoieCJ9"))
	}
	if g.chance(6) {
		r.query = append(r.query, g.one("dryRun=All", "allowWatchBookmarks=true", "includeObject=None",
			"includeObject=Object", "includeObject=Metadata", "includeObject=x", "export=true", "exact=true",
			"sendInitialEvents=true", "fieldManager=x", "fieldValidation=Strict", "unknown=1", "=", "&", "a%zz=b",
			"watch", "watch=0", "labelSelector", "fieldSelector=%zz", "shardSelector=x"))
	}
	for _, q := range r.query {
		if strings.Contains(strings.ToLower(q), "watch") {
			r.stream = true
		}
	}
}

// writeQuery adds what may stand in the query of a write.
func (g *parityMaker) writeQuery(r *parityRequest) {
	if g.chance(35) {
		r.query = append(r.query, g.key("fieldValidation")+"="+g.one("Strict", "Strict", "Strict", "Warn", "Warn",
			"Ignore", "strict", "x", ""))
	}
	if g.chance(20) {
		r.query = append(r.query,
			g.key("fieldManager")+"="+g.one("me", "me", "you", "", "a%00b", strings.Repeat("m", 129), "%C3%A4"))
	}
	if g.chance(5) {
		r.query = append(r.query, g.key("pretty")+"="+g.truth())
	}
	if g.chance(4) {
		r.query = append(r.query,
			g.one("force=true", "force=x", "orphanDependents=true", "propagationPolicy=x", "resourceVersion=1",
				"unknown=1", "gracePeriodSeconds=1", "timeoutSeconds=1", "timeout=10s", "timeout=x", "timeout=0s"))
	}
	// Only what may be done for good may be asked for wrongly.
	if g.chance(8) && (r.changes || slices.Contains(r.query, "dryRun=All")) {
		r.query = append(r.query, "dryRun="+g.one("All", "all", "", "None", "true"))
	}
}

// accept chooses the form of the answer.
func (g *parityMaker) accept(r *parityRequest) {
	const table, list, partial = ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
		";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	if g.chance(50) {
		r.header = append(r.header, [2]string{"Accept", g.one("application/json", "application/json",
			"application/yaml", parityProtobuf, parityProtobuf+",application/json", "application/json"+table,
			"application/json"+table, "application/json"+table+",application/json",
			"application/json"+list, "application/json"+partial, parityProtobuf+list, parityProtobuf+partial,
			parityProtobuf+table, "application/yaml"+table, "application/yaml"+partial,
			"application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/json;as=Table;v=v9;g=meta.k8s.io",
			"application/json;as=Nothing;v=v1;g=meta.k8s.io",
			"application/cbor", "application/cbor,application/json", "application/cbor-seq", "text/html", "*/*",
			"application/*", "", "x", "application/json;q=0.1,application/yaml", "application/json;stream=watch",
			parityProtobuf+";stream=watch", "application/json;pretty=1", "text/plain,application/json",
			"application/xml;q=0.9,*/*;q=0.8",
			"application/json; charset=utf-8", "application/JSON",
			"application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", ",",
			"application/json;profile=nopeer", "application/vnd.kubernetes.protobuf;type=watch")})
	}
	if g.chance(4) {
		r.header = append(r.header,
			[2]string{"User-Agent", g.one("Mozilla/5.0", "curl/8", "kubectl/v1.37.0 (linux/amd64) kubernetes/x")})
	}
	if g.chance(3) {
		r.header = append(r.header, [2]string{"Impersonate-User",
			g.one("bob", "parity", "system:serviceaccount:par-a:par-1", "system:serviceaccount:default:default")})
		if g.chance(40) {
			r.header = append(r.header, [2]string{
				"Impersonate-Group", g.one("devs", "system:masters", "system:serviceaccounts", "system:authenticated"),
			})
		}
	}
	if g.chance(3) && r.method == http.MethodGet {
		r.header = append(r.header, [2]string{"Accept-Encoding", g.one("gzip", "identity", "br", "*", "gzip;q=0")})
	}
}
